"""Pruning and merging: the rules against NumPy, what is left of a network, and runs that go on learning afterwards."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pixpnet.config import RunConfig
from pixpnet.family import member_named
from pixpnet.members.protopnet import ProtoPNetArchitecture, ProtoPNetConfig, PrototypePruning, Prune, stages
from pixpnet.members.shrinking import keep_groups, merged_groups, pruned_groups
from pixpnet.model import Origin, PixPNet
from pixpnet.parts import ClassSets
from pixpnet.parts.losses import cluster_loss, separation_loss
from pixpnet.settings import Replacement
from pixpnet.training import replace_prototypes, resume, train
from pixpnet.training.actions import Replace
from pixpnet.training.fitting import Fitting
from pixpnet.training.watching import Nobody
from tests.members.tiny import tiny_config
from tests.members.toys import pixel_model, trained_run
from tests.training.material import batches_of, draw_pictures, entries_of
from tests.training.sameness import same

# Rules ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_prototype_stays_if_enough_of_its_nearest_images_are_of_its_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances, labels = rng.random((12, 8)), rng.integers(2, size=12)
    owners = [(0,), (0,), (0,), (0,), (1,), (1,), (1,), (1,)]
    groups = pruned_groups(torch.from_numpy(distances), torch.from_numpy(labels), owners, nearest=6, least=3)
    counts = [sum(labels[n] == own[0] for n in np.argsort(distances[:, j])[:6]) for j, own in enumerate(owners)]
    expected = {j for j, count in enumerate(counts) if count >= 3}
    for own in (range(4), range(4, 8)):
        if not expected & set(own):
            expected.add(max(own, key=lambda j: counts[j]))
    assert groups == [(j,) for j in sorted(expected)]


def test_a_class_whose_prototypes_all_look_at_others_keeps_the_best_of_them() -> None:
    distances = torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 9.0], [2.0, 1.0, 0.0]])
    labels = torch.tensor([1, 1, 0])
    assert pruned_groups(distances, labels, [(0,), (0,), (1,)], nearest=2, least=1) == [(1,), (2,)]


def merged_by_hand(answers: Any, share: float) -> list[tuple[int, ...]]:
    """The published rule, step by step: rows and columns of what was merged are removed from the matrix."""
    count = len(answers)
    table = np.array([[((a - b) ** 2).sum() for b in answers] for a in answers])
    np.fill_diagonal(table, np.inf)
    threshold = np.sort(table.min(axis=1))[max(1, round(share * count)) - 1]
    numbers = list(range(count))
    place, groups = 0, []
    while place < len(numbers):
        row = [table[numbers[place], other] for other in numbers]
        taken = [other for other, far in zip(numbers, row, strict=True) if far <= threshold]
        groups.append((numbers[place], *taken))
        numbers = [number for number in numbers if number not in taken]
        place += 1
    return groups


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(0, 10_000), st.floats(0.01, 1.0))
def test_merging_goes_in_the_order_of_numbers_and_takes_in_what_is_within_the_threshold(
    count: int, seed: int, share: float
) -> None:
    answers = np.random.default_rng(seed).integers(0, 6, size=(count, 2)).astype(float)
    groups = merged_groups(torch.from_numpy(answers), share, [0] * count)
    assert groups == merged_by_hand(answers, share)
    assert sorted(number for group in groups for number in group) == list(range(count))


def test_there_is_no_transitive_closure_so_the_order_matters() -> None:
    line = torch.tensor([[0.0], [1.0], [2.0]])
    assert merged_groups(line, 0.5, [0, 0, 0]) == [(0, 1), (2,)]
    assert merged_groups(line[[1, 0, 2]], 0.5, [0, 0, 0]) == [(0, 1, 2)]


def test_prototypes_of_different_grids_are_not_merged() -> None:
    answers = torch.tensor([[0.0], [0.0], [0.0], [5.0]])
    assert merged_groups(answers, 0.25, [0, 1, 1, 0]) == [(0,), (1, 2), (3,)]
    assert merged_groups(answers[:2], 1.0, [0, 1]) == [(0,), (1,)]


# What is left of a network -------------------------------------------------------------------------------------------


def origin(prototype: int) -> Origin:
    return Origin(
        prototype, prototype // 2, f"image {prototype}", 0, 0, (), (1.0, 0, 0, 0, 1, 0, 0, 0, 1), 0.0, "none", 0
    )


def test_a_merged_prototype_keeps_its_vector_adds_weights_and_speaks_for_all_classes() -> None:
    model = pixel_model("protopnet", ProtoPNetArchitecture(dim=3, prototypes_per_class=2), classes=3, size=2)
    before, weights = model.prototypes.detach().clone(), torch.randn(3, 6)
    model.head.weight.data.copy_(weights)  # type: ignore[union-attr]
    model.origins = tuple(map(origin, range(6)))
    keep_groups(model, [(0, 3, 5), (1,), (2, 4)])
    torch.testing.assert_close(model.prototypes.data, before[[0, 1, 2]], rtol=0, atol=0)
    expected = torch.stack([weights[:, [0, 3, 5]].sum(1), weights[:, 1], weights[:, [2, 4]].sum(1)], dim=1)
    torch.testing.assert_close(model.head.weights(), expected)  # type: ignore[operator]
    assert [model.ownership.owners(j) for j in range(3)] == [(0, 1, 2), (0,), (1, 2)]
    assert model.origins is not None
    assert [(each.prototype, each.image) for each in model.origins] == [(0, "image 0"), (1, "image 1"), (2, "image 2")]
    # L1 speaks of weights for classes that are in no set.
    torch.testing.assert_close(model.head.off_class().abs().sum(), expected[[1, 2, 0], [1, 1, 2]].abs().sum())
    assert model.head.size() == (2 * 2, 2 * 3)


def test_every_class_of_a_set_counts_as_own_in_losses() -> None:
    own = ClassSets([(0, 2), (1,)], 3).mask()[torch.tensor([0, 1, 2])]
    distances = torch.tensor([[1.0, 5.0], [2.0, 7.0], [3.0, 9.0]])
    assert float(cluster_loss(distances, own)) == pytest.approx((1 + 7 + 3) / 3)
    assert float(separation_loss(distances, own)) == pytest.approx(-(5 + 2 + 9) / 3)


def test_an_image_without_any_prototype_of_another_class_adds_nothing_to_separation() -> None:
    own = ClassSets([(0, 1)], 2).mask()[torch.tensor([0, 1])]
    distances = torch.ones(2, 1, requires_grad=True)
    loss = separation_loss(distances, own)
    (gradient,) = torch.autograd.grad(loss, distances)
    assert float(loss.detach()) == 0
    assert gradient.tolist() == [[0.0], [0.0]]


def test_images_of_every_class_of_a_set_may_give_the_patch() -> None:
    architecture = ProtoPNetArchitecture(dim=3, prototypes_per_class=1, owners=(((0, 2), (1,)),))
    model = pixel_model("protopnet", architecture, classes=3, size=2)
    model.prototypes.data = torch.tensor([[1.0, 0, 0], [0, 1.0, 0]]).reshape(2, 3, 1, 1)
    # The nearest image to the first prototype is of class 1, which it does not speak for; then of class 2.
    images = torch.tensor([[0.0, 0, 1], [1.0, 0, 0], [0.9, 0, 0]]).reshape(3, 3, 1, 1).repeat(1, 1, 2, 2)
    labels, ids = [0, 1, 2], ["a", "b", "c"]
    how = Replacement(unique="none")
    origins = replace_prototypes(model, batches_of(images, labels, ids, 2), entries_of(labels, ids), how)
    assert [(each.image, each.label) for each in origins] == [("c", 2), ("b", 1)]


def test_rivals_are_those_that_share_classes_and_no_prototype_is_in_two_groups() -> None:
    sets = ClassSets([(0,), (1,), (0, 2), (2,)], 3)
    assert sorted(group.tolist() for group in sets.rivals()) == [[0, 2, 3], [1]]


@pytest.mark.parametrize("owners", [((),), ((3,),), ((-1,),)])
def test_prototypes_for_no_class_or_for_an_unknown_one_are_refused(owners: Any) -> None:
    with pytest.raises(ValueError, match="speaks for some of 3 classes"):
        ClassSets(owners, 3)


# Runs that go on learning --------------------------------------------------------------------------------------------


def test_pruning_is_off_unless_asked_for_and_follows_the_last_replacement() -> None:
    assert not any(preset.pruning.enabled for preset in member_named("protopnet").presets.values())
    found = stages(replace(ProtoPNetConfig(), pruning=PrototypePruning(enabled=True)))
    assert [(stage.name, stage.epochs, stage.selectable) for stage in found[-2:]] == [
        ("joint", 10, "never"), ("head", 100, "every epoch"),
    ]  # fmt: skip
    assert [type(action) for action in found[-2].at_end] == [Replace, Prune]
    assert not any(isinstance(action, Prune) for stage in found[:-2] for action in stage.at_end)
    assert {stage.selectable for stage in found[:-1]} == {"never"}


def test_owners_and_impossible_rules_are_refused() -> None:
    with pytest.raises(ValueError, match=r"leave --architecture\.owners"):
        ProtoPNetConfig(ProtoPNetArchitecture(owners=(((0,), (1,)),)))
    with pytest.raises(ValueError, match="least-own"):
        PrototypePruning(nearest=2, least_own=3)


@pytest.fixture(scope="module")
def pruning(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    squares = draw_pictures(tmp_path_factory.mktemp("pruning") / "squares")
    config = tiny_config("protopnet", "laptop", squares)
    settings: Any = config.settings
    # Nearly nothing passes, so that something goes.
    rule = PrototypePruning(enabled=True, nearest=6, least_own=6, head_epochs=2)
    return replace(
        config, settings=replace(settings, pruning=rule, optimization=replace(settings.optimization, lr_head=1e-2))
    )


def test_the_head_learns_after_pruning_and_an_interrupted_run_ends_the_same(pruning: RunConfig, tmp_path: Path) -> None:
    heads: list[tuple[int, torch.Tensor]] = []

    def after_step(fitting: Fitting) -> None:
        heads.append((fitting.current_epoch, fitting.model.head.weights().detach().clone()))  # type: ignore[operator]

    trained = trained_run(pruning, tmp_path / "run", after_step)
    left = trained.model.num_prototypes
    assert left < 4 * trained.model.num_classes
    assert trained.metrics.prototypes == left
    pruned = [weights for _, weights in heads if weights.shape[1] == left]
    assert len({epoch for epoch, weights in heads if weights.shape[1] == left}) == 2
    assert not torch.equal(pruned[0], pruned[-1])
    # Accuracies before replacement are of the network that had them all.
    assert trained.metrics.validation_before is not None

    class Stopping(Nobody):
        def epoch_ended(self, line: Any) -> None:
            if line.stage == "head" and line.epoch == max(epoch for epoch, _ in heads):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(pruning, tmp_path / "again", Stopping())
    assert PixPNet.load(tmp_path / "again").num_prototypes == left
    assert resume(tmp_path / "again") is not None
    same(tmp_path / "run", tmp_path / "again")
