"""Folders of one's own images, and the keypoints beside them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pixpnet.data import BadFilesError, DataError, DataOptions, Opening, open_data
from pixpnet.data.folder import folder_catalog
from pixpnet.data.imagenette import CLASS_NAMES, imagenette_catalog

SaveNoise = Callable[..., Path]


def test_split_folders_decide_the_splits(tmp_path: Path, save_noise: SaveNoise) -> None:
    for seed, path in enumerate(["train/jay/a.png", "train/jay/deep/b.png", "Valid/jay/c.png", "test/jay/d.png"]):
        save_noise(tmp_path / path, seed)
    catalog = folder_catalog(tmp_path)
    assert {entry.id: entry.split for entry in catalog.entries} == {
        "train/jay/a.png": "train",
        "train/jay/deep/b.png": "train",
        "Valid/jay/c.png": "val",
        "test/jay/d.png": "test",
    }


def test_labels_are_alphabetical_and_ids_use_forward_slashes(jays_and_wrens: Path) -> None:
    catalog = folder_catalog(jays_and_wrens)
    assert catalog.class_names == ("jay", "wren")
    assert {entry.id.split("/")[0]: entry.label for entry in catalog.entries} == {"jay": 0, "wren": 1}


def test_names_that_only_look_different_are_one_name(tmp_path: Path, save_noise: SaveNoise) -> None:
    """macOS stores é as e and an accent; the split must not notice."""
    save_noise(tmp_path / "e\u0301tourneau" / "1.png", 0)
    assert folder_catalog(tmp_path).entries[0].id == "\u00e9tourneau/1.png"


def test_class_names_that_differ_by_case_only_are_refused(jays_and_wrens: Path, save_noise: SaveNoise) -> None:
    save_noise(jays_and_wrens / "JAY" / "1.png", 7)
    with pytest.raises(DataError, match="JAY and jay"):
        folder_catalog(jays_and_wrens)


def test_a_class_with_one_image_stays_in_train(jays_and_wrens: Path, save_noise: SaveNoise) -> None:
    save_noise(jays_and_wrens / "owl" / "1.png", 7)
    data = open_data(f"folder:{jays_and_wrens}")
    assert [entry.id for entry in data.train if entry.label == 1] == ["owl/1.png"]


def test_a_class_without_training_images_is_a_problem(tmp_path: Path, save_noise: SaveNoise) -> None:
    save_noise(tmp_path / "train" / "jay" / "1.png", 7)
    save_noise(tmp_path / "test" / "owl" / "1.png", 8)
    problems = folder_catalog(tmp_path).problems
    assert [(problem.where, problem.reason) for problem in problems] == [("owl", "class without training images")]


def test_what_lies_beside_the_split_folders_is_not_dropped_in_silence(tmp_path: Path, save_noise: SaveNoise) -> None:
    for path in ("train/jay", "test/jay", "extra/jay", "train"):
        save_noise(tmp_path / path / "1.png", len(path))
    save_noise(tmp_path / "train" / "jay" / ".hidden.png", 3)
    catalog = folder_catalog(tmp_path)
    assert {problem.where for problem in catalog.problems} == {"extra", "train/1.png"}
    assert catalog.ignored == ("train/jay/.hidden.png",)


@pytest.mark.parametrize(
    ("folders", "says"),
    [
        (["train/jay", "val/jay", "validation/jay"], "both claim to be the val split"),
        (["val/jay", "test/jay"], "no train folder"),
    ],
)
def test_split_folders_that_contradict_each_other_are_refused(
    folders: list[str], says: str, tmp_path: Path, save_noise: SaveNoise
) -> None:
    for number, folder in enumerate(folders):
        save_noise(tmp_path / folder / "1.png", number)
    with pytest.raises(DataError, match=says):
        folder_catalog(tmp_path)


def test_a_train_folder_alone_gives_up_a_test_split_that_no_seed_changes(tmp_path: Path, save_noise: SaveNoise) -> None:
    for number in range(20):
        save_noise(tmp_path / "train" / f"class{number % 2}" / f"{number}.png", number)
    openings: list[Opening] = []
    tests = [
        {
            entry.id
            for entry in open_data(f"folder:{tmp_path}", DataOptions(seed=seed)).test.open(openings.append, "why")
        }
        for seed in (0, 1, 2)
    ]
    # A fifth, each picture by its own pixels: no exact share, but every class has some on both sides.
    for name in ("class0", "class1"):
        assert 1 <= sum(name in id_ for id_ in tests[0]) <= 6
    assert tests[0] == tests[1] == tests[2]


def test_files_that_are_no_files_and_names_that_are_no_text_are_problems(tmp_path: Path, save_noise: SaveNoise) -> None:
    save_noise(tmp_path / "jay" / "1.png", 1)
    os.mkfifo(tmp_path / "jay" / "pipe.png")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/jay/caf\xe9.png")).write_bytes(b"x")
    reasons = [problem.reason for problem in folder_catalog(tmp_path).problems]
    assert sorted(reasons) == ["file name is not UTF-8: rename it", "not a regular file: remove it"]


def test_two_files_with_one_stable_name_do_not_stand_for_each_other(tmp_path: Path, save_noise: SaveNoise) -> None:
    save_noise(tmp_path / "jay" / "\u00e9.png", 1)
    (tmp_path / "jay" / "e\u0301.png").write_bytes(b"")
    save_noise(tmp_path / "wren" / "1.png", 2)
    with pytest.raises(BadFilesError, match="2 files have this stable name"):
        open_data(f"folder:{tmp_path}")


def test_a_cured_file_is_read_again_and_a_strip_is_refused(tmp_path: Path, save_noise: SaveNoise) -> None:
    for number in range(4):
        save_noise(tmp_path / f"class{number % 2}" / f"{number}.png", number)
    bad = tmp_path / "class0" / "bad.png"
    bad.write_bytes(b"0" * 3000)
    stamp = bad.stat()
    with pytest.raises(BadFilesError):
        open_data(f"folder:{tmp_path}")
    content = save_noise(tmp_path.parent / "good.png", 9, (30, 30)).read_bytes()
    bad.write_bytes(content + b"\0" * (3000 - len(content)) if len(content) < 3000 else content)
    os.utime(bad, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert open_data(f"folder:{tmp_path}").skipped == ()
    save_noise(tmp_path / "class1" / "strip.png", 10, (2, 200))
    with pytest.raises(BadFilesError, match="a strip, not a picture"):
        open_data(f"folder:{tmp_path}")


def test_empty_class_folders_are_a_problem(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "owl").mkdir()
    with pytest.raises(BadFilesError, match="owl: class folder without images"):
        open_data(f"folder:{jays_and_wrens}")


def test_unreadable_folders_are_a_problem(jays_and_wrens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made up, because a superuser may read everything."""
    import os

    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("wren"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    problems = folder_catalog(jays_and_wrens).problems
    assert ("wren", "folder cannot be read: Permission denied") in [(one.where, one.reason) for one in problems]


def test_folders_linked_in_a_circle_end(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "jay" / "again").symlink_to(jays_and_wrens / "jay", target_is_directory=True)
    assert len(folder_catalog(jays_and_wrens).entries) == 20


def test_other_files_are_listed_as_ignored_and_hidden_ones_are_not(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "jay" / "notes.txt").touch()
    (jays_and_wrens / "jay" / ".DS_Store").touch()
    assert folder_catalog(jays_and_wrens).ignored == ("jay/notes.txt",)


@pytest.mark.parametrize(("name", "message"), [("none", "there is no folder"), ("file", "is a file"), ("", "no class")])
def test_what_is_no_folder_of_images_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=message):
        folder_catalog(tmp_path / name)


