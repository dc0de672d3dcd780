"""A trained model to ask: pictures in, answers and reasons out. The network itself knows tensors only."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch
from torch import nn

from pixpnet.data import Sample
from pixpnet.data.pictures import Picture
from pixpnet.explanation.explaining import as_the_network_sees, explain_batch
from pixpnet.explanation.proving import prove
from pixpnet.explanation.record import Explanation
from pixpnet.model import PixPNet
from pixpnet.model.doubt import Doubt
from pixpnet.model.predicting import rankings


@dataclass(frozen=True)
class PredictedClass:
    """What a model takes a picture for.

    Attributes:
        image: the file, or a name.
        label: of the answer.
        class_name: of the answer.
        probability: calibrated where the model is (`calibrated`), else the softmax of its logit.
        runner_up: name of the next class.
        probabilities: of all classes, in the order of `Predictor.class_names`.
        calibrated: whether probabilities are.
        doubt: whether the picture looks like something that the model knows; None where it has no limit for that.
    """

    image: str
    label: int
    class_name: str
    probability: float
    runner_up: str
    probabilities: tuple[float, ...]
    calibrated: bool = False
    doubt: Doubt | None = None


class Predictor:
    """A trained model that takes pictures as people have them.

    It may be asked from several threads at once.

    Args:
        source: a run folder, a ``model.safetensors``, or a model.
        device: where to compute; by default where the model is, the CPU for one that is read.
        batch_size: how many pictures go through the network at once.
        trust_code: the backbone may be user code, which is imported and called. Only allow it for files that
            you trust.
        backbone: the network that a model file was trained on, where that was an object; see `PixPNet.load`.

    Raises:
        ModelFileError: if there is no such model.

    >>> import numpy as np
    >>> from pixpnet.model.creating import create_model
    >>> model = create_model("pixpnet", backbone="small-21", class_names=("jay", "wren"), size=32)
    >>> predictor = Predictor(model)
    >>> black = np.zeros((40, 50, 3), np.uint8)
    >>> predictor.predict(black).class_name in predictor.class_names
    True
    >>> len(predictor.explain([black, black]))
    2
    """

    def __init__(
        self,
        source: str | Path | PixPNet,
        device: str | torch.device | None = None,
        batch_size: int = 32,
        trust_code: bool = False,
        backbone: nn.Module | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"a batch has at least 1 picture, got {batch_size}")
        if not isinstance(source, (str, Path, PixPNet)):
            raise TypeError(f"a predictor asks a run folder, a model file or a model, got {type(source).__name__}")
        model = source if isinstance(source, PixPNet) else PixPNet.load(source, trust_code, backbone)
        self.model = (model if device is None else model.to(device)).eval()
        self.batch_size = batch_size

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that the model tells apart."""
        return self.model.class_names

    @overload
    def predict(self, pictures: Picture) -> PredictedClass: ...  # type: ignore[overload-overlap]  # str is a sequence

    @overload
    def predict(self, pictures: Sequence[Picture]) -> list[PredictedClass]: ...

    def predict(self, pictures: Picture | Sequence[Picture]) -> PredictedClass | list[PredictedClass]:
        """What the model takes a picture, or each of several, for.

        Raises:
            ImageError: if one of them cannot be read.
            TypeError: if one of them is no picture.
        """
        if not isinstance(pictures, (list, tuple)):
            return self._predict([pictures])[0]  # type: ignore[list-item]
        return self._predict(pictures)

    @overload
    def explain(  # type: ignore[overload-overlap]  # str is a sequence
        self, pictures: Picture, classes: Sequence[str | int] = (), proven: bool = False
    ) -> Explanation: ...

    @overload
    def explain(
        self, pictures: Sequence[Picture], classes: Sequence[str | int] = (), proven: bool = False
    ) -> list[Explanation]: ...

    def explain(
        self, pictures: Picture | Sequence[Picture], classes: Sequence[str | int] = (), proven: bool = False
    ) -> Explanation | list[Explanation]:
        """Why the model answers as it does, for a picture or each of several.

        Args:
            pictures: one, or a list.
            classes: further classes to explain, by name or label; where none is named, the runner-up.
            proven: put every claim to the test, which takes many forward passes.

        Raises:
            ImageError: if one of them cannot be read.
            TypeError: if one of them is no picture.
            UnknownClass: if a class is asked for that the model does not have.
        """
        if not isinstance(pictures, (list, tuple)):
            return self._explain([pictures], classes, proven)[0]  # type: ignore[list-item]
        return self._explain(pictures, classes, proven)

    def _predict(self, pictures: Sequence[Picture]) -> list[PredictedClass]:
        answers: list[PredictedClass] = []
        for samples in self._batches(pictures):
            for sample, ranking in zip(samples, rankings(self.model, samples), strict=True):
                first, second = ranking.labels[:2]
                names, shares = self.class_names, ranking.probabilities
                calibrated = self.model.calibration is not None
                answer = (sample.id, first, names[first], shares[first], names[second], shares)
                answers.append(PredictedClass(*answer, calibrated, ranking.doubt))
        return answers

    def _explain(self, pictures: Sequence[Picture], classes: Sequence[str | int], proven: bool) -> list[Explanation]:
        explanations: list[Explanation] = []
        for samples in self._batches(pictures):
            results = explain_batch(self.model, samples, classes)
            if proven:
                pairs = zip(samples, results, strict=True)
                results = tuple(prove(self.model, sample, explanation) for sample, explanation in pairs)
            explanations += results
        return explanations

    def _batches(self, pictures: Sequence[Picture]) -> list[list[Sample]]:
        samples = [
            as_the_network_sees(self.model, picture, f"picture {number}")
            for number, picture in enumerate(pictures, start=1)
        ]
        return [samples[start : start + self.batch_size] for start in range(0, len(samples), self.batch_size)]
