"""``pixpnet demo``: the main job from start to end, with nothing at hand."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.extras import require

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.config import RunConfig
    from pixpnet.views.reporting import ReportPage

MODEL, LAYER, SIZE, PIXELS = "resnet18", "layer2", 224, 8
# Right answers to explain in the report, and wrong ones.
EXAMPLES = 2
# Of each species, to try the network on; they are in none of its splits.
NEW_BIRDS = "new-birds"


def add_arguments(parser: "ArgumentParser") -> None:
    """Declares the arguments of ``pixpnet demo``."""
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for everything that it makes"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the training run")
    parser.add_argument(
        "--serve", action="store_true", help="at the end, open the run as a page in the browser (pixpnet serve)"
    )


def run(args: "Namespace") -> int:
    """Shows the fields of a network, checks them, draws birds, trains on them, and ends with a report."""
    require("pixpnet demo", "train", "views")
    if args.serve:
        require("pixpnet demo --serve", "web")
    args.out.mkdir(parents=True, exist_ok=True)
    sound = _show_fields(args.out)
    _draw_birds(args.out)
    folder = args.out / (f"run-seed-{args.seed}" if args.seed else "run")
    _train(folder, args.seed)
    page = _report(folder, args.out / f"{folder.name.replace('run', 'report')}.html", args.seed)
    _conclude(folder, _draw_new_birds(args.out / NEW_BIRDS), page)
    if args.serve:
        from pixpnet.commands.serve import serve_run

        serve_run(folder, open_browser=True)
    return 0 if sound else 1


def demo_config(seed: int) -> "RunConfig":
    """What the demo trains: a small backbone from random weights, on drawn birds."""
    from pixpnet.config import RunConfig

    # Cells of its backbone see 37 x 37 of 96 x 96 pixels, less at the border: a part, and not most of the image.
    return RunConfig.of(preset="birds", data="birds", seed=seed)


def _show_fields(out: Path) -> bool:
    from pixpnet import zoo
    from pixpnet.fields import receptive_fields
    from pixpnet.fields.table import FieldTable
    from pixpnet.fields.verify import verify_fields
    from pixpnet.views.field_figure import save_field_figure
    from pixpnet.wording import percent

    model = zoo.build(MODEL)
    fields = receptive_fields(model, (3, SIZE, SIZE))
    stages = set(zoo.PAPER_LAYERS[MODEL])
    say = sys.stdout.write
    say(f"1. What each stage of {MODEL} looks at, for an image of {SIZE} x {SIZE} pixels:\n\n")
    say(f"{FieldTable(tuple(row for row in fields.table() if row.layer in stages))}\n\n")
    field = fields[LAYER]
    say(
        f"Cut at {LAYER}, a cell sees {percent(field.mean_fraction)} of the image: the size of a part. "
        f"Cut at layer4, it sees {percent(fields['layer4'].mean_fraction)}: nearly everything.\n\n"
    )
    say("Checking that against the real network, one NaN pixel at a time ...\n")
    sys.stdout.flush()
    verification = verify_fields(model, (3, SIZE, SIZE), PIXELS, fields=fields)
    picture = out / "fields.png"
    save_field_figure(fields, picture, title=MODEL, layer=LAYER)
    say(f"{verification}.\nThe picture of it: {picture}\n\n")
    return verification.passed


def _draw_birds(out: Path) -> None:
    from pixpnet.data import DataOptions, DrawnBirds, open_data
    from pixpnet.views.contact_sheet import contact_sheet, one_per_class

    sys.stdout.write("2. Birds to train on: twelve species that differ only in combinations of parts.\n")
    sys.stdout.flush()
    birds = open_data("birds", DataOptions(birds=DrawnBirds(size=SIZE, train=12 * 12, test=12 * 2)))
    sheet = out / "birds.png"
    contact_sheet(birds, one_per_class(birds, 6), birds.augmentation, views=3, seed=0).savefig(sheet, dpi=110)
    sys.stdout.write(f"Some of them, with their parts, before and after augmentation: {sheet}\n\n")


def _train(folder: Path, seed: int) -> None:
    from pixpnet.commands.train import summary
    from pixpnet.model import PixPNet
    from pixpnet.training import Run, resume, train
    from pixpnet.views.prototype_sheet import prototype_sheet
    from pixpnet.views.training_display import display
    from pixpnet.wording import percent

    say = sys.stdout.write
    say("3. Training a network on them, from random weights (two minutes or so on two cores).\n")
    sys.stdout.flush()
    if Run(folder).finished:
        values = Run(folder).read_metrics()
        say(f"{folder} is there already, from an earlier demo: test accuracy {percent(values['test']['accuracy'])}.\n")
        say(f"To train it again, remove {folder} or choose another --out.\n")
        return
    with display() as watcher:
        if (folder / "config.yaml").exists():
            metrics = resume(folder, watcher)
        else:
            metrics = train(demo_config(seed), folder, watcher)
    assert metrics is not None
    say("\n" + summary(metrics, folder))
    model = PixPNet.load(folder)
    sheet = folder.parent / f"{folder.name.replace('run', 'prototypes')}.png"
    prototype_sheet(model.class_names, model.origins or (), Run(folder).crops).savefig(sheet, dpi=110)
    say(
        f"\nWhere to look: {sheet} shows all prototypes, each exactly the pixels that its cell saw\n"
        f"(one by one in {folder / 'prototypes'}); {folder / 'prototypes.json'} says where they come from,\n"
        f"{folder / 'log.csv'} how the training went.\n"
    )


def _report(folder: Path, page: Path, seed: int) -> "ReportPage":
    from pixpnet.commands.device import choose_device
    from pixpnet.commands.report import how_to_open
    from pixpnet.views.console import plain_console
    from pixpnet.views.progress import progress_bars
    from pixpnet.views.reporting import report

    sys.stdout.write("\n4. Why it answers as it does: explaining a few birds, and putting every claim to the test.\n")
    sys.stdout.flush()
    with progress_bars(plain_console()) as progress:
        made = report(folder, examples=EXAMPLES, seed=seed, device=choose_device("auto"), progress=progress)
    size = made.write(page)
    sys.stdout.write(f"Everything on one page, in one file: {page} ({size / 1e6:.1f} MB)\n{how_to_open(page)}\n")
    return made


def _draw_new_birds(folder: Path) -> list[Path]:
    """One bird of each species as a file, with numbers behind those of every split of the run."""
    from PIL import Image

    from pixpnet.data import DrawnBirds
    from pixpnet.data.birds import SPECIES
    from pixpnet.data.drawn import birds_catalog
    from pixpnet.data.resample import pixels_of

    known = DrawnBirds(train=len(SPECIES)).test
    catalog = birds_catalog(DrawnBirds(train=len(SPECIES), test=known + len(SPECIES)))
    folder.mkdir(exist_ok=True)
    paths = []
    for entry in catalog.entries[-len(SPECIES) :]:
        paths.append(folder / f"{catalog.class_names[entry.label].replace(' ', '-')}.png")
        Image.fromarray(pixels_of(catalog.reader(entry))).save(paths[-1])
    return paths


def _conclude(folder: Path, birds: list[Path], page: "ReportPage") -> None:
    """Says what was found, and what to type next; all of it can be typed as it stands."""
    from pixpnet.commands.calling import command
    from pixpnet.records import from_plain
    from pixpnet.training import Metrics, Run
    from pixpnet.wording import percent

    metrics = from_plain(Metrics, Run(folder).read_metrics(), str(folder / "metrics.json"))
    say = sys.stdout.write
    say("\n5. What was found:\n")
    test = metrics.test
    if test is not None:
        low, high = test.interval.low, test.interval.high
        say(
            f"   {percent(test.accuracy)} of {test.images} birds that it never saw are given to their species (95 % "
            f"interval {percent(low)} to {percent(high)}; luck would give {percent(1 / len(test.confusion))}).\n"
        )
    say(
        f"   Its {metrics.prototypes} prototypes are parts of training images; a cell sees "
        f"{percent(metrics.mean_field)} of the image on average, {percent(metrics.largest_field)} at most.\n"
    )
    for tested in page.tested:
        say(
            f"   {tested.held} of {tested.terms} claims by the {tested.name} held when every pixel outside it was "
            "changed.\n"
        )
    picture = folder.parent / "explanation.png"
    say(
        f"\nTry it on birds that nobody has shown it ({birds[0].parent}):\n"
        f"  {command('predict', folder, birds[0].parent)}\n"
        f"  {command('explain', folder, birds[0], '--prove', '--out', picture)}\n"
        "and ask whether the paper's claims hold for it:\n"
        f"  {command('audit', folder)}\n"
        "Look around, and ask it about pictures of your own, on a page of this computer:\n"
        f"  {command('serve', folder, '--open')}\n"
    )
