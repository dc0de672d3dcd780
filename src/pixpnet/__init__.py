"""Pixel-grounded prototypical part networks: the public names, loaded when first used.

Nothing heavy is imported here, so that ``pixpnet --help`` answers at once. Editors and type checkers read the imports
below, which are not carried out; `_HOMES` says the same to the interpreter, and a test compares the two.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pixpnet._torchvision import watch as _watch_torchvision
from pixpnet.extras import wanted_by as _wanted_by

if TYPE_CHECKING:
    from pixpnet.box import Box as Box
    from pixpnet.config import RunConfig as RunConfig
    from pixpnet.data import DataError as DataError
    from pixpnet.data import DataOptions as DataOptions
    from pixpnet.data import DataSet as DataSet
    from pixpnet.data import DatasetSplits as DatasetSplits
    from pixpnet.data import ImageError as ImageError
    from pixpnet.data import Preprocessing as Preprocessing
    from pixpnet.data import Sample as Sample
    from pixpnet.data import open_data as open_data
    from pixpnet.data import open_datasets as open_datasets
    from pixpnet.data import read_sample as read_sample
    from pixpnet.data.pictures import Picture as Picture
    from pixpnet.explanation import Explanation as Explanation
    from pixpnet.explanation import UnknownClass as UnknownClass
    from pixpnet.explanation import explain as explain
    from pixpnet.explanation import explain_batch as explain_batch
    from pixpnet.explanation import part_qualities as part_qualities
    from pixpnet.explanation import prove as prove
    from pixpnet.explanation.predictor import PredictedClass as PredictedClass
    from pixpnet.explanation.predictor import Predictor as Predictor
    from pixpnet.family import MEMBERS as MEMBERS
    from pixpnet.family import Member as Member
    from pixpnet.family import UnknownMember as UnknownMember
    from pixpnet.family import member_named as member_named
    from pixpnet.fields import Call as Call
    from pixpnet.fields import Field as Field
    from pixpnet.fields import FieldMismatch as FieldMismatch
    from pixpnet.fields import Fields as Fields
    from pixpnet.fields import Region as Region
    from pixpnet.fields import Sources as Sources
    from pixpnet.fields import UnknownLayer as UnknownLayer
    from pixpnet.fields import UnsupportedOperation as UnsupportedOperation
    from pixpnet.fields import receptive_fields as receptive_fields
    from pixpnet.fields import rule as rule
    from pixpnet.fields.verify import verify_fields as verify_fields
    from pixpnet.goldilocks import SearchError as SearchError
    from pixpnet.goldilocks import SearchOptions as SearchOptions
    from pixpnet.goldilocks import find_cuts as find_cuts
    from pixpnet.manifest import ManifestError as ManifestError
    from pixpnet.mapping import Heatmaps as Heatmaps
    from pixpnet.mapping import heatmaps as heatmaps
    from pixpnet.metrics import Consistency as Consistency
    from pixpnet.metrics import Estimate as Estimate
    from pixpnet.metrics import ExplanationSize as ExplanationSize
    from pixpnet.metrics import PrototypeHealth as PrototypeHealth
    from pixpnet.metrics import Stability as Stability
    from pixpnet.metrics import consistency_and_stability as consistency_and_stability
    from pixpnet.metrics import explanation_size as explanation_size
    from pixpnet.metrics import prototype_health as prototype_health
    from pixpnet.metrics import relevance_ordering as relevance_ordering
    from pixpnet.metrics.auditing import audit as audit  # type: ignore[no-redef]  # not the module of that name
    from pixpnet.metrics.family_table import FamilyRow as FamilyRow
    from pixpnet.metrics.family_table import family_table as family_table
    from pixpnet.metrics.review import NearestPatches as NearestPatches
    from pixpnet.metrics.review import NearPatch as NearPatch
    from pixpnet.metrics.review import Review as Review
    from pixpnet.metrics.review import Reviews as Reviews
    from pixpnet.metrics.review import nearest_patches as nearest_patches
    from pixpnet.metrics.review import read_reviews as read_reviews
    from pixpnet.metrics.review import review_prototypes as review_prototypes
    from pixpnet.metrics.review import training_patch as training_patch
    from pixpnet.metrics.suite import MeasureSettings as MeasureSettings
    from pixpnet.metrics.suite import compare as compare
    from pixpnet.metrics.suite import measure as measure
    from pixpnet.model import Backbone as Backbone
    from pixpnet.model import CutError as CutError
    from pixpnet.model import FieldWarning as FieldWarning
    from pixpnet.model import ModelFileError as ModelFileError
    from pixpnet.model import Origin as Origin
    from pixpnet.model import PixPNet as PixPNet
    from pixpnet.model import WeightsError as WeightsError
    from pixpnet.model.creating import create_model as create_model
    from pixpnet.parts import Comparison as Comparison
    from pixpnet.parts import Decision as Decision
    from pixpnet.parts import LossTerm as LossTerm
    from pixpnet.parts import NoEdit as NoEdit
    from pixpnet.parts import Ownership as Ownership
    from pixpnet.records import BadRecord as BadRecord
    from pixpnet.training import Metrics as Metrics
    from pixpnet.training import Run as Run
    from pixpnet.training import RunError as RunError
    from pixpnet.training import TrainingDiverged as TrainingDiverged
    from pixpnet.training import replace_prototypes as replace_prototypes
    from pixpnet.training.converting import convert as convert
    from pixpnet.training.mending.giving import give_verdict as give_verdict
    from pixpnet.training.mending.preview import Editor as Editor
    from pixpnet.training.mending.preview import preview_edit as preview_edit
    from pixpnet.training.mending.record import ChangedAnswer as ChangedAnswer
    from pixpnet.training.mending.record import EditOutcome as EditOutcome
    from pixpnet.training.mending.record import EditPreview as EditPreview
    from pixpnet.training.mending.writing import write_edit as write_edit
    from pixpnet.training.stages import Stage as Stage
    from pixpnet.verdicts import OtherModelVerdicts as OtherModelVerdicts
    from pixpnet.verdicts import StaleVerdicts as StaleVerdicts
    from pixpnet.verdicts import Standing as Standing
    from pixpnet.verdicts import TrainingPatch as TrainingPatch
    from pixpnet.verdicts import Verdict as Verdict
    from pixpnet.verdicts import VerdictError as VerdictError
    from pixpnet.verdicts import VerdictLine as VerdictLine
    from pixpnet.verdicts import VerdictLog as VerdictLog
    from pixpnet.verdicts import read_verdicts as read_verdicts
    from pixpnet.views.reporting import report as report
    from pixpnet.views.training import resume as resume
    from pixpnet.views.training import train as train
    from pixpnet.zoo import UnknownModel as UnknownModel

    __version__: str

_watch_torchvision()

_HOMES: dict[str, str] = {
    name: home
    for home, names in {
        "pixpnet.box": "Box",
        "pixpnet.config": "RunConfig",
        "pixpnet.data": (
            "DataError DataOptions DataSet DatasetSplits ImageError Preprocessing Sample open_data open_datasets "
            "read_sample"
        ),
        "pixpnet.data.pictures": "Picture",
        "pixpnet.explanation": "Explanation UnknownClass explain explain_batch prove part_qualities",
        "pixpnet.family": "MEMBERS Member UnknownMember member_named",
        "pixpnet.fields": (
            "Call Field FieldMismatch Fields Region Sources UnknownLayer UnsupportedOperation receptive_fields rule"
        ),
        "pixpnet.goldilocks": "SearchError SearchOptions find_cuts",
        "pixpnet.manifest": "ManifestError",
        "pixpnet.mapping": "Heatmaps heatmaps",
        "pixpnet.metrics": (
            "Consistency Estimate ExplanationSize PrototypeHealth Stability consistency_and_stability "
            "explanation_size prototype_health relevance_ordering"
        ),
        "pixpnet.metrics.auditing": "audit",
        "pixpnet.metrics.family_table": "FamilyRow family_table",
        "pixpnet.metrics.review": (
            "NearPatch NearestPatches Review Reviews nearest_patches read_reviews review_prototypes training_patch"
        ),
        "pixpnet.metrics.suite": "MeasureSettings compare measure",
        "pixpnet.model": "Backbone CutError FieldWarning ModelFileError Origin PixPNet WeightsError",
        "pixpnet.parts": "Comparison Decision LossTerm NoEdit Ownership",
        "pixpnet.records": "BadRecord",
        "pixpnet.training": "Metrics Run RunError TrainingDiverged replace_prototypes",
        "pixpnet.training.converting": "convert",
        "pixpnet.training.mending.giving": "give_verdict",
        "pixpnet.training.mending.preview": "Editor preview_edit",
        "pixpnet.training.mending.record": "ChangedAnswer EditOutcome EditPreview",
        "pixpnet.training.mending.writing": "write_edit",
        "pixpnet.training.stages": "Stage",
        "pixpnet.verdicts": (
            "OtherModelVerdicts StaleVerdicts Standing TrainingPatch Verdict VerdictError VerdictLine VerdictLog "
            "read_verdicts"
        ),
        "pixpnet.views.reporting": "report",
        "pixpnet.views.training": "resume train",
        "pixpnet.fields.verify": "verify_fields",
        "pixpnet.model.creating": "create_model",
        "pixpnet.explanation.predictor": "PredictedClass Predictor",
        "pixpnet.zoo": "UnknownModel",
    }.items()
    for name in names.split()
}
# What things were called in earlier versions.
_FORMER = {"PrototypeLayer": "Comparison"}

__all__ = [*_HOMES, "__version__"]

if not TYPE_CHECKING:  # a checker that knows of this takes every wrong name for a right one

    def __getattr__(name: str) -> Any:
        if name in _FORMER:
            return __getattr__(_FORMER[name])
        if name == "__version__":
            value = version("pixpnet")
        elif name in _HOMES:
            with _wanted_by(f"pixpnet.{name}"):
                value = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'pixpnet' has no attribute '{name}'; it offers {', '.join(sorted(_HOMES))}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
