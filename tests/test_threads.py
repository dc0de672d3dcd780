"""One loaded model, eight threads: each gets bit for bit what it would have got alone."""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.data.sample import NO_ANNOTATION, Sample, source_sample
from pixpnet.explanation import Explanation, explain
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, FieldWarning, PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.windows import Windows
from tests.model.networks import Branching

THREADS, IMAGES, SIDE = 8, 24, 32


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    """Python looks for another thread after a microsecond instead of five milliseconds."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def tiny_transformer() -> nn.Module:
    import torchvision

    return torchvision.models.VisionTransformer(
        image_size=SIDE, patch_size=8, num_layers=2, num_heads=2, hidden_dim=12, mlp_dim=16, num_classes=5
    )


CUTS: dict[str, tuple[Callable[[], nn.Module], str, Windows | None, str]] = {
    "one cut": (lambda: zoo.build("resnet18"), "layer1", None, "max"),
    "a repeated layer": (lambda: zoo.build("resnet18"), "layer1.0.relu#2", None, "max"),
    "several cuts": (lambda: zoo.build("squeezenet1_1"), "features.0,maxpool1,features.4", None, "max"),
    "windows": (lambda: zoo.build("resnet18"), "layer1", Windows(16, 8, "maxpool"), "distinct"),
    "tokens": (tiny_transformer, "encoder.layers.encoder_layer_1", None, "max"),
    "early exit": (Branching, "relu#2", None, "max"),
    "early exit, several cuts": (Branching, "first,second", None, "max"),
}


def model_of(kind: str) -> PixPNet:
    build, at, windows, pooling = CUTS[kind]
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore", category=FieldWarning):
        backbone = Backbone(build().eval(), at, (SIDE, SIDE), (), windows)
    architecture = Architecture(dim=8, prototypes_per_class=3, pooling=pooling)
    return PixPNet(backbone, architecture, ("jay", "wren", "kite"), Preprocessing(None, SIDE, SIDE)).eval()


def pictures() -> list[Sample]:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    return [source_sample(pixels, -1, str(k), NO_ANNOTATION, masks=None) for k, pixels in enumerate(noise)]


def answers(model: PixPNet, sample: Sample) -> tuple[Explanation, list[Tensor]]:
    """An explanation, and what the network makes of noise that is this sample's own."""
    images = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(int(sample.id)))
    with torch.no_grad():
        output = model(images)
    maps = [grid.distance_maps for grid in output.matches.grids]
    return explain(model, sample), [output.logits, output.matches.scores, output.matches.cells, *maps]


@pytest.mark.parametrize("kind", CUTS)
def test_eight_threads_with_one_model_get_what_one_thread_gets(kind: str) -> None:
    alone = model_of(kind)
    expected = [answers(alone, sample) for sample in pictures()]
    model = model_of(kind)  # whose fields nobody has asked for yet
    begin = threading.Barrier(THREADS)

    def share(number: int) -> list[tuple[int, tuple[Explanation, list[Tensor]]]]:
        begin.wait()
        return [(k, answers(model, sample)) for k, sample in enumerate(pictures()) if k % THREADS == number]

    with ThreadPoolExecutor(THREADS) as pool:
        given = [answer for share_of_one in pool.map(share, range(THREADS)) for answer in share_of_one]
    assert len(given) == IMAGES
    for k, (explanation, tensors) in given:
        assert explanation == expected[k][0]
        assert all(torch.equal(one, other) for one, other in zip(tensors, expected[k][1], strict=True))


def test_a_model_that_is_built_does_not_disturb_one_that_answers() -> None:
    model = model_of("one cut")
    samples = pictures()[:4]
    expected = [answers(model, sample) for sample in samples]
    built = threading.Event()

    def build() -> None:
        try:
            for kind in ("a repeated layer", "early exit"):
                model_of(kind)
        finally:
            built.set()

    builder = threading.Thread(target=build)
    builder.start()
    rounds = 0
    while not built.is_set() or rounds == 0:
        for sample, (explanation, tensors) in zip(samples, expected, strict=True):
            again, numbers = answers(model, sample)
            assert again == explanation
            assert all(torch.equal(one, other) for one, other in zip(numbers, tensors, strict=True))
        rounds += 1
    builder.join()


def test_no_thread_gives_the_training_mode_back_while_another_one_evaluates() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm2d(3))
    model[0].eval()
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with evaluating(model):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(60)
    with evaluating(model[1]):
        leave.set()
        thread.join()
        assert not model.training or not model[1].training
        assert not model[1].training
    assert model.training
    assert model[1].training
    assert not model[0].training
