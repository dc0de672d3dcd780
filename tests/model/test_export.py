"""A cut model goes through torch.export and gives the same numbers behind it."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from pixpnet import zoo

# One layer of each family of torchvision, and a size that it takes. A network with attention over a fixed number of
# patches takes its own size only.
FAMILIES = {
    "alexnet": ("alexnet", "features.5", 64),
    "convnext": ("convnext_tiny", "features.1", 32),
    "densenet": ("densenet121", "denseblock1", 32),
    "efficientnet": ("efficientnet_b0", "features.2", 32),
    "efficientnet_v2": ("efficientnet_v2_s", "features.2", 32),
    "googlenet": ("googlenet", "inception3a", 64),
    "inception": ("inception_v3", "Mixed_5b", 75),
    "maxvit": ("maxvit_t", "blocks.0", 224),
    "mnasnet": ("mnasnet0_5", "layers.8", 32),
    "mobilenet_v2": ("mobilenet_v2", "features.3", 32),
    "mobilenet_v3": ("mobilenet_v3_small", "features.2", 32),
    "regnet": ("regnet_y_400mf", "trunk_output.block1", 32),
    "resnet": ("resnet18", "layer1", 32),
    "resnext": ("resnext50_32x4d", "layer1", 32),
    "shufflenet": ("shufflenet_v2_x0_5", "stage2", 32),
    "squeezenet": ("squeezenet1_1", "maxpool1", 32),
    "swin": ("swin_t", "features.1", 32),
    "swin_v2": ("swin_v2_t", "features.1", 32),
    "vgg": ("vgg11", "maxpool2", 32),
    "vit": ("vit_b_32", "encoder.layers.encoder_layer_0", 224),
    "wide_resnet": ("wide_resnet50_2", "layer1", 32),
}
QUICK = ("resnet", "squeezenet")
OTHER_CUTS = {
    "several cuts": ("squeezenet1_1", "features.0,maxpool1", 32, ""),
    "windows": ("squeezenet1_1", "maxpool1", 32, "Windows(16, 8, 'features.0')"),
}

# In a process of its own: there the shapes of what torch.export puts in place of tensors are nobody's business.
_SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from torch.utils._pytree import tree_leaves
from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import Backbone, Output, PixPNet
from pixpnet.windows import Windows

name, at, size, windows = sys.argv[1], sys.argv[2], int(sys.argv[3]), eval(sys.argv[4] or "None")
torch.manual_seed(0)
backbone = Backbone(zoo.build(name), at, (size, size), (), windows)
how = Architecture(dim=8, prototypes_per_class=2)
model = PixPNet(backbone, how, ("jay", "wren", "kite"), Preprocessing().scaled_to(size)).eval()
program = torch.export.export(
    model, (torch.randn(2, 3, size, size),), dynamic_shapes=({0: torch.export.Dim("batch")},)
)
images = torch.randn(3, 3, size, size)
with torch.no_grad():
    expected, exported = model(images), program.module()(images)
    assert isinstance(exported, Output), type(exported)
    pairs = list(zip(tree_leaves(expected), tree_leaves(exported), strict=True))
    assert all(isinstance(one, torch.Tensor) for pair in pairs for one in pair)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
print(len(pairs), "tensors are the same")
"""


def exported(name: str, at: str, size: int, windows: str = "") -> str:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, name, at, str(size), windows], capture_output=True, text=True, cwd=root
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("family", QUICK)
def test_the_exported_model_gives_the_same_numbers_for_any_number_of_images(family: str) -> None:
    assert "tensors are the same" in exported(*FAMILIES[family])


@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in QUICK])
def test_every_family_of_torchvision_can_be_exported(family: str) -> None:
    assert "tensors are the same" in exported(*FAMILIES[family])


@pytest.mark.parametrize("kind", OTHER_CUTS)
def test_other_cuts_can_be_exported_too(kind: str) -> None:
    assert "tensors are the same" in exported(*OTHER_CUTS[kind])


def test_the_families_are_those_of_torchvision() -> None:
    import torchvision

    models = torchvision.models
    with warnings.catch_warnings(action="ignore"):
        known = models.list_models(module=models)
    modules = {models.get_model_builder(name).__module__ for name in known}
    assert {models.get_model_builder(name).__module__ for name, _, _ in FAMILIES.values()} == modules
    assert all(name in known for name, _, _ in FAMILIES.values())
    assert zoo.PAPER_LAYERS.keys() <= set(known)
