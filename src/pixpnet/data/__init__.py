"""Images with parts, honest splits and the paper's augmentation (App. E, App. J)."""

from pixpnet.box import Box
from pixpnet.data.augmentation import Augmentation, Draw, draw, view_generator
from pixpnet.data.batch import Batch, collate
from pixpnet.data.catalog import Catalog, Entry
from pixpnet.data.checking import DataCheck, check
from pixpnet.data.dataset import DataOptions, DataSet
from pixpnet.data.drawn import DrawnBirds
from pixpnet.data.errors import BadFilesError, DataError, DataWarning, ImageError, Leak, LeakError, Problem
from pixpnet.data.fused import augment
from pixpnet.data.given import DatasetSplits, OwnImages, open_datasets
from pixpnet.data.loader import EpochSampler, Loading, ViewKey, plain_loader, training_loader
from pixpnet.data.locked import LockedSplit, Opening, record_in
from pixpnet.data.preprocessing import Preprocessing, preprocess, to_uint8
from pixpnet.data.reader import read_sample
from pixpnet.data.registry import DataSpec, guess_spec, open_data, parse_spec
from pixpnet.data.sample import Sample
from pixpnet.data.splits import folds, take
from pixpnet.data.statistics import Statistics, statistics_of
from pixpnet.data.steps import step_by_step, stock_pipeline

__all__ = [
    "Augmentation",
    "BadFilesError",
    "Batch",
    "Box",
    "Catalog",
    "DataCheck",
    "DataError",
    "DataOptions",
    "DataSet",
    "DataSpec",
    "DataWarning",
    "DatasetSplits",
    "Draw",
    "DrawnBirds",
    "Entry",
    "EpochSampler",
    "ImageError",
    "Leak",
    "LeakError",
    "Loading",
    "LockedSplit",
    "Opening",
    "OwnImages",
    "Preprocessing",
    "Problem",
    "Sample",
    "Statistics",
    "ViewKey",
    "augment",
    "check",
    "collate",
    "draw",
    "folds",
    "guess_spec",
    "open_data",
    "open_datasets",
    "parse_spec",
    "plain_loader",
    "preprocess",
    "read_sample",
    "record_in",
    "statistics_of",
    "step_by_step",
    "stock_pipeline",
    "take",
    "to_uint8",
    "training_loader",
    "view_generator",
]
