"""An audit: the paper's three desiderata (Sec. 2, Table 1) put to one trained model, with evidence for each answer."""

from pixpnet.metrics.auditing.audit import Audit, audit
from pixpnet.metrics.auditing.conduct import Conduct
from pixpnet.metrics.auditing.grounding import Grounding
from pixpnet.metrics.auditing.localization import Localization
from pixpnet.metrics.auditing.reasoning import Reasoning
from pixpnet.metrics.auditing.verdict import Finding, Verdict, together

__all__ = ["Audit", "Conduct", "Finding", "Grounding", "Localization", "Reasoning", "Verdict", "audit", "together"]
