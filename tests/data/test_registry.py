from pathlib import Path

import numpy as np
import pytest
import torch

from pixpnet.data import (
    DataError,
    Preprocessing,
    Sample,
    guess_spec,
    open_data,
    parse_spec,
    preprocess,
    read_sample,
)
from pixpnet.data.homography import transform_points


def test_names_of_data_sets_have_a_kind_and_a_folder() -> None:
    assert parse_spec("birds").kind == "birds"
    spec = parse_spec("folder:C:/birds of prey")
    assert (spec.kind, str(spec.path)) == ("folder", "C:/birds of prey")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fish", "unknown data set 'fish': expected birds, cub:PATH"),
        ("", "unknown data set"),
        ("cub", "names no folder: write cub:PATH"),
        ("cub:", "names no folder: write cub:PATH"),
        ("birds:/tmp", "birds are drawn and have no folder"),
    ],
)
def test_other_names_are_refused_with_the_forms_there_are(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_spec(text)


def test_a_bare_folder_gets_a_hint_or_is_recognized(jays_and_wrens: Path) -> None:
    with pytest.raises(DataError, match="Did you mean folder:"):
        parse_spec(str(jays_and_wrens))
    assert guess_spec(str(jays_and_wrens)).kind == "folder"
    assert guess_spec("birds").kind == "birds"
    with pytest.raises(DataError, match="there is no folder"):
        guess_spec(str(jays_and_wrens / "none"))


def test_the_layout_of_cub_is_recognized(cub12: Path) -> None:
    assert guess_spec(str(cub12)).kind == "cub"


def test_a_single_file_is_read_like_one_of_a_data_set(jays_and_wrens: Path) -> None:
    data = open_data(f"folder:{jays_and_wrens}")
    entry = data.train[0]
    assert entry.path is not None
    sample = read_sample(entry.path)
    assert torch.equal(sample.image, data.reader(entry).image)
    assert sample.label == -1


def view(jays_and_wrens: Path) -> Sample:
    data = open_data(f"folder:{jays_and_wrens}")
    return preprocess(data.reader(data.train[0]), Preprocessing(80, 64, 32))


def test_a_box_of_the_network_leads_back_to_the_file(jays_and_wrens: Path) -> None:
    """40 x 50 becomes 80 x 100, cut to 64 from (8, 18), then halved; so one pixel is one of the file's."""
    sample = view(jays_and_wrens)
    assert sample.source_size == (40, 50)
    corners = transform_points(sample.to_source.numpy(), np.array([[4.0, 2.0], [20.0, 10.0]]))
    assert corners.round(6).tolist() == [[9 + 4, 4 + 2], [9 + 20, 4 + 10]]


def test_a_sample_without_a_box_says_so(jays_and_wrens: Path) -> None:
    assert view(jays_and_wrens).box is None
