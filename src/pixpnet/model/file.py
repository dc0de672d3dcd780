"""A model as one file: tensors in safetensors, and in its header a card that says how to build the network.

Nothing in the file can run: tensors are numbers, the card is JSON that is checked field by field, and a backbone
is a name in the zoo. User code is only called when the caller allows it.
"""

import copy
import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from pixpnet import class_names, zoo
from pixpnet.config import is_given, is_user_code
from pixpnet.data import Preprocessing
from pixpnet.earlier_names import translate
from pixpnet.family import DEFAULT, UnknownMember, member_named
from pixpnet.manifest import Manifest
from pixpnet.model.backbone import Backbone
from pixpnet.model.calibration import Calibration
from pixpnet.model.cells import input_size
from pixpnet.model.errors import FieldWarning
from pixpnet.model.mending import Mending
from pixpnet.model.network import PixPNet
from pixpnet.model.origin import Origin, check_origins
from pixpnet.model.weights import on_their_own
from pixpnet.records import ADDED_LATER, BadRecord, from_plain, to_plain
from pixpnet.verdicts import names_beside
from pixpnet.whole_file import read_text, written_whole
from pixpnet.windows import Windows

MODEL_FILE = "model.safetensors"
PROTOTYPES_FILE = "prototypes.json"
PICTURES_FOLDER = "prototypes"
FORMAT = 1
_CARD = "pixpnet"
# Of the card and all tensors; files of earlier versions have none.
_DIGEST = "digest"
# Cutting a backbone runs it once on an image of the card's size: a damaged card must not take all the memory there is.
_LARGEST_SIDE = 4096
# Some hundred bytes for each prototype, more where fields have gaps.
_LARGEST_LISTING = 2**28


class ModelFileError(ValueError):
    """A file that holds no usable model; the message says what is wrong."""


@dataclass(frozen=True)
class Card:
    """What a file says of its model.

    Attributes:
        format: version of this card.
        backbone: name in the zoo.
        at: where it is cut.
        architecture: what stands behind it: a record of the member's own, as plain values.
        class_names: in the order of the logits.
        preprocessing: from files to the network.
        origins: of the prototypes, where they are patches.
        edits: what is changed in the backbone before it is cut.
        windows: what the backbone is run on; None for the whole image.
        member: of the family.
        calibration: what the model knows about its own certainty; None in files of earlier versions.
        mendings: what was done to the model after training.
    """

    format: int
    backbone: str
    at: str
    architecture: Any
    class_names: tuple[str, ...]
    preprocessing: Preprocessing
    origins: tuple[Origin, ...] | None
    edits: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    windows: Windows | None = field(default=None, metadata=ADDED_LATER)
    member: str = field(default=DEFAULT, metadata=ADDED_LATER)
    calibration: Calibration | None = field(default=None, metadata=ADDED_LATER)
    mendings: tuple[Mending, ...] = field(default=(), metadata=ADDED_LATER)


def save_model(model: PixPNet, path: Path) -> None:
    """Writes a model to a file, which is there whole or not at all.

    Raises:
        ValueError: if it was not said by which name its backbone can be built again, or a class has a name that no file
            may have (`pixpnet.class_names`).
    """
    if not model.backbone_name:
        raise ValueError(
            "to save it, a model needs backbone_name: the name by which zoo.build makes its backbone, or given:NAME "
            "for a network that whoever loads it has to give"
        )
    fault = class_names.fault_of(model.class_names)
    if fault is not None:
        raise ValueError(f"the model cannot be saved: {fault}")
    card = Card(
        FORMAT,
        model.backbone_name,
        model.backbone.at,
        model.architecture,
        model.class_names,
        model.preprocessing,
        model.origins,
        model.backbone.edits,
        model.backbone.windows,
        model.member,
        model.calibration,
        model.mendings,
    )
    tensors = on_their_own(model.state_dict())
    text = json.dumps(to_plain(card, for_all=True))
    with written_whole(path) as temporary:
        temporary.write_bytes(_with_metadata(save(tensors), {_CARD: text, _DIGEST: _digest(text, tensors)}))


