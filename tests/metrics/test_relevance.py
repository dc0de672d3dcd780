"""The relevance ordering test as a whole: draws, means, what is undefined, and what falls back."""

from math import log

import pytest
import torch
from torch import Tensor, nn

from pixpnet.mapping.scene import Heatmaps, Scene
from pixpnet.metrics.ordering import OrderingWarning, Spacing, relevance_ordering
from pixpnet.model import PixPNet
from tests.metrics.toys import Picture, block_sums, network_of, ones_in_a_corner


def by_value(scene: Scene) -> Heatmaps:
    """Bright pixels first."""
    return Heatmaps(scene.image.mean(0).expand(len(scene.prototypes), -1, -1), ((),) * len(scene.prototypes))


def by_chance(scene: Scene) -> Heatmaps:
    maps = torch.rand(len(scene.prototypes), *scene.size, generator=scene.generator)
    return Heatmaps(maps, ((),) * len(scene.prototypes))


def samples(count: int = 4, size: int = 6) -> list[Picture]:
    generator = torch.Generator().manual_seed(0)
    return [Picture(torch.randn(3, size, size, generator=generator), n % 3, f"picture {n}") for n in range(count)]


def small() -> PixPNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return network_of(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()), 6)


def test_means_are_over_pairs_whatever_their_classes() -> None:
    # FACTS 7.2: divided by the count of the last class, the mean of five samples of three classes would be too large.
    result = relevance_ordering(small(), samples(5), by_value, prototypes_per_sample=None)
    assert len(result.pairs) == 5 * 2
    assert {pair.label for pair in result.pairs} == {0, 1, 2}
    areas = [pair.area for pair in result.pairs if pair.area is not None]
    assert result.area is not None
    assert result.area.mean == pytest.approx(sum(areas) / len(areas))
    assert result.area.count == len(areas) == 10 - result.undefined
    assert result.area.low is not None
    assert result.area.high is not None
    assert result.area.low <= result.area.mean <= result.area.high


def test_prototypes_are_those_of_the_samples_class() -> None:
    model = small()
    result = relevance_ordering(model, samples(6), by_value, prototypes_per_sample=1)
    assert len(result.pairs) == 6
    assert all(int(model.labels[pair.prototype]) == pair.label for pair in result.pairs)


def test_the_seed_decides_every_draw() -> None:
    one, again, other = (
        relevance_ordering(small(), samples(), by_chance, sample_count=2, prototypes_per_sample=1, seed=seed)
        for seed in (1, 1, 2)
    )
    assert [pair.sample for pair in one.pairs] == [pair.sample for pair in again.pairs]
    assert (one.area, one.recovery) == (again.area, again.recovery)
    assert (one.area, one.recovery) != (other.area, other.recovery)


def test_mappings_are_compared_on_the_same_start_and_end() -> None:
    value, chance = (relevance_ordering(small(), samples(), mapping, seed=3) for mapping in (by_value, by_chance))
    for one, other in zip(value.pairs, chance.pairs, strict=True):
        assert (one.sample, one.prototype) == (other.sample, other.prototype)
        ends = (curve.similarities[[0, -1]].tolist() for curve in (one.curve, other.curve))
        assert next(ends) == pytest.approx(next(ends))


def test_the_start_of_a_sample_does_not_depend_on_the_others() -> None:
    pool = samples(4)
    alone = {
        pair.sample: pair for n in range(4) for pair in relevance_ordering(small(), pool[n : n + 1], by_value).pairs
    }
    for pair in relevance_ordering(small(), pool, by_value).pairs:
        if pair.prototype == alone[pair.sample].prototype:
            assert pair.curve.similarities.tolist() == pytest.approx(alone[pair.sample].curve.similarities.tolist())


def test_exact_and_stepped_agree_where_every_step_is_a_point() -> None:
    every = Spacing(points=400, finer=0, times=0)
    exact = relevance_ordering(small(), samples(2, 4), by_value, method="exact")
    stepped = relevance_ordering(small(), samples(2, 4), by_value, method="stepped", spacing=every)
    assert (exact.method, stepped.method) == ("exact", "stepped")
    for one, other in zip(exact.pairs, stepped.pairs, strict=True):
        assert len(one.curve.fractions) == 17
        assert one.curve.similarities.tolist() == pytest.approx(other.curve.similarities.tolist(), rel=1e-5)


def test_a_similarity_that_does_not_rise_is_counted_and_left_out() -> None:
    # The image of zeros is farther from the prototype than any start: log(1 + 1 / 17) is the end, and nothing above it.
    model = block_sums()
    pool = [Picture(torch.full((3, 4, 4), -9.0), 0, "dark"), Picture(ones_in_a_corner(), 1, "bright")]
    result = relevance_ordering(model, pool, by_value, prototypes_per_sample=1)
    values = {pair.sample: (pair.area, pair.recovery) for pair in result.pairs}
    assert values["dark"] == (None, None)
    assert values["bright"][0] is not None
    assert result.undefined == 1
    assert result.area is not None
    assert (result.area.mean, result.area.count) == (values["bright"][0], 1)
    bright = next(pair for pair in result.pairs if pair.sample == "bright")
    assert bright.curve.similarities[-1].item() == pytest.approx(log(2))


def test_where_nothing_rises_there_is_no_mean() -> None:
    result = relevance_ordering(block_sums(), [Picture(torch.full((3, 4, 4), -9.0), 0, "dark")], by_value)
    assert (result.area, result.recovery, result.undefined) == (None, None, 2)


class Shifted(nn.Module):
    """A convolution and an operation that no rule is for."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.roll(self.conv(x), 1, dims=2)


def test_an_operation_without_a_rule_takes_whole_passes_and_says_so() -> None:
    model = network_of(Shifted(), 4)
    with pytest.warns(OrderingWarning, match="no rule for aten.roll"):
        result = relevance_ordering(model, samples(2, 4), by_value, method="exact")
    assert result.method == "full: no rule for aten.roll.default"
    stepped = relevance_ordering(model, samples(2, 4), by_value, spacing=Spacing(points=400, times=0))
    for one, other in zip(result.pairs, stepped.pairs, strict=True):
        assert one.curve.similarities.tolist() == pytest.approx(other.curve.similarities.tolist())


@pytest.mark.parametrize("method", ["exact", "stepped"])
def test_progress_rises_to_the_end(method: str) -> None:
    heard: list[tuple[int, int]] = []
    relevance_ordering(
        small(), samples(2), by_value, method=method, progress=lambda _, done, total: heard.append((done, total))
    )
    assert len({total for _, total in heard}) == 1
    done = [done for done, _ in heard]
    assert done == sorted(done)
    assert heard[-1][0] == heard[-1][1]


def test_the_model_must_answer_and_there_must_be_a_sample() -> None:
    with pytest.raises(ValueError, match=r"model\.eval"):
        relevance_ordering(small().train(), samples(), by_value)
    with pytest.raises(ValueError, match="no sample"):
        relevance_ordering(small(), [], by_value)
