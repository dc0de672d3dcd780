"""`pixpnet data check PATH` and `pixpnet data show PATH --out grid.png`.

Both return an exit code: 0 all is well, 1 something is wrong with the data, 2 there is no such data set.
Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars
from pixpnet.wording import percent

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser
    from rich.console import Console

    from pixpnet.data.checking import DataCheck
    from pixpnet.data.errors import Problem

# Of a contact sheet: more take minutes and gigabytes, and are too small to see.
_MOST_PANELS = 1000
_SHOWN = 20


def add_check_arguments(parser: ArgumentParser) -> None:
    """Declares what `check` takes."""
    parser.add_argument("path", type=str, help=_PATH_HELP)
    parser.add_argument("--seed", type=int, default=0, help="of the split into train, validation and test")
    parser.add_argument("--all", dest="everything", action="store_true", help="list every finding, not the first 20")


def add_show_arguments(parser: ArgumentParser) -> None:
    """Declares what `show` takes."""
    parser.add_argument("path", type=str, help=_PATH_HELP)
    parser.add_argument("--out", type=str, default="grid.png", help="where to write the picture")
    parser.add_argument("--images", type=int, default=8, help="how many images, one class after the other")
    parser.add_argument("--views", type=int, default=3, help="augmented views of each image")
    parser.add_argument("--seed", type=int, default=0, help="of the augmentation")


def check(path: str, seed: int = 0, everything: bool = False) -> int:
    """Reads every image of a data set and prints a verdict.

    Args:
        path: a folder, or `birds`, `cub:PATH`, `cars:PATH`, `imagenette:PATH`, `folder:PATH`.
        seed: of the split.
        everything: list every finding instead of the first 20.

    Returns:
        0 if the data set can be trained on as it is, 1 if not, 2 if there is none.
    """
    from pixpnet.data import DataError, DataOptions, guess_spec
    from pixpnet.data import check as examine
    from pixpnet.data.errors import ClassNameError

    console = _console()
    try:
        with progress_bars(console) as progress:
            checked = examine(guess_spec(path), DataOptions(seed=seed), progress)
    except DataError as error:
        code = _fail(error)
        return 1 if isinstance(error, ClassNameError) else code
    _print_check(console, checked, shown=None if everything else _SHOWN)
    return 0 if checked.sound else 1


def show(path: str, out: str = "grid.png", images: int = 8, views: int = 3, seed: int = 0) -> int:
    """Draws a contact sheet: images with their parts, before and after augmentation.

    Args:
        path: a folder, or `birds`, `cub:PATH`, `cars:PATH`, `imagenette:PATH`, `folder:PATH`.
        out: the picture to write; its ending (.png, .pdf, .svg) decides the format.
        images: how many images, one class after the other.
        views: augmented views of each.
        seed: of the augmentation.

    Returns:
        0 if the sheet was written, 2 if there is no such data set or it cannot be written.
    """
    from pixpnet.data import DataError, DataOptions, guess_spec
    from pixpnet.data.registry import open_spec
    from pixpnet.views.contact_sheet import contact_sheet, one_per_class

    console = _console()
    if images < 1 or views < 0 or seed < 0:
        return _fail(
            ValueError(f"--images {images} --views {views} --seed {seed}: at least 1 image, no negative numbers")
        )
    if min(images, _MOST_PANELS) * (views + 1) > _MOST_PANELS:
        return _fail(ValueError(f"--images {images} --views {views}: a sheet has at most {_MOST_PANELS} pictures"))
    try:
        options = DataOptions(on_bad="skip", on_leak="report")
        with progress_bars(console) as progress, warnings.catch_warnings(action="ignore"):
            data = open_spec(guess_spec(path), options, progress)
        sheet = contact_sheet(data, one_per_class(data, images), data.augmentation, views, seed)
        sheet.savefig(out, dpi=110)
    except (DataError, OSError, ValueError) as error:
        return _fail(error)
    if data.skipped or data.leaks:
        console.print(
            f"{len(data.skipped)} unusable file(s) left out, {len(data.leaks)} test image(s) also in train: "
            f"see pixpnet data check {path}"
        )
    console.print(f"{min(images, len(data.train))} images of {data.name} -> {Path(out)}", markup=False)
    return 0


_PATH_HELP = (
    "a folder of images (its layout is recognised), or birds, cub:PATH, cars:PATH, imagenette:PATH, folder:PATH"
)


def _print_check(console: Console, checked: DataCheck, shown: int | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(checked.name), title_justify="left", caption_justify="left")
    table.add_column("class")
    for split in ("train", "val", "test"):
        table.add_column(split, justify="right")
    for count in checked.counts:
        table.add_row(escape(count.name), str(count.train), str(count.val), str(count.test))
    table.add_section()
    totals = [sum(getattr(count, split) for count in checked.counts) for split in ("train", "val", "test")]
    table.add_row(f"{len(checked.counts)} classes", *map(str, totals))
    console.print(table)
    if not totals[2]:
        console.print("no test split: nothing can be evaluated on images that were never seen")
    low, middle, high = checked.shortest_sides
    console.print(f"shortest side: {low} to {high} pixels, median {middle}")
    for name, statistics in (("measured", checked.measured), ("published, used instead", checked.published)):
        if statistics is not None:
            mean, std = (", ".join(f"{value:.4f}" for value in values) for values in (statistics.mean, statistics.std))
            console.print(f"mean ({mean}), std ({std}), {name}")
    _print_parts(console, checked)
    _print_list(console, "unusable files or folders", [_line(problem) for problem in checked.problems], shown)
    copies = [f"{leak.test_id} (test) is {leak.train_id} (train)" for leak in checked.leaks]
    _print_list(console, "test images that are also in train", copies, shown)
    copies = [f"{leak.test_id} (val) is {leak.train_id} (train)" for leak in checked.validation_leaks]
    _print_list(console, "validation images that are also in train, left out of validation", copies, shown)
    same = [" is ".join(picture.ids) for picture in checked.contradictions]
    _print_list(console, "pictures that are in more than one class", same, shown)
    _print_list(console, "classes without a usable training image", list(checked.untrainable), shown)
    _print_list(console, "classes with a single training image", list(checked.lonely), shown)
    _print_list(console, "files ignored, no image by their name", list(checked.ignored), shown)
    if checked.sound and checked.doubts:
        console.print(f"[bold]can be trained on, but:[/bold] {escape('; '.join(checked.doubts))}")
    elif checked.sound:
        console.print("[bold]fine:[/bold] this data set can be trained on as it is")
    else:
        console.print(f"[bold]not fine:[/bold] {_cure(checked)}")


def _print_parts(console: Console, checked: DataCheck) -> None:
    if not checked.coverage:
        console.print("parts: none annotated")
        return
    shares = ", ".join(f"{part.part} {percent(part.fraction)}" for part in checked.coverage)
    console.print(f"parts visible in: {shares}", markup=False)
    if checked.points_outside:
        console.print(f"points marked visible but outside their image: {checked.points_outside}, taken as not visible")


def _print_list(console: Console, title: str, lines: list[str], shown: int | None) -> None:
    if not lines:
        return
    console.print(f"[bold]{title}: {len(lines)}[/bold]")
    for line in lines[:shown]:
        console.print(f"  {line}", markup=False, highlight=False)
    if shown is not None and len(lines) > shown:
        console.print(f"  ... and {len(lines) - shown} more (--all lists them)")


def _cure(checked: DataCheck) -> str:
    cures = []
    if checked.problems:
        cures.append("repair or remove the unusable files, or go on without them (on_bad=skip)")
    if checked.leaks:
        cures.append("remove one copy of each picture that is in test and in train")
    if checked.contradictions:
        cures.append("decide for each picture that is in more than one class which one it shows, and remove the others")
    if not checked.validation_images:
        cures.append("add images: there are too few for a validation split, on which the model is chosen")
    if checked.untrainable:
        cures.append("add training images to the classes that have none, or remove the classes")
    if checked.blank:
        cures.append(
            "the images do not differ in some channel, so they cannot be normalised: are they really pictures?"
        )
    if len(checked.counts) < 2:
        cures.append("a classifier needs at least two classes")
    return "; ".join(cures)


def _line(problem: Problem) -> str:
    return f"{problem.where}: {problem.reason}"


def _console() -> Console:
    # A pipe or a file gets plain lines of any length.
    wide = {} if sys.stdout.isatty() else {"width": 160, "soft_wrap": True}
    return plain_console(stderr=False, **wide)


def _fail(error: Exception) -> int:
    sys.stderr.write(f"pixpnet data: {error}\n")
    return 2