def load_model(path: Path, trust_code: bool = False, backbone: nn.Module | None = None) -> PixPNet:
    """Reads a model from a run folder or file; see `PixPNet.load`."""
    file = path / MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        hint = f": is {path} a finished run?" if path.is_dir() else ""
        raise ModelFileError(f"there is no model {file}{hint}")
    if path.is_dir():
        Manifest(path, PICTURES_FOLDER).check()
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            card = read_card(metadata, file)
            names = list(opened.keys())
            shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in names}
            _refuse_more_than_the_file_holds(card, shapes, file)
            tensors = {name: opened.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{file} is damaged or no safetensors file: {error}") from error
    if metadata.get(_DIGEST) not in (None, _digest(metadata[_CARD], tensors)):
        raise ModelFileError(
            f"{file} is damaged: its numbers are not those that were written (their digest differs): copy it again, or "
            "train again"
        )
    if path.is_dir():
        _check_listing(path / PROTOTYPES_FILE, card)
    model = _build(card, file, trust_code, backbone)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ModelFileError(f"the tensors in {file} do not fit its card: {error}") from error
    if not all(tensor.isfinite().all() for tensor in model.state_dict().values()):
        raise ModelFileError(f"{file} holds numbers that are not finite")
    _check_owners(model, file)
    if model.origins is not None:
        try:
            check_origins(model.origins, model.fields, model.parts.comparisons)
        except ValueError as error:
            raise ModelFileError(f"{file} is damaged: {error}: train again") from error
    model.names = names_beside(file)
    pictures = file.parent / PICTURES_FOLDER
    model.pictures = pictures if pictures.is_dir() else None
    return model.eval()


def backbone_in(path: Path) -> str:
    """The name of the backbone of a run's model, read without building anything."""
    return _card_in(path).backbone


def class_names_in(path: Path) -> tuple[str, ...]:
    """The classes of a run's model, read without building anything."""
    return _card_in(path).class_names


def preprocessing_in(path: Path) -> Preprocessing:
    """From files to a run's model, read without building anything."""
    return _card_in(path).preprocessing


def mendings_in(path: Path) -> tuple[Mending, ...]:
    """What was done to a run's model after training, read without building anything."""
    return _card_in(path).mendings


def origins_in(path: Path) -> tuple[Origin, ...] | None:
    """The training patches of a run's prototypes, read without building anything; None where they are none."""
    return _card_in(path).origins


def _card_in(path: Path) -> Card:
    file = path / MODEL_FILE if path.is_dir() else path
    try:
        with safe_open(file, framework="pt") as opened:
            return read_card(opened.metadata() or {}, file)
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{file} is damaged or no safetensors file: {error}") from error


def read_card(metadata: dict[str, str], file: Path) -> Card:
    """The card in a file's header, checked.

    Raises:
        ModelFileError: if there is none or something in it cannot be.
    """
    try:
        values = json.loads(metadata[_CARD])
    except KeyError as error:
        raise ModelFileError(f"{file} holds tensors, but was not written by pixpnet: it has no card") from error
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the card in {file} is damaged: {error}") from error
    if isinstance(values, dict) and values.get("format") != FORMAT:
        raise ModelFileError(
            f"{file} has format {values.get('format')!r}, this version reads {FORMAT}: update pixpnet, or train again"
        )
    try:
        card = _card(values)
    except (BadRecord, UnknownMember, RecursionError) as error:  # a list may be nested just too deeply to be shown
        raise ModelFileError(f"the card in {file} is damaged: {error}") from error
    if card.preprocessing.size > _LARGEST_SIDE:
        raise ModelFileError(
            f"{file} is for images of {card.preprocessing.size} pixels a side; files are read up to {_LARGEST_SIDE}"
        )
    fault = class_names.fault_of(card.class_names)
    if fault is not None:
        raise ModelFileError(f"the card in {file} is damaged: {fault}")
    _check_origins(card, file)
    return card


def prototypes_listing(model: PixPNet) -> str:
    """What `prototypes.json` says: for each prototype its class, source image, cell, exact field and distance."""
    return json.dumps(_listing(model.class_names, model.origins or ()), indent=1)


def _listing(names: tuple[str, ...], origins: tuple[Origin, ...]) -> list[dict[str, object]]:
    return [{"class": names[origin.label], **to_plain(origin, for_all=True)} for origin in origins]


def _with_metadata(content: bytes, metadata: Mapping[str, str]) -> bytes:
    """A safetensors file with metadata in this order; the library would write them in another one each time."""
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps({"__metadata__": metadata, **json.loads(content[8:begin])}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return b"".join((len(header).to_bytes(8, "little"), header, memoryview(content)[begin:]))


def _digest(card: str, tensors: Mapping[str, Tensor]) -> str:
    """Of everything that decides what the model answers, in the order of names."""
    digest = hashlib.blake2b(card.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _check_listing(path: Path, card: Card) -> None:
    """The list that people and other tools read must be that of the model beside it."""
    cure = "resume the run (pixpnet train --resume), or load model.safetensors itself"
    try:
        listed = json.loads(read_text(path, _LARGEST_LISTING))
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} is missing: {cure}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged ({error}): {cure}") from error
    if listed != _listing(card.class_names, card.origins or ()):
        raise ModelFileError(f"{path} does not belong to the model beside it: {cure}")


def _card(values: object) -> Card:
    """The card, with the architecture as the record of its member.

    Raises:
        BadRecord: if something in it does not fit.
        UnknownMember: if the family has no such member.
    """
    card = from_plain(Card, values, "card")
    kind = member_named(card.member).architecture
    plain = card.architecture
    if isinstance(plain, dict):
        plain = translate(plain, "architecture").values
    return replace(card, architecture=from_plain(kind, plain, "card.architecture"))


def _refuse_more_than_the_file_holds(card: Card, shapes: Mapping[str, tuple[int, ...]], file: Path) -> None:
    """Before anything is built: what the card asks for takes no more memory than what the file holds."""
    # Without a backbone there is nothing to say how many channels an add-on has, or how many grids there are.
    grids = len(card.at.split(",")) if card.windows is None else len(card.windows.by_size)
    try:
        with torch.device("meta"):
            parts = member_named(card.member).parts(card.architecture, (1,) * grids, len(card.class_names))
            decision = parts.decision.reweighted(parts.ownership) if card.mendings else parts.decision
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ModelFileError(f"the network that {file} describes cannot be built: {error}") from error
    expected: dict[str, tuple[int, ...]] = {
        f"head.{name}": tuple(tensor.shape) for name, tensor in decision.state_dict().items()
    }
    for number, (add_on, comparison) in enumerate(zip(parts.add_ons, parts.comparisons, strict=True), start=1):
        ending = "" if number == 1 else f"_{number}"
        name, shape = f"prototype_layer{ending}.prototypes", tuple(comparison.prototypes.shape)
        # Prototypes that are as long as the backbone has channels are as long as the file says.
        held = shapes.get(name, shape)
        expected[name] = (shape[0], held[1], *shape[2:]) if shape[1] == 1 and len(held) == len(shape) else shape
        for name, tensor in add_on.state_dict().items():
            # What has a channel of the backbone's in it is as large as the file says.
            if 1 not in tensor.shape[:2]:
                expected[f"add_on{ending}.{name}"] = tuple(tensor.shape)
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            fault = f"has the shape {shapes[name]}" if name in shapes else "is missing"
            raise ModelFileError(
                f"the tensors in {file} do not fit its card: {name} {fault}, by the card it is {shape}"
            )


def _check_origins(card: Card, file: Path) -> None:
    if card.origins is not None and [origin.prototype for origin in card.origins] != list(range(len(card.origins))):
        raise ModelFileError(f"the card in {file} is damaged: its origins are not those of its prototypes")


def _check_owners(model: PixPNet, file: Path) -> None:
    """Each prototype has one origin, in its own grid, from an image of a class that may give it one."""
    if model.origins is None:
        return
    if len(model.origins) != model.num_prototypes:
        raise ModelFileError(
            f"the card in {file} is damaged: it has {len(model.origins)} origins for {model.num_prototypes} prototypes"
        )
    sources = model.ownership.sources().cpu()
    for origin in model.origins:
        known = 0 <= origin.label < model.num_classes and bool(sources[origin.label, origin.prototype])
        if not known or origin.grid != model.grid_of(origin.prototype).number:
            raise ModelFileError(f"the card in {file} is damaged: its origins are not those of its prototypes")


def _build(card: Card, file: Path, trust_code: bool, given: nn.Module | None) -> PixPNet:
    if is_given(card.backbone) and given is None:
        raise ModelFileError(
            f"the backbone of {file} was handed over as an object, {card.backbone!r}, and a file can hold its weights "
            "but not its code: give the network again, with any weights (PixPNet.load(path, backbone=network), "
            "Predictor(path, backbone=network))"
        )
    if given is not None and not is_given(card.backbone):
        raise ModelFileError(f"the backbone of {file} is {card.backbone}, which it builds itself: give no other")
    if is_user_code(card.backbone) and not trust_code:
        raise ModelFileError(
            f"the backbone of {file} is code of its own, {card.backbone!r}, which loading would import and call: "
            "if you trust the file, allow it (trust_code=True, --trust-code)"
        )
    size = card.preprocessing.size
    try:
        # Its fields were looked at, and warned about, when it was trained; its first weights do not matter.
        with warnings.catch_warnings(action="ignore", category=FieldWarning), torch.random.fork_rng(devices=[]):
            seen = input_size((size, size), card.windows)
            network = zoo.build(card.backbone, input_size=seen) if given is None else copy.deepcopy(given).eval()
            backbone = Backbone(network, card.at, (size, size), card.edits, card.windows)
            model = PixPNet(
                backbone, card.architecture, card.class_names, card.preprocessing, card.backbone, card.member
            )
    except (ValueError, LookupError, RuntimeError, MemoryError) as error:
        raise ModelFileError(f"the network that {file} describes cannot be built: {error}") from error
    model.origins, model.calibration, model.mendings = card.origins, card.calibration, card.mendings
    if card.mendings:
        try:
            model.make_editable()
        except ValueError as error:
            raise ModelFileError(f"the network that {file} describes cannot be built: {error}") from error
    return model
