"""``pixpnet demo``: the main job from start to end, with nothing at hand."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

MODEL, LAYER, SIZE, PIXELS = "resnet18", "layer2", 224, 8


def add_arguments(parser: "ArgumentParser") -> None:
    """Declares the arguments of ``pixpnet demo``."""
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where to put what it makes")


def run(args: "Namespace") -> int:
    """Shows the fields of a network, checks them against the real one, and draws birds to train on."""
    from pixpnet import zoo
    from pixpnet.data import DataOptions, DrawnBirds, open_data
    from pixpnet.fields import receptive_fields
    from pixpnet.fields.table import FieldTable, percent
    from pixpnet.fields.verify import verify_fields
    from pixpnet.views.contact_sheet import contact_sheet, one_per_class
    from pixpnet.views.field_figure import save_field_figure

    model = zoo.build(MODEL)
    fields = receptive_fields(model, (3, SIZE, SIZE))
    stages = set(zoo.PAPER_LAYERS[MODEL])
    say = sys.stdout.write
    say(f"What each stage of {MODEL} looks at, for an image of {SIZE} x {SIZE} pixels:\n\n")
    say(f"{FieldTable(tuple(row for row in fields.table() if row.layer in stages))}\n\n")
    field = fields[LAYER]
    say(
        f"Cut at {LAYER}, a cell sees {percent(field.mean_fraction)} of the image: the size of a part. "
        f"Cut at layer4, it sees {percent(fields['layer4'].mean_fraction)}: nearly everything.\n\n"
    )
    say("Checking that against the real network, one NaN pixel at a time ...\n")
    verification = verify_fields(model, (3, SIZE, SIZE), PIXELS, fields=fields)
    say(f"{verification}.\n\n")
    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "fields.png"
    save_field_figure(fields, picture, title=MODEL, layer=LAYER)
    say(f"The picture of it: {picture}\n\n")
    say("Drawing birds to train on, with their parts, before and after augmentation ...\n")
    birds = open_data("birds", DataOptions(birds=DrawnBirds(size=SIZE, train=12 * 12, test=12 * 2)))
    sheet = args.out / "birds.png"
    contact_sheet(birds, one_per_class(birds, 6), birds.augmentation, views=3, seed=0).savefig(sheet, dpi=110)
    say(f"The contact sheet: {sheet}\n")
    return 0 if verification.passed else 1
