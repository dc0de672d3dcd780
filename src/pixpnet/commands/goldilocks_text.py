"""A search for the cut in words: its table, what the figures are worth, and the advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixpnet.commands.calling import command
from pixpnet.config import RunConfig, is_user_code
from pixpnet.messages import first_line
from pixpnet.wording import aligned, percent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pixpnet.goldilocks import Candidate, FinishedTrial, SearchResult, Survey
    from pixpnet.goldilocks.result import EvaluatedCut

_SHOWN_ERRORS = 200
_NAMED = 5
# What the accuracy of each method is, because all of them are called that.
_MEANINGS = {
    "probe": "Accuracy: of a linear probe, a linear classifier on the averaged features of the untouched network at "
    "that layer. It is for comparing cuts; a prototype network trained there reaches another one (--method pixpnet).",
    "frozen": "Accuracy: of a prototype network that was trained on the frozen backbone, after replacement. Probe: of "
    "a linear classifier on the average of the same features.",
    "finetune": "Accuracy: of the network up to that layer with a linear classifier, trained together (the paper's "
    "way). It is for comparing cuts; a prototype network trained there reaches another one (--method pixpnet).",
    "pixpnet": "Accuracy: of a prototype network that was trained at that cut, after replacement.",
}


def line_of(candidate: Candidate, finished: FinishedTrial) -> str:
    """A finished candidate in one line."""
    line = f"{candidate.name}: mean field {percent(candidate.mean_field)}"
    if finished.accuracy is None:
        return f"{line}, failed: {_short(finished.error or '')}"
    probe = "" if finished.probe is None else f", probe {percent(finished.probe)}"
    line += f", validation accuracy {percent(finished.accuracy)} ({finished.images} images)"
    return f"{line}{probe}, {finished.seconds:.1f} s"


def result_text(result: SearchResult, folder: Path, wanted: str = "the search") -> str:
    """The front and the rest as a table for people, what its figures are worth, and the advice.

    Args:
        result: of the search.
        folder: where it is kept.
        wanted: who wants a field of that size.
    """
    from pixpnet.goldilocks.result import recommended_run

    probed = any(cut.probe is not None for cut in result.evaluated)
    rows = [("", "cut", "mean field", "accuracy", "95 % interval", *(["probe"] if probed else []), "seconds")]
    for cut in result.evaluated:
        if cut.accuracy is None or cut.interval is None:
            continue
        interval = f"{percent(cut.interval.low)} to {percent(cut.interval.high)}"
        mark = "front" if cut.on_front else ""
        probe = [percent(cut.probe) if cut.probe is not None else ""] if probed else []
        figures = (percent(cut.mean_field), percent(cut.accuracy), interval, *probe, f"{cut.seconds:.1f}")
        rows.append((mark, cut.name, *figures))
    settings = result.settings
    lines = [
        f"{settings.method} on {settings.data}, {settings.size} x {settings.size} pixels, validation split; the test "
        "split stayed closed"
    ]
    lines += ["", *aligned(rows), "", _MEANINGS[settings.method], *told_apart(result.evaluated), ""]
    for cut in result.evaluated:
        if cut.error is not None:
            lines.append(f"failed: {cut.name}: {_short(cut.error)} (--retry-failed tries again)")
    lines += [f"no result yet: {name}" for name in result.waiting]
    lines += [f"design: {design}" for design in result.designs]
    if result.left_out:
        lines.append(f"{len(result.left_out)} layers cannot be cut at; front.json and --fields-only say why")
    for agreement in result.agreements:
        ties = (
            f", {agreement.ties} and {agreement.other_ties} tied pairs"
            if agreement.ties or agreement.other_ties
            else ", no ties"
        )
        tau = "is undefined (a method tells no two cuts apart)" if agreement.tau is None else f"{agreement.tau:.2f}"
        p_value = "" if agreement.p_value is None else f", p = {agreement.p_value:.2g}"
        lines.append(
            f"Kendall's tau of {agreement.method} with {agreement.other}: {tau} ({agreement.cuts} cuts{ties}{p_value})"
        )
    lines.append(result.advice)
    lines.append(f"A field of {percent(result.want)} is wanted by {wanted}.")
    if result.recommended is not None:
        best = next(cut for cut in result.evaluated if cut.name == result.recommended)
        allowed = ["--trust-code"] if is_user_code(best.backbone) else []
        again = command("train", "--config", folder / "train.yaml", *allowed, "--out", "RUN")
        lines.append(f"train it: {again}")
        words = train_words(recommended_run(result.settings, best))
        if words:
            lines.append(f"or, the same in full: {command(*words)}")
        if result.settings.method == "frozen":
            lines.append("Its features are kept, so it needs no second pass over the training images.")
    return "\n".join(lines) + "\n"


def train_words(config: RunConfig) -> list[str]:
    """The command that trains prototypes on a frozen backbone, without a file of its configuration; else nothing."""
    from pixpnet.goldilocks.settings import FROZEN, preset

    budget, usual = config.optimization, preset(FROZEN).optimization
    if budget.frozen != usual.frozen or config.edits:
        return []
    words = ["train", "--preset", FROZEN, "--data", config.data, "--backbone", config.backbone, "--at", config.at]
    words += [] if config.weights is None else ["--weights", config.weights]
    words += ["--size", str(config.size)]
    if config.window is not None:
        words += ["--window", _sides(config.window)]
        words += [] if config.window_stride is None else ["--window-stride", _sides(config.window_stride)]
        words += ["--window-from", config.window_from] if config.window_from else []
    for option, value, default in (
        ("--epochs", budget.epochs, usual.epochs),
        ("--batch-size", budget.batch_size, usual.batch_size),
        ("--views", budget.views, usual.views),
        ("--warm-up-epochs", budget.warm_up_epochs, usual.warm_up_epochs),
        ("--seed", config.seed, 0),
        ("--birds", config.birds, RunConfig().birds),
    ):
        words += [] if value == default else [option, str(value)]
    return [*words, "--out", "RUN"]


def _sides(sides: float | str) -> str:
    """Of windows, as an option: one number, or several with commas (72,144)."""
    return sides if isinstance(sides, str) else f"{sides:g}"


def told_apart(evaluated: Sequence[EvaluatedCut]) -> list[str]:
    """Whether so few images can tell the most accurate cut from the others; nothing for a single cut."""
    done = [
        (cut, cut.accuracy, cut.interval) for cut in evaluated if cut.accuracy is not None and cut.interval is not None
    ]
    if len(done) < 2:
        return []
    best, _, interval = max(done, key=lambda cut: cut[1])
    close = [cut.name for cut, _, other in done if cut is not best and other.high >= interval.low]
    half = 100 * (interval.high - interval.low) / 2
    text = f"{best.images} validation images: an accuracy is known to about ±{half:.0f} points. "
    if not close:
        return [f"{text}They tell the most accurate cut, {best.name}, from all others."]
    return [
        f"{text}They cannot tell the most accurate cut, {best.name}, from {len(close)} of the other {len(done) - 1} "
        f"(intervals overlap): {', '.join(close[:_NAMED])}{' ...' if len(close) > _NAMED else ''}. Between those, "
        "take the smaller field."
    ]


def fields_text(surveyed: Survey, zone: tuple[float, float], target: float | None = None) -> str:
    """The table of all fields; windows come before modified cuts."""
    from pixpnet.goldilocks import designs_in_words

    rows = [("cut", "output", "mean field", "over neurons", "in the zone")]
    rows += [
        (
            cut.name,
            " x ".join(map(str, cut.shape)),
            percent(cut.mean_field),
            percent(cut.mean_field_neurons),
            "yes" if zone[0] <= cut.mean_field <= zone[1] else "",
        )
        for cut in surveyed.candidates
    ]
    lines = [*aligned(rows), ""]
    lines += [f"design: {design}" for design in designs_in_words(surveyed, target)]
    lines += [f"left out: {omitted.backbone} @ {omitted.at}: {omitted.reason}" for omitted in surveyed.left_out]
    inside = sum(row[-1] == "yes" for row in rows)
    networks = len({cut.backbone for cut in surveyed.candidates})
    lines.append(
        f"{len(surveyed.candidates)} cuts of {networks} networks at {surveyed.size} x {surveyed.size} pixels, "
        f"{inside} of them "
        f"in the zone {zone[0]:g} to {zone[1]:g}. Mean field: over cells, channels united"
    )
    return "\n".join(lines) + "\n"


def _short(text: str) -> str:
    return first_line(text)[:_SHOWN_ERRORS]