def test_parts_csv_gives_keypoints_at_the_middle_of_their_pixels(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "parts.csv").write_text(
        "file,part,x,y,visible\njay/0.png,wing,10,20,1\njay/0.png,wing,12.5,22,1\njay/0.png,beak,3,4,0\n"
        "wren/1.png,beak,5,6,1\n"
    )
    catalog = folder_catalog(jays_and_wrens)
    assert (catalog.part_names, catalog.point_parts) == (("beak", "wing"), (0, 1, 1))
    samples = {entry.id: catalog.reader(entry) for entry in catalog.entries}
    jay, wren, other = samples["jay/0.png"], samples["wren/1.png"], samples["wren/2.png"]
    assert jay.visible.tolist() == [False, True, True]
    assert jay.keypoints[1:].tolist() == [[10.5, 20.5], [13.0, 22.5]]
    assert wren.visible.tolist() == [True, False, False]
    assert wren.keypoints[0].tolist() == [5.5, 6.5]
    assert not other.visible.any()


def test_points_outside_their_image_are_not_visible(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "parts.csv").write_text("file,part,x,y\njay/0.png,wing,50,39\njay/1.png,wing,49,39\n")
    catalog = folder_catalog(jays_and_wrens)
    seen = {entry.id: catalog.reader(entry).visible.tolist() for entry in catalog.entries}
    assert seen["jay/0.png"] == [False]  # the images are 50 wide
    assert seen["jay/1.png"] == [True]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("jay/none.png,wing,1,2", "names 'jay/none.png', which is not among the images"),
        ("jay/0.png,wing,left,2", "x and y must be numbers"),
        ("jay/0.png,wing,nan,2", "x and y must be numbers"),
        ("jay/0.png,wing", "x and y must be numbers"),
        ("jay/0.png,,1,2", "names no part"),
        ("jay/0.png,wing,1,2,yes", "`visible` is 0 or 1, not 'yes'"),
    ],
)
def test_a_wrong_line_in_parts_csv_is_named(jays_and_wrens: Path, line: str, reason: str) -> None:
    (jays_and_wrens / "parts.csv").write_text(f"file,part,x,y,visible\njay/1.png,wing,1,2,1\n{line}\n")
    with pytest.raises(BadFilesError) as caught:
        open_data(f"folder:{jays_and_wrens}")
    assert f"parts.csv, line 3: {reason}" in str(caught.value)


