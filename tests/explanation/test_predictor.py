"""The predictor: any kind of picture, one or several, gets the answer that the network gives to the file."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import pixpnet as px
from pixpnet.data import ImageError
from pixpnet.model.weights import WeightsError


@pytest.fixture(scope="module")
def pixels() -> Any:
    return np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def file(pixels: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "noise.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def predictor() -> px.Predictor:
    return px.Predictor(px.create_model("pixpnet", backbone="small-21", num_classes=3, size=32))


KINDS: dict[str, Callable[[Path, Any], Any]] = {
    "text": lambda path, pixels: str(path),
    "path": lambda path, pixels: path,
    "bytes": lambda path, pixels: path.read_bytes(),
    "pil": lambda path, pixels: Image.fromarray(pixels),
    "array": lambda path, pixels: pixels,
    "tensor": lambda path, pixels: torch.from_numpy(pixels).permute(2, 0, 1),
    "sample": lambda path, pixels: px.read_sample(path),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_picture_gets_the_same_answer(
    kind: str, predictor: px.Predictor, file: Path, pixels: Any
) -> None:
    model = predictor.model
    with torch.no_grad():
        expected = model(model.preprocessing(file)[None]).logits[0].double().softmax(dim=0)
    picture = KINDS[kind](file, pixels)
    answer = predictor.predict(picture)
    assert answer.probabilities == pytest.approx(expected.tolist(), rel=1e-5)
    assert answer.label == int(expected.argmax())
    assert answer.class_name == predictor.class_names[answer.label] != answer.runner_up
    assert answer.probability == max(answer.probabilities)
    explanation = predictor.explain(picture)
    assert explanation.predicted.class_name == answer.class_name
    assert explanation.predicted.terms == px.explain(model, file).predicted.terms


def test_several_pictures_are_answered_in_their_order_whatever_the_batch(file: Path, pixels: Any) -> None:
    model = px.create_model("pixpnet", backbone="small-21", class_names=("jay", "wren", "robin"), size=32)
    others = [pixels[::-1].copy(), pixels[:, ::-1].copy(), file, Image.fromarray(255 - pixels), pixels]
    alone = [px.Predictor(model).predict(item) for item in others]
    batched = px.Predictor(model, batch_size=2).predict(others)
    assert [item.class_name for item in batched] == [item.class_name for item in alone]
    for one, many in zip(alone, batched, strict=True):
        assert many.probabilities == pytest.approx(one.probabilities, rel=1e-4)
    assert [item.image for item in batched][2] == str(file)
    assert px.Predictor(model).predict([]) == []
    explained = px.Predictor(model, batch_size=2).explain(others)
    for explanation, answer in zip(explained, alone, strict=True):
        assert explanation.predicted.class_name == answer.class_name
        assert explanation.predicted.share == pytest.approx(answer.probability, rel=1e-4)


def test_explanations_of_a_batch_can_be_proven(predictor: px.Predictor, pixels: Any) -> None:
    (proven,) = predictor.explain([pixels], proven=True)
    assert all(term.proof is not None and term.proof.passed for term in proven.predicted.terms)


def test_a_picture_with_an_orientation_stands_upright(predictor: px.Predictor, pixels: Any) -> None:
    turned = Image.fromarray(np.rot90(pixels).copy())
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown a quarter turn clockwise
    file = io.BytesIO()
    turned.save(file, format="png", exif=exif)
    upright, asked = predictor.predict(pixels), predictor.predict(file.getvalue())
    assert asked.probabilities == pytest.approx(upright.probabilities, rel=1e-5)
    assert predictor.predict(Image.open(file)).probabilities == pytest.approx(upright.probabilities, rel=1e-5)


def test_gray_pictures_are_shown_in_three_channels(predictor: px.Predictor, pixels: Any) -> None:
    gray = pixels[:, :, :1]
    expected = predictor.predict(np.repeat(gray, 3, axis=2)).probabilities
    for picture in (gray, gray[:, :, 0], torch.from_numpy(gray).permute(2, 0, 1), Image.fromarray(gray[:, :, 0])):
        assert predictor.predict(picture).probabilities == expected


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (np.zeros((4, 4, 3), np.float32), "uint8"),
        (torch.zeros(3, 4, 4), "uint8"),
        (np.zeros((2, 4, 4, 3), np.uint8), "shape"),
        (torch.zeros(4, 4, 3, dtype=torch.uint8), "shape"),
    ],
)
def test_what_is_no_picture_is_refused_with_what_to_do(predictor: px.Predictor, picture: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        predictor.predict(picture)


def test_other_things_are_refused_without_the_checks_of_tests() -> None:
    """In a process of its own: here, types are checked at every call."""
    code = (
        "import pixpnet as px\n"
        "predictor = px.Predictor(px.create_model(backbone='small-21', num_classes=2, size=32))\n"
        "for wrong in (lambda: predictor.predict(17), lambda: predictor.explain([None]), lambda: px.Predictor(17)):\n"
        "    try: wrong()\n"
        "    except TypeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    refused = done.stdout.splitlines()
    assert len(refused) == 3, done.stderr
    assert "got int" in refused[0] and "got NoneType" in refused[1] and "run folder" in refused[2]


@pytest.mark.parametrize("picture", [b"", b"no picture", np.zeros((0, 4, 3), np.uint8)])
def test_what_cannot_be_read_is_an_image_error(predictor: px.Predictor, picture: Any) -> None:
    with pytest.raises(ImageError):
        predictor.predict(picture)


def test_a_predictor_is_made_of_a_run_or_a_model(tmp_path: Path) -> None:
    with pytest.raises(px.ModelFileError, match="no model"):
        px.Predictor(tmp_path)
    model = px.create_model("tesnet", backbone="small-21", num_classes=2, size=32)
    model.save(tmp_path / "model.safetensors")
    assert px.Predictor(tmp_path / "model.safetensors").class_names == ("class 0", "class 1")


# Models in one call ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", px.MEMBERS)
def test_every_member_can_be_made_in_one_call(member: str) -> None:
    model = px.create_model(member, backbone="small-21", num_classes=3, size=32)
    assert (model.member, model.training) == (member, False)
    assert model(torch.zeros(1, 3, 32, 32)).logits.shape == (1, 3)


def test_the_same_seed_makes_the_same_model_and_a_network_of_ones_own_is_copied() -> None:
    own = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    one, same, other = (px.create_model(backbone=own, at="1", num_classes=2, size=16, seed=seed) for seed in (0, 0, 1))
    image = torch.rand(1, 3, 16, 16)
    assert torch.equal(one(image).logits, same(image).logits)
    assert not torch.equal(one(image).logits, other(image).logits)
    assert len(own) == 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, ValueError),
        ({"num_classes": 2, "class_names": ("a", "b")}, ValueError),
        ({"num_classes": 1}, ValueError),
        ({"class_names": "ab"}, TypeError),
        ({"num_classes": 2, "member": "protopnot"}, px.UnknownMember),
        ({"num_classes": 2, "backbone": "resnot18"}, px.UnknownModel),
        (
            {"num_classes": 2, "backbone": "resnet18", "at": "layer1", "size": 64, "weights": "nowhere.pth"},
            WeightsError,
        ),
    ],
)
def test_impossible_models_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        px.create_model(**{"backbone": "small-21", "size": 32, **options})
