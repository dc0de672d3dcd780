"""Goldilocks: the cut whose cells see little enough to mean something and enough to decide (Sec. 4, App. F)."""

from pixpnet.goldilocks.candidates import Candidate, LeftOut, Survey, survey, with_designs
from pixpnet.goldilocks.designing import Design, DesignWarning, propose
from pixpnet.goldilocks.errors import SearchError
from pixpnet.goldilocks.front import RankAgreement, Trade, agreement, pareto_front
from pixpnet.goldilocks.methods import METHODS, Method
from pixpnet.goldilocks.options import SearchOptions
from pixpnet.goldilocks.pooled import PooledLinear
from pixpnet.goldilocks.result import EvaluatedCut, SearchResult, read_result, write_survey
from pixpnet.goldilocks.search import SearchWatcher, Unwatched, designs_in_words, find_cuts, look_for_cuts
from pixpnet.goldilocks.study import FinishedTrial
from pixpnet.goldilocks.windowed import with_windows, with_windows_for

__all__ = [
    "METHODS",
    "Candidate",
    "Design",
    "DesignWarning",
    "EvaluatedCut",
    "FinishedTrial",
    "LeftOut",
    "Method",
    "PooledLinear",
    "RankAgreement",
    "SearchError",
    "SearchOptions",
    "SearchResult",
    "SearchWatcher",
    "Survey",
    "Trade",
    "Unwatched",
    "agreement",
    "designs_in_words",
    "find_cuts",
    "look_for_cuts",
    "pareto_front",
    "propose",
    "read_result",
    "survey",
    "with_designs",
    "with_windows",
    "with_windows_for",
    "write_survey",
]
