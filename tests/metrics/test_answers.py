"""Where answers look: counts by hand in pictures of four squares, and the laws of cells that are the same or apart."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors

from pixpnet.data import Sample
from pixpnet.data.sample import box_in
from pixpnet.metrics.answering import Answer, answers
from pixpnet.metrics.answers import AnswerPlaces, answer_places
from pixpnet.metrics.bootstrap import DefinedMean
from pixpnet.metrics.distinctiveness import Distinctiveness, DistinctivenessCounter, prototype_distinctiveness
from pixpnet.model import PixPNet
from pixpnet.records import from_plain, to_plain
from tests.metrics.part_toys import BLACK, BLUE, RED, WHITE, YELLOW, finder, picture
from tests.metrics.toys import network_of

# Red in the top left and yellow in the top right square.
APART = picture(((RED, YELLOW), (BLACK, BLACK)), [], name="apart")
# Red alone, which yellow is nearest to as well.
TOGETHER = picture(((RED, BLACK), (BLACK, BLACK)), [], name="together")


def boxed(sample: Sample, x0: float, y0: float, x1: float, y1: float) -> Sample:
    return replace(sample, bounding_box=box_in((x0, y0, x1, y1), (8, 8)))


def mean(measured: DefinedMean) -> float:
    assert measured.estimate is not None
    return measured.estimate.mean


def test_an_answer_of_two_cells_by_hand() -> None:
    # The object is 4 x 8 pixels in the middle; of its 32 the union of the two regions covers the upper 16.
    places = answer_places(finder(), [boxed(APART, 2, 0, 6, 8)])
    assert (mean(places.distinct_cells), places.prototypes) == (2.0, 2.0)
    assert mean(places.overlap) == 0.0
    assert mean(places.image_covered) == 0.5
    assert mean(places.object_covered) == 0.5
    assert mean(places.winning_region) == 0.25
    assert (places.object_known_by, places.images) == ("boxes", 1)


def test_prototypes_at_one_cell_are_one_place_and_overlap_wholly() -> None:
    places = answer_places(finder(), [TOGETHER])
    assert mean(places.distinct_cells) == 1.0
    assert mean(places.overlap) == 1.0
    assert mean(places.image_covered) == mean(places.winning_region) == 0.25


def test_the_prototypes_are_those_of_the_predicted_class_whatever_the_label() -> None:
    # Blue and white, of the other class, are found at two different squares.
    right, wrong = (answer_places(finder(), [replace(TOGETHER, label=label)]) for label in (0, 1))
    assert right == wrong
    assert mean(wrong.distinct_cells) == 1.0


def test_an_object_that_is_not_known_leaves_one_figure_undefined_and_the_others_as_they_are() -> None:
    places = answer_places(finder(), [APART, boxed(TOGETHER, 0, 0, 2, 2)])
    assert (mean(places.object_covered), places.object_covered.undefined) == (1.0, 1)
    assert places.image_covered.undefined == 0
    unknown = answer_places(finder(), [APART])
    assert (unknown.object_covered, unknown.object_known_by) == (DefinedMean(None, 1), "nothing")
    masks = torch.zeros(1, 8, 8, dtype=torch.bool)
    masks[0, 3:5, 0] = True
    masked = answer_places(finder(), [replace(APART, masks=tv_tensors.Mask(masks))])
    assert (mean(masked.object_covered), masked.object_known_by) == (0.5, "masks")


def test_intervals_draw_classes() -> None:
    cold = picture(((BLUE, WHITE), (BLACK, BLACK)), [], label=1, name="cold")
    places = answer_places(finder(), [TOGETHER, TOGETHER, cold])
    estimate = places.distinct_cells.estimate
    assert estimate is not None
    assert (estimate.clusters, estimate.count, estimate.low, estimate.high) == (2, 3, 1.0, 2.0)


def test_distinctiveness_is_0_at_one_cell_and_1_where_no_pixel_is_shared() -> None:
    model = finder()
    together = prototype_distinctiveness(model, [TOGETHER], window_side=6)
    assert mean(together.window) == mean(together.field) == 0.0
    apart = prototype_distinctiveness(model, [APART], window_side=4)
    assert mean(apart.window) == mean(apart.field) == 1.0
    # Windows of 6 around (2, 2) and (6, 2), cut to the image: 10 of 40 pixels are shared.
    assert mean(prototype_distinctiveness(model, [APART], window_side=6).window) == 0.75
    assert mean(prototype_distinctiveness(model, [APART, TOGETHER], window_side=4).field) == 0.5


def test_distinctiveness_is_of_the_true_class() -> None:
    # The answer is that of red and yellow, at one cell. White is nearest to red, blue to black: two squares.
    mistaken = replace(TOGETHER, label=1)
    model = finder()
    (answer,) = answers(model, [mistaken])
    assert answer.predicted == 0
    assert mean(prototype_distinctiveness(model, [mistaken]).field) == 1.0


def test_the_published_window_is_scaled_with_the_image() -> None:
    assert prototype_distinctiveness(finder(), [APART]).window_side == 3  # 72 x 8 / 224 = 2.6


def test_only_the_five_highest_scores_are_compared() -> None:
    # Class 0 has six prototypes. The five with the highest scores are at one cell, the sixth is elsewhere.
    model = network_of(torch.nn.AvgPool2d(4), 8, prototypes_per_class=6)
    scores = torch.zeros(18)
    scores[:6] = torch.tensor([3.0, 9.0, 1.0, 8.0, 7.0, 6.0])
    cells = torch.zeros(18, 3, dtype=torch.int64)
    cells[2, 1:] = 1
    counter = DistinctivenessCounter(model)
    counter.update(Answer(APART, 2, scores, cells, torch.ones(len(scores), dtype=torch.bool)))
    assert mean(counter.compute().field) == 0.0
    # With all six, 5 of the 15 pairs share no pixel.
    counter = DistinctivenessCounter(model, most=6)
    counter.update(Answer(APART, 2, scores, cells, torch.ones(len(scores), dtype=torch.bool)))
    assert mean(counter.compute().field) == pytest.approx(5 / 15)


def test_one_prototype_alone_is_undefined() -> None:
    single = prototype_distinctiveness(finder(), [APART], most=1)
    assert single.window == single.field == DefinedMean(None, 1)


def test_places_are_the_cells_that_the_network_says_won(monkeypatch: pytest.MonkeyPatch) -> None:
    # A pooling that gives prototypes other cells than the nearest: all at the bottom right.
    compare = PixPNet.compare

    def assigned(self: PixPNet, embeddings: tuple[Tensor, ...]) -> object:
        output = compare(self, embeddings)
        return replace(output, matches=replace(output.matches, cells=torch.ones_like(output.matches.cells)))

    monkeypatch.setattr(PixPNet, "compare", assigned)
    places = answer_places(finder(), [boxed(APART, 4, 4, 8, 8)])
    assert (mean(places.distinct_cells), mean(places.object_covered)) == (1.0, 1.0)
    assert mean(prototype_distinctiveness(finder(), [APART]).field) == 0.0


def test_each_image_takes_one_forward_pass_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    embed = PixPNet.embed
    monkeypatch.setattr(PixPNet, "embed", lambda self, images: passed.append(len(images)) or embed(self, images))
    told: list[tuple[int, int]] = []
    samples = [APART, TOGETHER, APART]
    by_two = list(answers(finder(), samples, lambda _, done, total: told.append((done, total)), batch_size=2))
    assert passed == [2, 1]
    assert told == [(1, 3), (2, 3), (3, 3)]
    one_by_one = list(answers(finder(), samples, batch_size=1))
    assert [answer.cells.tolist() for answer in by_two] == [answer.cells.tolist() for answer in one_by_one]


def test_a_model_in_training_mode_and_raw_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"call model.eval\(\)"):
        answer_places(finder().train(), [APART])
    with pytest.raises(ValueError, match="preprocess the sample"):
        answer_places(finder(), [replace(APART, image=tv_tensors.Image(torch.zeros(3, 8, 8, dtype=torch.uint8)))])


def test_no_images_give_no_figures_and_records_read_back() -> None:
    nothing = answer_places(finder(), [])
    assert (nothing.distinct_cells, nothing.prototypes, nothing.images) == (DefinedMean(None, 0), None, 0)
    for record in (nothing, answer_places(finder(), [APART])):
        assert from_plain(AnswerPlaces, to_plain(record)) == record
    compared = prototype_distinctiveness(finder(), [APART, TOGETHER])
    assert from_plain(Distinctiveness, to_plain(compared)) == compared
