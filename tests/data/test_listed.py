"""The list of a run's images: what was learnt from is never evaluated on, whatever happens to the files."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.data import DataError, Entry
from pixpnet.data.catalog import Split
from pixpnet.data.listed import ImageList, Placed, assign_splits

CLASSES = ("jay", "wren")
SPLITS: tuple[Split, ...] = ("train", "val", "test")
splits = st.sampled_from(SPLITS)
pictures = st.tuples(st.integers(0, 1), st.integers(0, 12))
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def entry(name: str, picture: str, label: int = 0) -> Entry:
    return Entry(name, label, "train", digest=picture)


def listed(*images: tuple[Split, Entry]) -> ImageList:
    return ImageList.of([(split, [image]) for split, image in images], CLASSES)


def placed(now: list[tuple[Split, Entry]], then: ImageList) -> Placed:
    return assign_splits([(split, [image]) for split, image in now], CLASSES, then)


def ids(entries: tuple[Entry, ...]) -> list[str]:
    return [one.id for one in entries]


@st.composite
def data_sets(draw: st.DrawFn) -> list[tuple[Split, Entry]]:
    """Few names and few pictures, so that files are kept, renamed, altered, copied, swapped and moved."""
    files = draw(st.dictionaries(st.integers(0, 12), st.tuples(splits, pictures)))
    return [
        (split, entry(f"{name}.jpg", f"picture {number}", label)) for name, (split, (label, number)) in files.items()
    ]


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[Split, Entry]]:
    """The same without leaks, which a run refuses when it begins: copies are in one split."""
    split_of = draw(st.lists(splits, min_size=13, max_size=13))
    return [(split_of[int((image.digest or "").split()[1])], image) for _, image in draw(data_sets())]


@given(runs(), data_sets())
def test_no_picture_that_was_learnt_from_is_ever_tested_on(
    then: list[tuple[Split, Entry]], now: list[tuple[Split, Entry]]
) -> None:
    result = placed(now, listed(*then))
    learnt = {image.digest for split, image in then if split != "test"}
    assert not learnt & {image.digest for image in result.test}
    everything = [*result.train, *result.val, *result.test]
    assert len({image.id for image in everything}) == len(everything)


@given(runs(), st.data())
def test_the_same_files_are_where_they_were_whatever_the_data_set_says_now(
    then: list[tuple[Split, Entry]], data: st.DataObject
) -> None:
    now = [(data.draw(splits), image) for _, image in then]
    result = placed(now, listed(*then))
    for split, entries in zip(SPLITS, (result.train, result.val, result.test), strict=True):
        assert ids(entries) == sorted(image.id for where, image in then if where == split)
    assert not (result.changes.missing or result.changes.altered or result.changes.fresh or result.changes.fresh_test)


@given(st.lists(st.tuples(splits, names, names), unique_by=lambda row: row[1]))
def test_a_list_is_read_back_as_it_was_written(rows: list[tuple[Split, str, str]]) -> None:
    then = listed(*[(split, entry(name, digest)) for split, name, digest in rows])
    assert ImageList.from_text(then.text) == then


def test_a_renamed_file_is_known_by_its_pixels_and_keeps_the_name_that_origins_have() -> None:
    then = listed(("train", entry("jay/1.jpg", "a")), ("test", entry("jay/2.jpg", "b")))
    result = placed([("test", entry("jay/renamed.jpg", "a")), ("test", entry("jay/2.jpg", "b"))], then)
    assert (ids(result.train), ids(result.test)) == (["jay/1.jpg"], ["jay/2.jpg"])
    assert result.changes.returned == ("jay/renamed.jpg",)
    assert not result.changes.missing


def test_a_copy_of_a_training_image_in_the_test_folder_is_left_out_and_said() -> None:
    then = listed(("train", entry("train/jay/1.jpg", "a")))
    now: list[tuple[Split, Entry]] = [
        ("train", entry("train/jay/1.jpg", "a")),
        ("test", entry("test/jay/copy.jpg", "a")),
        ("test", entry("test/jay/new.jpg", "b")),
    ]
    result = placed(now, then)
    assert ids(result.test) == ["test/jay/new.jpg"]
    assert result.changes.returned == ("test/jay/copy.jpg",)
    assert result.changes.fresh_test == ("test/jay/new.jpg",)
    assert (
        "1 image(s) that the run learnt from or was chosen by would be in the test split now: left out of it"
        in (result.changes.sentences[0])
    )


def test_a_test_file_that_became_a_training_picture_is_left_out() -> None:
    then = listed(("train", entry("1.jpg", "a")), ("test", entry("2.jpg", "b")))
    result = placed([("train", entry("1.jpg", "a")), ("test", entry("2.jpg", "a"))], then)
    assert (ids(result.train), ids(result.test)) == (["1.jpg"], [])


def test_new_images_are_tested_on_and_never_taken_for_those_of_the_run() -> None:
    then = listed(("train", entry("1.jpg", "a")), ("val", entry("2.jpg", "b")))
    fresh: list[tuple[Split, Entry]] = [(split, entry(f"{split}.jpg", split)) for split in SPLITS]
    result = placed([("train", entry("1.jpg", "a")), ("val", entry("2.jpg", "b")), *fresh], then)
    assert (ids(result.train), ids(result.val), ids(result.test)) == (["1.jpg"], ["2.jpg"], ["test.jpg"])
    assert sorted(result.changes.fresh) == ["train.jpg", "val.jpg"]


def test_an_altered_file_stays_on_its_side_and_is_named() -> None:
    then = listed(("train", entry("1.jpg", "a")))
    result = placed([("test", entry("1.jpg", "other pixels"))], then)
    assert (ids(result.train), ids(result.test), result.changes.altered) == (["1.jpg"], [], ("1.jpg",))


def test_drawn_images_are_known_by_name() -> None:
    drawn = replace(entry("train/000001", ""), digest=None)
    result = placed([("val", drawn)], listed(("train", drawn)))
    assert ids(result.train) == ["train/000001"]


@pytest.mark.parametrize(
    "text", ["", "split,id\n", "split,class,id,digest\ntrain,jay,1\n", "split,class,id,digest\nother,jay,1,a\n",
             "split,class,id,digest\ntrain,jay,1,a\ntest,jay,1,b\n"],
)  # fmt: skip
def test_a_damaged_list_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        ImageList.from_text(text)
