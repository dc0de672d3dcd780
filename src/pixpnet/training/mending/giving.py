"""Giving verdicts about the prototypes of a run: checked against its model, and with the exact patch filled in."""

from dataclasses import replace
from pathlib import Path

from pixpnet.model import Origin
from pixpnet.model.file import class_names_in, origins_in, preprocessing_in
from pixpnet.training.run import Run
from pixpnet.verdicts import PATCH_KINDS, TrainingPatch, Verdict, VerdictError, VerdictLine, VerdictLog
from pixpnet.verdicts.log import ANY


def give_verdict(run: Run | Path | str, verdict: Verdict, expected: int = ANY) -> VerdictLine:
    """Adds a verdict to a run's log; one that forbids or remembers without a patch is about the prototype's own.

    Args:
        run: the run.
        verdict: what is said of one of its prototypes.
        expected: the serial of the log that the writer has seen last (`VerdictLog.serial`); by default any.

    Raises:
        VerdictError: if there is no such prototype, or it is no patch that could be forbidden.
        StaleVerdicts: if somebody else has written since.
    """
    folder = Run.of(run).path
    log = VerdictLog(folder)
    origins = origins_in(folder)
    if origins is not None and verdict.prototype >= len(origins):
        raise VerdictError(f"there is no prototype {verdict.prototype}: they are 0 to {len(origins) - 1}")
    if verdict.kind in PATCH_KINDS and verdict.patch is None:
        if origins is None:
            raise VerdictError(
                f"the prototypes of {folder} are no patches of training images, so none can be forbidden or remembered"
            )
        size = preprocessing_in(folder).size
        names = class_names_in(folder)
        verdict = replace(verdict, patch=patch_of(origins[verdict.prototype], names, (size, size)))
    return log.append(verdict, expected)


def patch_of(origin: Origin, class_names: tuple[str, ...], size: tuple[int, int]) -> TrainingPatch:
    """The patch that a prototype is, as verdicts name it.

    Args:
        origin: of the prototype.
        class_names: of the model.
        size: height and width of images in the `pixel` frame.
    """
    return TrainingPatch(
        image=origin.image,
        class_name=class_names[origin.label],
        boxes=origin.boxes,
        size=size,
        to_source=origin.to_source,
        grid=origin.grid,
        row=origin.row,
        col=origin.col,
    )
