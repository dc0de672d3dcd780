"""What an audit can say of a claim: it holds, it fails, or it could not be checked. Silence is none of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "fails", "not checked"]


@dataclass(frozen=True)
class Finding:
    """One claim, and what was found.

    Attributes:
        claim: a sentence that is true or false.
        verdict: which of the two, if that could be checked.
        evidence: what was looked at, and the numbers.
    """

    claim: str
    verdict: Verdict
    evidence: str


def finding_of(claim: str, holds: bool, evidence: str) -> Finding:
    """A finding about a claim that could be checked."""
    return Finding(claim, "holds" if holds else "fails", evidence)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """All claims as one: one that fails decides, then one that was not checked.

    >>> together(["holds", "not checked", "fails"]), together(["holds", "not checked"]), together(["holds"])
    ('fails', 'not checked', 'holds')
    """
    several = set(verdicts)
    return "fails" if "fails" in several else "not checked" if "not checked" in several else "holds"


class Desideratum:
    """What has findings has a verdict: that of all of them together. The records of an audit are such."""

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on all claims together."""
        return together(finding.verdict for finding in self.findings)
