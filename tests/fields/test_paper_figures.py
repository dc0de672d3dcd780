"""The mean receptive fields that the paper and the reference print, to the printed digits."""

import json
from pathlib import Path

import pytest

from pixpnet import receptive_fields
from pixpnet.zoo import PAPER_LAYERS

PRINTED = {
    ("vgg11", "maxpool4"): "8.31",
    ("vgg13", "maxpool4"): "9.69",
    ("vgg16", "maxpool4"): "15.7",
    ("vgg19", "maxpool4"): "22.8",
    ("vgg13", "maxpool5"): "33.5",
    ("vgg16", "maxpool5"): "52.5",
    ("vgg19", "maxpool5"): "70.4",
    ("vgg16_bn", "maxpool4"): "15.7",
    ("resnet18", "layer2"): "15.4",
    ("resnet50", "layer3"): "69.85",
    ("wide_resnet50_2", "layer3"): "69.85",
    ("resnext101_32x8d", "layer3"): "100",
    ("resnext101_64x4d", "layer3"): "100",
    ("densenet121", "denseblock2"): "29.75",
}


@pytest.mark.parametrize(("model", "layer"), PRINTED)
def test_the_papers_mean_receptive_fields_come_out_to_the_printed_digits(model: str, layer: str) -> None:
    printed = PRINTED[model, layer]
    digits = len(printed.partition(".")[2])
    mean = receptive_fields(model, (3, 224, 224))[layer].mean_fraction
    assert f"{100 * mean:.{digits}f}" == printed


def test_a_1x1_convolution_behind_a_dense_block_sees_more_than_its_mean_neuron() -> None:
    field = receptive_fields("densenet121", (3, 224, 224))["denseblock2"]
    assert f"{100 * field.mean_fraction:.2f}" == "29.75"
    assert f"{100 * field.mean_fraction_union:.2f}" == "66.33"


def test_every_figure_of_the_reference_comes_out_to_the_printed_digits(shared: Path) -> None:
    reference = json.loads((shared / "reference" / "mean_fields_224.json").read_text())["mean_fields"]
    for model, layers in reference.items():
        fields = receptive_fields(model, (3, 224, 224))
        result = {layer: round(100 * fields[layer].mean_fraction, 4) for layer in layers}
        assert result == layers, model


@pytest.mark.parametrize("model", PAPER_LAYERS)
def test_every_layer_of_the_papers_table_is_there_under_its_name(model: str) -> None:
    size = 299 if model == "inception_v3" else 224
    fields = receptive_fields(model, (3, size, size))
    # DenseNet's average pool is a function call inside forward: it has no module, and the error says so.
    for layer in PAPER_LAYERS[model]:
        if model.startswith("densenet") and layer == "avgpool":
            continue
        assert 0 < fields[layer].mean_fraction <= 1
