"""What relevance costs: PRP of one prototype, and of ten, against a forward pass; zennit's composite beside it.

    python benchmarks/relevance.py
    python benchmarks/relevance.py --windows

Random weights (the speed does not depend on them), one image of 224 x 224 pixels (384 on windows), one thread,
processor time, the contestants in turns, so that a busy machine slows all of them alike. Medians of ratios within a
round are shown. zennit is taken as it comes (EpsilonPlus, from the embedding of one cell), with its canonizer for the
network and its hooks. A prototype costs as much as its cell sees: "10 inner cells" are ten different ones in the
middle, which see the most. The first image of a network takes two passes more, for the check of what was recorded, and
is no part of this.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch
from torch import Tensor, nn
from zennit.attribution import Gradient
from zennit.canonizers import Canonizer
from zennit.composites import EpsilonPlus
from zennit.torchvision import ResNetCanonizer, VGGCanonizer

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.mapping.relevance import prp
from pixpnet.mapping.scene import Scene, scene
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, PixPNet
from pixpnet.windows import Windows
from results import arguments_of
from side_by_side import ratios

SIZE = 224
# In forward passes, of one prototype and of ten.
LIMITS = {"PRP, 1 prototype": 4.0, "PRP, 10 prototypes": 8.0}
CUTS: dict[tuple[str, str], type[Canonizer]] = {
    ("vgg16", "maxpool5"): VGGCanonizer,
    ("resnet18", "layer3"): ResNetCanonizer,
}


def on_windows() -> PixPNet:
    """Two classes of ten prototypes on windows as `--preset photos` has them."""
    torch.manual_seed(0)
    backbone = Backbone(zoo.build("resnet18"), "layer4", (384, 384), (), Windows(72, 40, "layer1"))
    architecture = Architecture(cells="normalized", pooling="distinct")
    return PixPNet(backbone, architecture, ("jay", "wren"), Preprocessing().scaled_to(384)).eval()


def windows_table(rounds: int) -> None:
    """Prints the ratios on windows; each of ten prototypes has a window of its own."""
    model = on_windows()
    image = torch.randn(3, 384, 384, generator=torch.Generator().manual_seed(0))
    one, ten = scene(model, image, [0]), scene(model, image, list(range(10)))

    def forward() -> None:
        with torch.no_grad():
            model(image[None])

    contestants = {
        "forward pass": forward,
        "PRP, 1 prototype": lambda: prp(one),
        "PRP, 10 prototypes": lambda: prp(ten),
    }
    for contestant, ratio in ratios(contestants, rounds, "relevance: windows, ").items():
        print(f"  resnet18 @ layer4, windows 384:72:40: {contestant:28s} {ratio:6.2f}", flush=True)


def network(name: str, at: str) -> PixPNet:
    """Two classes of ten prototypes."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these cells see most of the image, which is not the question here
        backbone = Backbone(zoo.build(name), at, (SIZE, SIZE))
    return PixPNet(backbone, Architecture(), ("jay", "wren"), Preprocessing().scaled_to(SIZE)).eval()


def by_zennit(model: PixPNet, image: Tensor, canonizer: type[Canonizer]) -> Callable[[], object]:
    """A function that propagates the embedding of one cell to the pixels, by zennit's hooks."""
    embed = nn.Sequential(model.backbone, model.add_on)

    def one_cell(embeddings: Tensor) -> Tensor:
        relevance = torch.zeros_like(embeddings)
        relevance[..., 3, 3] = embeddings[..., 3, 3]
        return relevance

    def work() -> object:
        with Gradient(model=embed, composite=EpsilonPlus(canonizers=[canonizer()])) as attributor:
            return attributor(image[None], one_cell)

    return work


def at_inner_cells(about: Scene) -> Scene:
    """The same prototypes, found at cells around the middle."""
    (part,) = about.grids
    rows, cols = part.similarity_maps.shape[-2:]
    inner = [(row, col) for row in range(rows // 2 - 1, rows // 2 + 2) for col in range(cols // 2 - 2, cols // 2 + 2)]
    return replace(about, grids=(replace(part, cells=torch.tensor(inner[: len(part.cells)])),))


def table(name: str, at: str, rounds: int) -> dict[str, float]:
    """Prints the ratios of one cut."""
    model = network(name, at)
    image = torch.randn(3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    one, ten = scene(model, image, [0]), scene(model, image, list(range(10)))
    inner = at_inner_cells(ten)

    def forward() -> None:
        with torch.no_grad():
            model(image[None])

    result = ratios(
        {
            "forward pass": forward,
            "PRP, 1 prototype": lambda: prp(one),
            "PRP, 10 prototypes": lambda: prp(ten),
            "PRP, 10 inner cells": lambda: prp(inner),
            "zennit EpsilonPlus, 1 cell": by_zennit(model, image, CUTS[name, at]),
        },
        rounds,
        f"relevance: {name} @ {at}, ",
    )
    for contestant, ratio in result.items():
        print(f"  {name} @ {at}: {contestant:28s} {ratio:6.2f}", flush=True)
    return result


def main() -> int:
    """Measures and prints; the exit code says whether the limit holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--windows", action="store_true", help="windows alone")
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    print("relevance / a forward pass on the same image")
    windows_table(arguments.rounds)
    if arguments.windows:
        return 0
    result = {cut: table(*cut, arguments.rounds) for cut in CUTS}
    reached = {name: result["vgg16", "maxpool5"][name] for name in LIMITS}
    for name, limit in LIMITS.items():
        print(f"wanted on vgg16 @ maxpool5: {name} at most {limit}, reached: {reached[name]:.2f}")
    return 0 if all(reached[name] <= limit for name, limit in LIMITS.items()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
