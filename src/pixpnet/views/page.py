"""Pages: one self-contained HTML file each, which opens from disk and asks nobody for anything.

Templates and styles are in `pages/`. Everything that comes from outside (names of classes and files) is escaped by
jinja2; pictures and outlines are embedded once (`stock`) and shown by reference.
"""

from collections.abc import Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from pixpnet.colors import ON_REGIONS, REGIONS
from pixpnet.explanation import Explanation
from pixpnet.explanation.explaining import score_note
from pixpnet.explanation.text import score_text
from pixpnet.model import PixPNet
from pixpnet.settings import kept_epoch
from pixpnet.views.blocks import explanation_block, prototype_blocks
from pixpnet.views.report import (
    Report,
    evaluated,
    grid_blocks,
    hardest_classes,
    surroundings,
    taken_for,
    tested,
    worst,
)
from pixpnet.views.stock import Stock
from pixpnet.views.tree_blocks import tree_block
from pixpnet.views.words import CLAIM, SEES_EVERYTHING, change, deviation, percent

_MANY_PROTOTYPES = 400
# Pixels of the longer side: parts of a picture are shown large.
_LARGE_ENOUGH = 512
_FEW_CLASSES = 30  # more do not fit into a table that a person reads
_OPEN_CLASSES = 20
# Of the wrong answers, how many are listed one by one.
_MISTAKES = 20
_HARDEST = 15


def explanation_page(explanations: Sequence[Explanation]) -> str:
    """A page that explains some images.

    Raises:
        ValueError: if there are none.
    """
    if not explanations:
        raise ValueError("a page of explanations needs at least one")
    stock = Stock(longest=_LARGE_ENOUGH)
    blocks = [explanation_block(explanation, stock) for explanation in explanations]
    first = explanations[0]
    title = f"Why {first.predicted.class_name}?" if len(blocks) == 1 else f"{len(blocks)} images explained"
    patches = any(term.origin is not None for shown in explanations for term in shown.predicted.terms)
    return _render(
        "explanation.html", stock, {"title": title, "blocks": blocks, "model": first.model, "patches": patches}
    )


def tree_page(model: PixPNet, explanations: Sequence[Explanation] = ()) -> str:
    """A page that shows the tree by which a model decides, and the paths of some images through it.

    Raises:
        NoTree: if the model does not decide by one.
    """
    stock = Stock(longest=256 if model.num_prototypes <= _MANY_PROTOTYPES else 112)
    block = tree_block(model, stock, explanations)
    blocks = [explanation_block(explanation, stock) for explanation in explanations]
    title = f"A tree of {block.nodes} prototypes for {model.num_classes} classes"
    return _render("tree_page.html", stock, {"title": title, "block": block, "blocks": blocks, "form": model.head.form})


def report_page(report: Report) -> str:
    """A page about a run: how good its model is, what it sees, its prototypes, and explained examples."""
    model, note = report.model, score_note(report.model)
    stock = Stock(longest=256 if model.num_prototypes <= _MANY_PROTOTYPES else 112)
    examples = [(example, explanation_block(example.explanation, stock, example.truth)) for example in report.examples]
    sections = [
        ("right", "Right answers", [block for _, block in examples if block.verdict == "right"]),
        ("wrong", "Wrong answers", [block for _, block in examples if block.verdict == "wrong"]),
        ("asked", "Images asked about", [block for _, block in examples if block.verdict == "unknown"]),
    ]
    return _render(
        "report.html",
        stock,
        {
            "title": report.title,
            "report": report,
            "metrics": report.metrics,
            "kept_epoch": kept_epoch(report.metrics.validation_before is not None),
            "evaluated": evaluated(report.metrics),
            "grids": grid_blocks(report, stock),
            "score_note": "" if note is None else score_text(note),
            "sections": [section for section in sections if section[2]],
            "surroundings": surroundings(report.examples),
            "tested": tested(report.examples),
            "worst": worst(report.examples, stock),
            "patches": model.origins is not None,
            "form": model.head.form,
            "tree": None if model.head.tree() is None else tree_block(model, stock),
            "classes": [(name, prototype_blocks(model, stock, label)) for label, name in enumerate(model.class_names)],
            "classes_open": model.num_classes <= _OPEN_CLASSES,
            "few_classes": model.num_classes <= _FEW_CLASSES,
            "hardest": hardest_classes(report.evaluation, _HARDEST),
            "confused": taken_for(report.evaluation, model.class_names),
            "mistakes": None if report.mistakes is None else report.mistakes[:_MISTAKES],
        },
    )


def style_sheet() -> str:
    """The style sheet of all pages, with the colours of regions."""
    return _environment().get_template("page.css").render()


def _render(template: str, stock: Stock, values: Mapping[str, object]) -> str:
    environment = _environment()
    environment.filters.update(percent=percent, deviation=deviation, change=change)
    environment.globals.update(stock=stock, claim=CLAIM, sees_all=SEES_EVERYTHING)
    return environment.get_template(template).render(values)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pixpnet.views", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(region_colors=list(zip(REGIONS, ON_REGIONS, strict=True)))
    return environment
