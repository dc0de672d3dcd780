"""Verdicts: what a person says of prototypes, kept beside a run as plain JSON lines (`verdicts.jsonl`). No torch."""

from pixpnet.verdicts.log import VERDICTS_FILE, VerdictLog, hashes_of, names_beside, read_verdicts
from pixpnet.verdicts.record import (
    DECIDED_KINDS,
    KINDS,
    PATCH_KINDS,
    Kind,
    OtherModelVerdicts,
    StaleVerdicts,
    Standing,
    TrainingPatch,
    Verdict,
    VerdictError,
    VerdictLine,
    VerdictWarning,
    standing_of,
)

__all__ = [
    "DECIDED_KINDS",
    "KINDS",
    "PATCH_KINDS",
    "VERDICTS_FILE",
    "Kind",
    "OtherModelVerdicts",
    "StaleVerdicts",
    "Standing",
    "TrainingPatch",
    "Verdict",
    "VerdictError",
    "VerdictLine",
    "VerdictLog",
    "VerdictWarning",
    "hashes_of",
    "names_beside",
    "read_verdicts",
    "standing_of",
]
