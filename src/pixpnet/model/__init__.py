"""Prototypical part networks on backbones whose cells see known pixels."""

from pixpnet.model.backbone import Backbone
from pixpnet.model.edits import EDITS, EditError, apply_edits
from pixpnet.model.errors import CutError, FieldWarning
from pixpnet.model.file import ModelFileError
from pixpnet.model.grids import Embeddings, Grid, Output
from pixpnet.model.network import BehindStem, PixPNet
from pixpnet.model.origin import Origin, picture_name
from pixpnet.model.weights import WeightsError, load_weights

__all__ = [
    "EDITS",
    "Backbone",
    "BehindStem",
    "CutError",
    "EditError",
    "Embeddings",
    "FieldWarning",
    "Grid",
    "ModelFileError",
    "Origin",
    "Output",
    "PixPNet",
    "WeightsError",
    "apply_edits",
    "load_weights",
    "picture_name",
]
