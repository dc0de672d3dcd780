"""What tests of single members share: networks that see pixels as embeddings, and runs on coloured squares."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pixpnet.config import RunConfig
from pixpnet.data import Preprocessing, preprocess
from pixpnet.model import Backbone, PixPNet
from pixpnet.training import Metrics, open_run_data, train
from pixpnet.training.fitting import Fitting


def pixel_model(member: str, architecture: Any, classes: int, size: int) -> PixPNet:
    """Its embeddings are the pixels themselves: three numbers a cell."""
    names = [f"class {label}" for label in range(classes)]
    backbone = Backbone(nn.Conv2d(3, 4, 1), "", (size, size))
    model = PixPNet(backbone, architecture, names, Preprocessing().scaled_to(size), member=member)
    model.embed = lambda images: (images,)  # type: ignore[method-assign]
    return model


@dataclass(frozen=True)
class Trained:
    """A finished run, and its model as anyone would load it."""

    path: Path
    config: RunConfig
    metrics: Metrics
    model: PixPNet

    def images(self, split: str = "val") -> Tensor:
        """The images of a split as the network gets them."""
        data = open_run_data(self.config)
        entries: Sequence[Any] = getattr(data, split)
        samples = [preprocess(data.reader(entry), self.model.preprocessing) for entry in entries]
        return torch.stack([sample.image.as_subclass(Tensor) for sample in samples])

    def patches(self) -> list[Tensor]:
        """The embedding of the patch that each prototype is said to be."""
        data = open_run_data(self.config)
        entries = {entry.id: entry for entry in data.train}
        result = []
        for origin in self.model.origins or ():
            sample = preprocess(data.reader(entries[origin.image]), self.model.preprocessing)
            with torch.no_grad():
                cells = self.model.embed(sample.image.as_subclass(Tensor)[None])[origin.grid][0]
            result.append(cells[:, origin.row, origin.col])
        return result


def trained_run(config: RunConfig, path: Path, after_step: Callable[[Fitting], None]) -> Trained:
    """Trains, shows what there is after every step, and loads what came out."""
    original = Fitting.on_train_batch_end

    def ended(self: Fitting, *args: Any) -> None:
        original(self, *args)
        after_step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fitting, "on_train_batch_end", ended)
        metrics = train(config, path)
    assert metrics is not None
    return Trained(path, config, metrics, PixPNet.load(path))