def test_parts_csv_without_a_header_is_refused(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "parts.csv").write_text("jay/0.png,wing,1,2\n")
    with pytest.raises(DataError, match="must name the columns file, part, x, y"):
        folder_catalog(jays_and_wrens)


def test_parts_csv_as_a_spreadsheet_saves_it_is_read(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "parts.csv").write_bytes("\ufefffile, part, x, y\r\njay\\0.png, wing, 1, 2\r\n".encode())
    assert folder_catalog(jays_and_wrens).part_names == ("wing",)
    (jays_and_wrens / "parts.csv").write_bytes("file,part,x,y\njay/0.png,flügel,1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        folder_catalog(jays_and_wrens)


def imagenette(root: Path, save_noise: SaveNoise) -> Path:
    places = [f"{split}/{wnid}/{number}.JPEG" for wnid in CLASS_NAMES for split in ("train", "val") for number in "012"]
    for seed, index in enumerate(places):
        save_noise(root / "imagenette2-320" / index, seed)
    return root


def test_imagenette_has_torchvisions_classes_and_its_val_is_our_test(tmp_path: Path, save_noise: SaveNoise) -> None:
    from torchvision.datasets import Imagenette

    root = imagenette(tmp_path, save_noise)
    catalog = imagenette_catalog(root)
    for split, theirs in (("train", "train"), ("test", "val")):
        expected = Imagenette(root, split=theirs, size="320px")
        ours = {(str(entry.path), entry.label) for entry in catalog.entries if entry.split == split}
        assert ours == set(expected._samples)
        assert [names[0] for names in expected.classes] == list(catalog.class_names)
    assert (catalog.preprocessing.shortest_side, catalog.preprocessing.crop) == (None, 224)  # App. E
    assert {entry.label for entry in open_data(f"imagenette:{root}").val} == set(range(10))


def test_another_folder_is_not_imagenette(jays_and_wrens: Path) -> None:
    with pytest.raises(DataError, match="not an ImageNette folder"):
        imagenette_catalog(jays_and_wrens)
