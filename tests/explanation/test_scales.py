"""Regions of several sizes: every term says how large its region is, and an audit says which grid sees too much."""

import json
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch
from matplotlib.text import Text

from pixpnet import zoo
from pixpnet.data import Preprocessing, Sample, preprocess
from pixpnet.data.sample import NO_ANNOTATION, source_sample
from pixpnet.explanation import Explanation, explain
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.auditing.localization import check_localization
from pixpnet.model import Backbone, PixPNet
from pixpnet.records import BadRecord
from pixpnet.views.explanation_figure import explanation_figure
from pixpnet.windows import Scale, Windows

SIDE = 32
WINDOWS = Windows(8, 4, "", (Scale(24, 8),))


def model_with(price: float = 0.0, terms: int | None = None) -> PixPNet:
    torch.manual_seed(0)
    backbone = Backbone(zoo.build("small-21"), "", (SIDE, SIDE), (), WINDOWS)
    architecture = Architecture(
        dim=8, prototypes_per_class=6, cells="normalized", pooling="distinct", terms_per_class=terms, field_price=price
    )
    torch.manual_seed(0)
    return PixPNet(backbone, architecture, ("jay", "wren", "robin"), Preprocessing(None, SIDE, SIDE), "small-21").eval()


def photograph(seed: int) -> Sample:
    pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    return source_sample(pixels, -1, f"photograph {seed}", NO_ANNOTATION, masks=None)


def test_every_term_says_how_much_of_the_image_its_region_is() -> None:
    explanation = explain(model_with(), photograph(0))
    # By hand: windows of 8 and of 24 pixels of 32 x 32.
    expected = {0: 8 * 8 / 32**2, 1: 24 * 24 / 32**2}
    terms = [term for explained in explanation.classes for term in explained.terms]
    assert {term.grid for term in terms} == {0, 1}
    assert all(term.share == pytest.approx(expected[term.grid]) for term in terms)
    shares = [
        term["share"] for explained in json.loads(explanation.to_json())["classes"] for term in explained["terms"]
    ]
    assert shares == [term.share for term in terms]
    rows = [line for line in explanation.details().splitlines() if re.match(r"\s+\d+\.\d\d  \d+:", line)]
    assert len(rows) == len(terms)
    for row, term in zip(rows, terms, strict=True):
        assert ("6.2" if term.grid == 0 else "56.2") in row
    text = explanation.details()
    assert "Grid 1 (on windows of 8 px)" in text
    assert "Grid 2 (on windows of 24 px)" in text
    words = " ".join(found.get_text() for found in explanation_figure(explanation).findobj(Text))
    # The three that speak most are drawn large, and say it.
    assert words.count("sees 6.2") + words.count("sees 56.2") >= 3


def test_a_record_whose_share_is_not_that_of_its_region_is_refused() -> None:
    values = json.loads(explain(model_with(), photograph(0)).to_json())
    values["classes"][0]["terms"][0]["share"] = 0.5
    with pytest.raises(BadRecord, match=r"is not 0\.5 of the image"):
        Explanation.from_json(json.dumps(values))
    for explained in values["classes"]:
        for term in explained["terms"]:
            del term["share"]
    del values["choice_note"]
    assert Explanation.from_json(json.dumps(values)).predicted.terms[0].share is None


def test_an_explanation_lists_the_terms_that_speak_and_says_how_they_were_chosen() -> None:
    explanation = explain(model_with(price=2.5, terms=3), photograph(1))
    assert [len(explained.terms) for explained in explanation.classes] == [3, 3]
    assert all(explained.rest == 0 for explained in explanation.classes)
    assert sum(term.contribution for term in explanation.predicted.terms) == pytest.approx(explanation.predicted.logit)
    assert "Of the 6 prototypes of a class the 3 speak whose scores are largest after a price of 2.5" in " ".join(
        explanation.details().split()
    )
    assert explanation.explanation_size == (3, 3)
    assert Explanation.from_json(explanation.to_json()) == explanation


def test_a_larger_price_never_enlarges_the_mean_winning_region_of_a_network() -> None:
    means = []
    for price in (0.0, 1.0, 3.0, 10.0, 1000.0):
        # The same weights at any price; windows of the image are never clipped: a region is as large as its grid's.
        model = model_with(price, terms=3)
        _like_wholes_of(model, photograph(0))
        shares = []
        for seed in range(4):
            for label in range(3):
                terms = explain(model, photograph(seed), [label]).explained(label).terms
                shares += [term.share for term in terms if term.share is not None]
        means.append(fmean(shares))
    assert means == sorted(means, reverse=True)
    assert len(set(means)) > 2
    assert means[-1] == 8 * 8 / 32**2


def _like_wholes_of(model: PixPNet, sample: Sample) -> None:
    """Makes the prototypes of large regions more or less like patches of an image, so that they score high there."""
    image = preprocess(sample, model.preprocessing).image.as_subclass(torch.Tensor)[None]
    large = model.grids[1].comparison
    with torch.no_grad():
        cells = model.embed(image)[1][0].flatten(1).T
        patches = cells[torch.arange(len(large.prototypes)) % len(cells)]
        noise = torch.rand(patches.shape, generator=torch.Generator().manual_seed(1))
        amount = torch.linspace(0, 0.6, len(patches))[:, None]
        large.prototypes.copy_((patches + amount * noise)[..., None, None])


def test_without_a_price_and_a_choice_a_network_is_what_it_was_bit_for_bit(tmp_path: Path) -> None:
    model, images = model_with(), torch.randn(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        output = model(images)
    # By hand: the sum of a class's scores, in the order of their numbers.
    expected = torch.zeros(4, 3).index_add(1, model.labels, output.matches.scores)
    assert torch.equal(output.logits, expected)
    assert model.head.name == "class_sum"
    model.save(tmp_path / "model.safetensors")
    assert b"terms_per_class" not in (tmp_path / "model.safetensors").read_bytes()[:20000]


def test_an_audit_fails_a_network_with_a_grid_that_sees_too_much_and_names_it() -> None:
    model = model_with()
    fails = check_localization(model, None, threshold=0.25, pixels=2).findings[0]
    assert fails.verdict == "fails"
    assert "6.25 % (on windows of 8 px, 9 of 18 prototypes), 56.2 % (on windows of 24 px, 9 of 18 prototypes)" in (
        fails.evidence
    )
    # A mean over both grids would be 31 %.
    assert check_localization(model, None, threshold=0.5, pixels=2).findings[0].verdict == "fails"
    assert check_localization(model, None, threshold=0.6, pixels=2).findings[0].verdict == "holds"
