"""Stability by hand, and the mistakes of earlier software that it must not make."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.box import Box
from pixpnet.data import Preprocessing
from pixpnet.metrics.draws import generator_for
from pixpnet.metrics.stability import HitAgreement, Stability, with_noise

LEFT, RIGHT, NOWHERE, ALL = (Box(0, 0, 8, 4),), (Box(0, 4, 8, 8),), (), (Box(0, 0, 8, 8),)
# Beak and crown on the left, tail on the right.
POINTS = torch.tensor([[1.0, 1.0], [2.0, 2.0], [6.0, 1.0]])
ALL_SEEN, NONE_SEEN = torch.tensor([True, True, True]), torch.tensor([False, False, False])
Change = tuple[int, tuple[Box, ...], tuple[Box, ...], torch.Tensor]


def of(changes: list[Change], prototypes: int = 1) -> Stability:
    metric = Stability(prototypes, point_parts=(0, 1, 2))
    for prototype, region, noisy, visible in changes:
        metric.update([prototype], [region], [noisy], POINTS, visible)
    return metric


def test_the_hit_parts_must_be_the_same_and_the_soft_score_counts_them() -> None:
    # The same; the tail more (2 of 3 agree); all three otherwise.
    score = of([(0, LEFT, LEFT, ALL_SEEN), (0, LEFT, ALL, ALL_SEEN), (0, LEFT, RIGHT, ALL_SEEN)]).compute()
    assert score.agreements[0] is not None
    assert score.agreements[0].same == 1 / 3
    assert abs(score.agreements[0].parts - (1 + 2 / 3 + 0) / 3) < 1e-12


def test_a_region_may_move_as_long_as_it_holds_the_same_parts() -> None:
    score = of([(0, (Box(0, 0, 3, 3),), (Box(1, 1, 4, 4),), ALL_SEEN)]).compute()
    assert score.share == 1.0


def test_only_visible_parts_are_compared() -> None:
    # The tail, which makes the difference, is hidden: beak and crown agree.
    score = of([(0, LEFT, ALL, torch.tensor([True, True, False]))]).compute()
    assert (score.share, score.soft) == (1.0, 1.0)
    # The crown is hidden: of beak and tail one agrees.
    score = of([(0, LEFT, ALL, torch.tensor([True, False, True]))]).compute()
    assert (score.share, score.soft) == (0.0, 0.5)


def test_an_image_without_a_visible_part_says_nothing() -> None:
    score = of([(0, LEFT, RIGHT, ALL_SEEN), (0, LEFT, LEFT, NONE_SEEN), (1, LEFT, LEFT, NONE_SEEN)], 3).compute()
    assert score.agreements == (HitAgreement(same=0.0, parts=0.0, images=1), None, None)
    assert (score.share, score.undefined) == (0.0, 2)


def test_where_nothing_is_defined_there_is_no_score() -> None:
    score = of([(0, LEFT, LEFT, NONE_SEEN)]).compute()
    assert (score.share, score.soft, score.undefined) == (None, None, 1)


def test_each_prototype_is_divided_by_the_images_of_its_own_class() -> None:
    # FACTS 7.2. Prototype 0: 4 of 4 images are stable. Prototype 1: 1 of 2. On average 3/4.
    changes: list[Change] = [(0, LEFT, LEFT, ALL_SEEN)] * 4
    changes += [(1, LEFT, LEFT, ALL_SEEN), (1, LEFT, RIGHT, ALL_SEEN)]
    metric = of(changes, prototypes=3)
    score = metric.compute()
    assert score.share == (1 + 1 / 2) / 2
    # The old way divides all of them by the count of the last class: 2, so 2.0 and 0.5; or 0 where its prototype
    # has no image.
    old = metric.same / metric.images[1]
    assert old.tolist() == [2.0, 0.5, 0.0]
    assert torch.isinf(metric.same / metric.images[2]).any()


def test_a_prototype_counts_once_however_many_images_its_class_has() -> None:
    # Over pairs it would be 1 of 10.
    changes: list[Change] = [(0, LEFT, LEFT, ALL_SEEN)] + [(1, LEFT, RIGHT, ALL_SEEN)] * 9
    assert of(changes, prototypes=2).compute().share == 0.5


regions = st.sampled_from([LEFT, RIGHT, NOWHERE, ALL])


@given(
    st.lists(
        st.tuples(st.integers(0, 1), regions, regions, st.lists(st.booleans(), min_size=3, max_size=3)),
        min_size=1,
        max_size=6,
    )
)
def test_the_soft_score_is_never_below_the_hard_one_and_time_may_run_backwards(
    drawn: list[tuple[int, tuple[Box, ...], tuple[Box, ...], list[bool]]],
) -> None:
    changes = [(prototype, one, other, torch.tensor(visible)) for prototype, one, other, visible in drawn]
    score = of(changes, 2).compute()
    backwards = of([(prototype, other, one, visible) for prototype, one, other, visible in changes], 2).compute()
    assert score == backwards
    for agreement in score.agreements:
        assert agreement is None or 0 <= agreement.same <= agreement.parts <= 1


def test_noise_is_normal_with_the_deviation_that_was_asked_for() -> None:
    noise = with_noise(torch.full((3, 100, 100), 1.5), generator_for(0, "noise"), sigma=0.2) - 1.5
    # 30 000 draws: the deviation is known to 0.2 / sqrt(60 000), the mean to 0.2 / sqrt(30 000); four of each.
    assert abs(float(noise.std()) - 0.2) < 0.0033
    assert abs(float(noise.mean())) < 0.0047


def test_clipped_noise_stays_between_black_and_white() -> None:
    # Black is (0 - 0.5) / 0.25 = -2 and white (1 - 0.5) / 0.25 = 2 in the first channel, -1 and 3 in the second.
    preprocessing = Preprocessing(mean=(0.5, 0.25, 0.5), std=(0.25, 0.25, 0.25))
    image = torch.tensor([-2.0, 3.0, 0.0])[:, None, None].expand(3, 20, 20)
    noisy = with_noise(image, generator_for(0, "noise"), 0.2, within=preprocessing)
    assert float(noisy[0].min()) == -2.0
    assert float(noisy[1].max()) == 3.0
    free = with_noise(image, generator_for(0, "noise"), 0.2)
    assert float(free[0].min()) < -2.2
    assert noisy[2].equal(free[2])
    assert noisy[0].equal(free[0].clamp(min=-2))


def test_no_noise_is_the_image_itself() -> None:
    image = torch.rand(3, 4, 4)
    assert with_noise(image, generator_for(0, "noise"), sigma=0.0).equal(image)
