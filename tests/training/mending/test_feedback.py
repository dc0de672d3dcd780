"""Training with feedback: forbidden patches never become prototypes again, whoever learns, killed or not."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import pixpnet as px
from pixpnet.box import Box
from pixpnet.config import RunConfig
from pixpnet.data import preprocess
from pixpnet.members.pixpnet import Architecture
from pixpnet.settings import Optimization, Replacement
from pixpnet.training import RunError, replace_prototypes, train
from pixpnet.training.assignment import enough_for_all, nearest_first, smallest_total
from pixpnet.training.mending.feedback import FeedbackWarning, _statistics_unchanged
from pixpnet.training.mending.locating import cells_of_patch
from pixpnet.verdicts import TrainingPatch
from tests.training.conftest import Trained
from tests.training.material import batches_of, entries_of, identity_model, small_model
from tests.training.replacing import IDS, LABELS, noise

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


def patch(model: px.PixPNet, row: int, col: int, image: str = "image a") -> TrainingPatch:
    """What a cell sees, as a verdict names it."""
    boxes = tuple(Box(*box) for box in model.field.boxes(row, col))
    side = model.preprocessing.size
    return TrainingPatch(image, "class 0", boxes, (side, side), IDENTITY, 0, row, col)


@pytest.mark.parametrize("unique", ["image", "patch", "none"])
@pytest.mark.parametrize("size", [1, 5])
def test_replacement_never_takes_a_forbidden_patch_and_takes_the_next_best_instead(unique: str, size: int) -> None:
    images = noise(len(LABELS), 13)
    settings = Replacement(unique=unique, assignment="nearest_first")  # type: ignore[arg-type]
    batches, entries = batches_of(images, LABELS, IDS, size), entries_of(LABELS, IDS)
    first = replace_prototypes(small_model(), batches, entries, settings)
    cells = 36
    taken: dict[str, torch.Tensor] = {}
    for origin in first[:4]:
        taken.setdefault(origin.image, torch.zeros(cells, dtype=torch.bool))[origin.row * 6 + origin.col] = True
    model = small_model()
    before = model.prototypes.detach().clone()
    forbidden = {image: (mask,) for image, mask in taken.items()}
    second = replace_prototypes(model, batches, entries, settings, forbidden=forbidden)
    for origin in second:
        assert not (origin.image in taken and taken[origin.image][origin.row * 6 + origin.col])
    if unique == "none":
        # Each takes the nearest patch of its class that is left, by a search of all of them.
        with torch.no_grad():
            maps = small_model().eval()
            maps.load_state_dict({**model.state_dict(), "prototype_layer.prototypes": before})
            distances = maps(images).matches.distance_maps.flatten(2)
        for number, mask in enumerate(taken.get(name) for name in IDS):
            if mask is not None:
                distances[number, :, mask] = torch.inf
        for origin in second:
            own = torch.tensor(LABELS) == maps.labels[origin.prototype]
            assert origin.distance == pytest.approx(float(distances[own, origin.prototype].min()), abs=1e-6)


def test_a_class_whose_every_patch_is_forbidden_is_refused_with_a_sentence() -> None:
    model = identity_model(2, 2, 2)
    entries = entries_of([0, 1], ["a", "b"])
    batches = batches_of(noise(2, 2), [0, 1], ["a", "b"], 2)
    forbidden = {"a": (torch.ones(4, dtype=torch.bool),)}
    with pytest.raises(ValueError, match="is forbidden \\(class 0\\): forbid fewer patches"):
        replace_prototypes(model, batches, entries, Replacement(unique="none"), forbidden=forbidden)


WHOLE = (torch.ones(4, dtype=torch.bool),)


@pytest.mark.parametrize("assignment", ["nearest_first", "smallest_total"])
@pytest.mark.parametrize(
    ("forbidden", "rule"),
    [
        ({}, "image"),
        ({"a": WHOLE}, "image"),  # 3 prototypes, and 3 images are free
        ({"a": WHOLE, "b": WHOLE}, "patch"),  # 2 images with 4 cells each are free
        ({"a": WHOLE, "b": WHOLE, "c": WHOLE}, "patch"),
        ({"a": WHOLE, "b": WHOLE, "c": WHOLE, "d": (torch.tensor([True, False, True, True]),)}, "none"),
    ],
)
def test_rules_are_relaxed_by_what_is_not_forbidden(
    assignment: str, forbidden: dict[str, tuple[torch.Tensor, ...]], rule: str
) -> None:
    model = identity_model(2, 2, 2, prototypes_per_class=3)  # 4 cells in an image
    ids, labels = ["a", "b", "c", "d", "e", "f", "g"], [0, 0, 0, 0, 1, 1, 1]
    batches, entries = batches_of(noise(7, 2), labels, ids, 3), entries_of(labels, ids)
    settings = Replacement(unique="image", assignment=assignment)  # type: ignore[arg-type]
    origins = replace_prototypes(model, batches, entries, settings, forbidden=forbidden)
    assert [origin.unique for origin in origins] == [rule] * 3 + ["image"] * 3
    for origin in origins:
        assert np.isfinite(origin.distance)
        assert origin.image not in forbidden or not forbidden[origin.image][0][origin.row * 2 + origin.col]
    own = [(origin.image, origin.row, origin.col) for origin in origins[:3]]
    assert len({image for image, *_ in own}) == 3 or rule != "image"
    assert len(set(own)) == (1 if rule == "none" else 3)


@given(st.integers(0, 2**32 - 1))
def test_there_is_enough_for_all_exactly_where_somebody_finds_a_way(seed: int) -> None:
    """Against a search of all ways to give each prototype a class."""
    rng = np.random.default_rng(seed)
    classes, count = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    sources, available = rng.random((classes, count)) < 0.6, rng.integers(0, 4, classes)
    ways = product(*(np.flatnonzero(sources[:, prototype]).tolist() for prototype in range(count)))
    found = any((np.bincount(way, minlength=classes) <= available).all() for way in ways)
    assert enough_for_all(torch.from_numpy(sources), torch.from_numpy(available)) == found


@pytest.mark.parametrize("assign", [nearest_first, smallest_total])
def test_nobody_takes_what_is_infinitely_far_or_anothers(assign: Callable[..., np.ndarray]) -> None:
    # The second may only take 7, which is nearest to the first: what comes first must not leave it without any.
    distances, items = np.array([[0.0, 0.5], [0.1, np.inf]]), np.array([[7, 8], [7, -1]])
    assert assign(distances, items).tolist() == [1, 0]


def test_a_patch_is_its_own_cell_and_the_neighbours_that_see_nearly_the_same() -> None:
    model = small_model(size=13)  # cells see 3 x 3 pixels, two apart: neighbours share 1 of 3 columns
    (cells,) = cells_of_patch(model, patch(model, 2, 3), torch.eye(3, dtype=torch.float64))
    assert cells.nonzero().flatten().tolist() == [2 * 6 + 3]
    # A patch of 5 x 3 pixels that holds the fields of two cells, each 9 of 15 pixels: an IoU of 0.6.
    y0, x0, y1, x1 = model.field.boxes(2, 3)[0]
    wide = replace(patch(model, 2, 3), boxes=(Box(y0, x0, y1, x1 + 2),))
    (cells,) = cells_of_patch(model, wide, torch.eye(3, dtype=torch.float64))
    assert cells.nonzero().flatten().tolist() == [2 * 6 + 3, 2 * 6 + 4]
    # One pixel: no cell sees half of nothing else, so the one that overlaps most is meant.
    tiny = replace(patch(model, 2, 3), boxes=(Box(y0 + 1, x0 + 1, y0 + 2, x0 + 2),))
    (cells,) = cells_of_patch(model, tiny, torch.eye(3, dtype=torch.float64))
    assert cells.nonzero().flatten().tolist() == [2 * 6 + 3]


def test_a_patch_is_found_again_in_images_of_another_size() -> None:
    model = small_model(size=13)
    boxes = tuple(Box(2 * y0, 2 * x0, 2 * y1, 2 * x1) for y0, x0, y1, x1 in model.field.boxes(2, 3))
    # The person's network saw the image in 26 x 26 pixels, this one sees it in 13 x 13; the file has 26 x 26.
    seen = TrainingPatch("image a", "class 0", boxes, (26, 26), IDENTITY, 0, 2, 3)
    to_source = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    (cells,) = cells_of_patch(model, seen, to_source)
    assert cells.nonzero().flatten().tolist() == [2 * 6 + 3]


def with_feedback(trained: Trained, tmp_path: Path, **changes: object) -> RunConfig:
    """The configuration of the trained run, with all its patches of the first class forbidden, and one remembered."""
    run = Path(shutil.copytree(trained.path, tmp_path / "looked-at"))
    for prototype in (0, 1):
        px.give_verdict(run, px.Verdict(prototype, "forbid"))
    px.give_verdict(run, px.Verdict(2, "remember"))
    return replace(trained.config, feedback=str(run / "verdicts.jsonl"), **changes)


def test_training_with_feedback_forgets_remembers_and_never_takes_what_is_forbidden(
    trained: Trained, tmp_path: Path
) -> None:
    config = with_feedback(trained, tmp_path)
    log = px.VerdictLog(tmp_path / "looked-at")
    train(config, tmp_path / "new")
    run = px.Run(tmp_path / "new")
    model = run.model()
    forbidden = {(patch.image, patch.boxes) for patch in log.forbidden()}
    assert model.origins is not None
    assert not {(origin.image, origin.boxes) for origin in model.origins} & forbidden
    assert run.config.feedback_hash and (run.path / "checkpoints" / "feedback.jsonl").exists()
    header, *lines = (run.path / "log.csv").read_text().splitlines()
    assert "forget" in header.split(",") and "remember" in header.split(",")
    values = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    assert all(float(line["forget"]) > 0 > float(line["remember"]) for line in values)


def test_the_terms_of_the_log_are_what_numpy_makes_of_the_networks_own_answers(
    trained: Trained, tmp_path: Path
) -> None:
    """With rates of 0 nothing moves, so the logged mean is that of the network as it began."""
    still = Optimization(epochs=1, warm_up_epochs=0, batch_size=8, views=1, lr_add_on=0, lr_backbone=0, lr_prototypes=0)
    still = replace(still, weight_decay=0.0, frozen_statistics=True)
    config = with_feedback(trained, tmp_path).with_settings(optimization=still)
    from pixpnet.training.preparing import prepare
    from pixpnet.training.run_data import open_run_data
    from pixpnet.training.watching import Nobody

    data = open_run_data(config)
    fitting = prepare(config, data, px.Run(tmp_path / "nothing"), Nobody())
    model, feedback = fitting.model.eval(), fitting.feedback
    assert feedback is not None
    entries = {entry.id: entry for entry in data.train}
    expected = {True: [], False: []}  # type: dict[bool, list[float]]
    for located in feedback.patches:
        image = preprocess(data.reader(entries[located.entry.id]), model.preprocessing).image.as_subclass(torch.Tensor)
        with torch.no_grad():
            maps = model(image[None]).matches.distance_maps[0].flatten(1).double().numpy()
        epsilon = 1e-8 if located.forbidden else 1e-4
        cells = located.cells[0].numpy()
        own = model.labels.numpy() == located.entry.label
        nearest = maps[own][:, cells].min(axis=1)
        expected[located.forbidden].append(float(np.log((nearest + 1) / (nearest + epsilon)).sum()))
    train(config, tmp_path / "still")
    header, line = (tmp_path / "still" / "log.csv").read_text().splitlines()
    logged = dict(zip(header.split(","), line.split(","), strict=True))
    assert float(logged["forget"]) == pytest.approx(np.mean(expected[True]), rel=1e-3)
    assert float(logged["remember"]) == pytest.approx(-np.mean(expected[False]), rel=1e-3)


def test_comparing_with_patches_leaves_running_statistics_as_they_are() -> None:
    model = small_model().train()
    (norm,) = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    with _statistics_unchanged(model):
        model(noise(4, 13))
    assert all(torch.equal(tensor, before[name]) for name, tensor in norm.state_dict().items())
    assert norm.momentum == 0.1
    model(noise(4, 13))
    assert not torch.equal(norm.running_mean, before["running_mean"])  # type: ignore[arg-type]


def test_feedback_that_cannot_be_used_is_refused_before_anything_is_written(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "new"
    with pytest.raises(RunError, match="--feedback is a log of verdicts"):
        train(replace(trained.config, feedback=str(tmp_path / "nothing.jsonl")), out)
    config = with_feedback(trained, tmp_path)
    log = Path(config.feedback)
    with pytest.raises(RunError, match="whose hash is"):
        train(replace(config, feedback_hash="0" * 32), out)
    text = log.read_text()
    log.write_text(text[:-30])
    with pytest.raises(RunError, match="damaged in line 3"):
        train(config, out)
    log.write_text(text.replace("train/", "elsewhere/"))
    with pytest.raises(RunError, match="none of the 3 patches"):
        train(config, out)
    log.write_text("")
    with pytest.raises(RunError, match="forbids and remembers no patch"):
        train(config, out)
    log.unlink()
    run = px.Run(log.parent)
    model, data = run.model(), run.data()
    side = model.preprocessing.size
    for entry in data.train:
        if entry.label == 0:
            matrix = preprocess(data.reader(entry), model.preprocessing).to_source.double().flatten().tolist()
            for row, col in product(range(model.field.shape[-2]), range(model.field.shape[-1])):
                boxes = tuple(Box(*box) for box in model.field.boxes(row, col))
                seen = TrainingPatch(entry.id, model.class_names[0], boxes, (side, side), tuple(matrix), 0, row, col)
                px.give_verdict(run, px.Verdict(0, "forbid", patch=seen))
    with pytest.raises(RunError, match=r"every patch that prototype 0 could be taken from is forbidden \(blue\)"):
        train(config, out)
    assert not out.exists()


def test_patches_of_images_that_are_not_learnt_from_are_left_out_and_said(trained: Trained, tmp_path: Path) -> None:
    config = with_feedback(trained, tmp_path)
    log = Path(config.feedback)
    first, *rest = log.read_text().splitlines(keepends=True)
    log.write_text(first.replace("train/", "elsewhere/") + "".join(rest))
    with pytest.warns(FeedbackWarning, match="of 3 patches .* 1 cannot be used"):
        train(config, tmp_path / "new")


@pytest.mark.parametrize("head", ["linear"])
def test_other_heads_learn_from_the_same_feedback(trained: Trained, tmp_path: Path, head: str) -> None:
    config = with_feedback(trained, tmp_path)
    architecture = Architecture(dim=8, prototypes_per_class=2, head=head)  # type: ignore[arg-type]
    replacement = Replacement(start=1, every=1, head_epochs=1)
    train(config.with_settings(architecture=architecture, replacement=replacement), tmp_path / "new")
    forbidden = {(patch.image, patch.boxes) for patch in px.VerdictLog(tmp_path / "looked-at").forbidden()}
    origins = px.Run(tmp_path / "new").model().origins
    assert origins is not None and not {(origin.image, origin.boxes) for origin in origins} & forbidden
