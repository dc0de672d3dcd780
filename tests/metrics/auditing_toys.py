"""Audits of the small run."""

from pathlib import Path

from pixpnet.data import DataSet
from pixpnet.metrics.auditing import Audit, audit
from pixpnet.model import PixPNet


def audited(run: Path, data: DataSet | None, model: PixPNet | None = None, threshold: float = 0.75) -> Audit:
    return audit(run, model or PixPNet.load(run), data, threshold=threshold, pixels=3)


def failures(result: Audit) -> list[str]:
    parts = (result.grounding, result.localization, result.reasoning, result.conduct)
    return [finding.claim for part in parts for finding in part.findings if finding.verdict == "fails"]
