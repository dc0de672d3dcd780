"""Makes the pictures of the README anew, from a run of the demo: one command, and every picture is what the tool draws.

    pixpnet demo
    python studies/pictures.py --demo demo --out docs
    python studies/pictures.py --demo demo --search DIR --out docs --only front.png

| picture | made by |
|---|---|
| `birds.jpg` | twelve drawn birds, one of each species |
| `fields.png` | `pixpnet fields resnet18 --at layer2` |
| `prototypes.jpg` | the sheet of prototypes that the demo draws |
| `explanation.jpg` | `pixpnet explain RUN BIRD --prove`, of a bird that is in no split |
| `report.jpg` | the head of `pixpnet report RUN` and the first explained answer, in Chromium |
| `curves.png` | `pixpnet measure RUN`, which takes minutes (and opens the test split, on record) |
| `front.png` | the front of a search (`pixpnet goldilocks --out DIR`), where `--search` names one |
"""

import argparse
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from pixpnet.cli import main as pixpnet
from pixpnet.data import DrawnBirds
from pixpnet.data.birds import SPECIES
from pixpnet.data.drawn import birds_catalog
from pixpnet.data.resample import pixels_of
from pixpnet.model import PixPNet
from pixpnet.training import Run
from pixpnet.views.prototype_sheet import prototype_sheet

_QUALITY, _WIDEST = 88, 1600
_BIRD, _IN_A_ROW = 192, 6
_PAGE_WIDTH, _HEAD_HEIGHT, _ANSWER_HEIGHT, _ABOVE = 1280, 425, 775, 30
# The bird that the README explains, of those that the demo draws beside its splits.
_EXPLAINED = "new-birds"


@dataclass(frozen=True)
class Source:
    """What pictures are made from.

    Attributes:
        demo: the folder of a demo.
        bird: the file name of the bird to explain, in the demo's folder of new birds.
        search: the folder of a search, if there is one.
        scratch: for what is made on the way.
    """

    demo: Path
    bird: str
    search: Path | None
    scratch: Path

    @property
    def run(self) -> Path:
        """The demo's run."""
        return self.demo / "run"


def birds(source: Source, out: Path) -> None:
    """One bird of each species, in two rows."""
    catalog = birds_catalog(DrawnBirds(size=_BIRD, train=len(SPECIES), test=0))
    pictures = [pixels_of(catalog.reader(entry)) for entry in catalog.entries]
    rows = [np.concatenate(pictures[at : at + _IN_A_ROW], axis=1) for at in range(0, len(pictures), _IN_A_ROW)]
    Image.fromarray(np.concatenate(rows)).save(out, quality=_QUALITY)


def fields(source: Source, out: Path) -> None:
    """What single cells of a ResNet-18 see."""
    _command("fields", "resnet18", "--at", "layer2", "--out", str(out))


def prototypes(source: Source, out: Path) -> None:
    """All prototypes of the run."""
    model = PixPNet.load(source.run)
    sheet = source.scratch / "prototypes.png"
    prototype_sheet(model.class_names, model.origins or (), Run(source.run).crops).savefig(sheet, dpi=90)
    _as_jpeg(sheet, out)


def explanation(source: Source, out: Path) -> None:
    """Why one bird is what the network says, with the proof of it."""
    bird, figure = source.demo / _EXPLAINED / source.bird, source.scratch / "explanation.png"
    _command("explain", str(source.run), str(bird), "--prove", "--out", str(figure))
    _as_jpeg(figure, out)


def report(source: Source, out: Path) -> None:
    """What a person sees first of the report."""
    from playwright.sync_api import sync_playwright

    page_file, shot = source.scratch / "report.html", source.scratch / "report.png"
    _command("report", str(source.run), "--examples", "2", "--out", str(page_file))
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("report.jpg needs Chromium on PATH: make browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": _PAGE_WIDTH, "height": _HEAD_HEIGHT})
        page.goto(page_file.absolute().as_uri())
        page.screenshot(path=shot, full_page=True)
        answers = page.get_by_role("heading", name="Right answers").bounding_box()
        assert answers is not None
        below = int(answers["y"]) - _ABOVE
        chromium.close()
    with Image.open(shot) as whole:
        both = Image.new("RGB", (_PAGE_WIDTH, _HEAD_HEIGHT + _ANSWER_HEIGHT))
        both.paste(whole.crop((0, 0, _PAGE_WIDTH, _HEAD_HEIGHT)))
        both.paste(whole.crop((0, below, _PAGE_WIDTH, below + _ANSWER_HEIGHT)), (0, _HEAD_HEIGHT))
    both.save(out, quality=_QUALITY)


def curves(source: Source, out: Path) -> None:
    """How fast similarity comes back under each mapping."""
    _command("measure", str(source.run))
    shutil.copyfile(source.run / "measure" / "curves.png", out)


def front(source: Source, out: Path) -> None:
    """The front of a search."""
    if source.search is not None:
        shutil.copyfile(source.search / "front.png", out)


PICTURES: Mapping[str, Callable[[Source, Path], None]] = {
    "birds.jpg": birds,
    "fields.png": fields,
    "prototypes.jpg": prototypes,
    "explanation.jpg": explanation,
    "report.jpg": report,
    "curves.png": curves,
    "front.png": front,
}


def main() -> None:
    """Makes the pictures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--demo", type=Path, required=True, metavar="DIR", help="where `pixpnet demo --out` put its run"
    )
    parser.add_argument("--bird", default=f"{SPECIES[0].name.replace(' ', '-')}.png", help="the new bird to explain")
    parser.add_argument("--search", type=Path, default=None, metavar="DIR", help="a search, for front.png")
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="DIR", help="where pictures go")
    parser.add_argument("--only", nargs="+", choices=tuple(PICTURES), default=tuple(PICTURES), metavar="NAME")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        source = Source(args.demo, args.bird, args.search, Path(scratch))
        for name in args.only:
            PICTURES[name](source, args.out / name)
            print(args.out / name)


def _command(*words: str) -> None:
    code = pixpnet(list(words))
    if code:
        raise SystemExit(f"pixpnet {' '.join(words)} ended with {code}")


def _as_jpeg(picture: Path, out: Path) -> None:
    with Image.open(picture) as image:
        shown = image.convert("RGB")
        shown.thumbnail((_WIDEST, _WIDEST))
        shown.save(out, quality=_QUALITY)


if __name__ == "__main__":
    main()
