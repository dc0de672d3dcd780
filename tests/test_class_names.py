"""Names of classes: what people use goes all the way to a model that can be read, the rest stops before training."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.class_names import fault_of, printable
from pixpnet.cli import main
from pixpnet.data import DataError, open_data
from pixpnet.model import PixPNet
from pixpnet.training import train
from tests.training.material import draw_pictures, small_config, small_model

USED = {
    "no-break space": "blue\u00a0jay",
    "zero-width non-joiner": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "joined emoji": "\U0001f469\u200d\U0001f680",
    "soft hyphen": "night\u00adjar",
    "variation selector": "\u2764\ufe0f",
    "flag of tags": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "mark of direction": "\u05d0\u200f",
    "composed and not": "Gru\u0308nfink",
    "private use": "\ue000",
}
REFUSED = {
    "tab": "ja\ty",
    "new line": "ja\ny",
    "escape": "ja\x1b[2Jy",
    "override": "jay\u202egpj",
    "isolate": "jay\u2066x",
    "line separator": "ja\u2028y",
    "bytes that are no text": "ja\udcffy",
    "nothing": "",
    "nothing visible": "\u200b\u00ad",
}
ALIKE = {
    "soft hyphen": ("nightjar", "night\u00adjar"),
    "no-break space": ("blue jay", "blue\u00a0jay"),
    "composed": ("Gr\u00fcnfink", "Gru\u0308nfink"),
    "joiner": ("jay", "jay\u200c"),
    "space at the end": ("jay", "jay "),
    "the same": ("jay", "jay"),
}


@pytest.mark.parametrize("kind", USED)
def test_what_people_use_is_accepted(kind: str) -> None:
    assert fault_of([USED[kind], "wren"]) is None


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_terminal_would_obey_or_nobody_can_see_is_refused_and_shown_safely(kind: str) -> None:
    fault = fault_of(["wren", REFUSED[kind]])
    assert fault is not None and "rename it" in fault
    assert fault.isascii() and fault.isprintable()


@pytest.mark.parametrize("kind", ALIKE)
def test_two_classes_that_look_the_same_are_refused_by_both_names(kind: str) -> None:
    fault = fault_of(["wren", *ALIKE[kind]])
    assert fault is not None and "look the same" in fault
    assert all(ascii(name) in fault for name in ALIKE[kind])


@given(st.text())
def test_whatever_is_printed_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not set(shown) & {*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e", "\u2028", "\u2029"}


def renamed(root: Path, new: str) -> Path:
    draw_pictures(root)
    for split in ("train", "val", "test"):
        (root / split / "red").rename(root / split / new)
    return root


def test_a_run_with_odd_names_ends_with_a_model_that_can_be_read(tmp_path: Path) -> None:
    name = "".join(USED[kind] for kind in ("no-break space", "zero-width non-joiner", "joined emoji", "soft hyphen"))
    assert train(small_config(renamed(tmp_path / "squares", name)), tmp_path / "run") is not None
    assert name in PixPNet.load(tmp_path / "run").class_names


@pytest.mark.parametrize("name", ["r\ted", "gree\u00adn", "r\u202eed"])
def test_a_name_that_cannot_be_saved_stops_check_and_train_before_the_first_epoch(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = renamed(tmp_path / "squares", name)
    assert main(["data", "check", str(root)]) == 1
    assert main(["train", "--data", f"folder:{root}", "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert error.count("rename") == 2
    assert ascii(name) in error
    assert not (tmp_path / "run").exists()


def test_two_folders_of_one_readable_name_are_named(tmp_path: Path) -> None:
    """CUB's folders carry a number that is not part of the name."""
    (tmp_path / "parts").mkdir()
    contents = {
        "images.txt": "1 001.Jay/1.jpg\n2 002.Jay/2.jpg\n",
        "classes.txt": "1 001.Jay\n2 002.Jay\n",
        "image_class_labels.txt": "1 1\n2 2\n",
        "train_test_split.txt": "1 1\n2 1\n",
        "bounding_boxes.txt": "1 0 0 5 5\n2 0 0 5 5\n",
        "parts/parts.txt": "1 beak\n",
        "parts/part_locs.txt": "1 1 2 2 1\n2 1 2 2 1\n",
    }
    for file, text in contents.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(DataError, match=r"look the same: '001.Jay' and '002.Jay'"):
        open_data(f"cub:{tmp_path}")


@pytest.mark.parametrize("names", [("a\tb", "c"), ("jay", "ja\u00ady")])
def test_a_model_that_could_not_be_read_is_not_written(names: tuple[str, str], tmp_path: Path) -> None:
    model = small_model(classes=2)
    model.backbone_name, model.class_names = "small-21", names
    with pytest.raises(ValueError, match=r"cannot be saved.*rename"):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())
