"""The short text of an explanation: two sentences, three parts, and nothing that the long one would contradict."""

from dataclasses import replace

import numpy as np
import pytest

from pixpnet.box import Box
from pixpnet.explanation import Explanation, explain, prove
from pixpnet.explanation.brief import SHOWN
from pixpnet.model.part_names import parts_inside, read_part_names, write_part_names
from tests.explanation.toys import as_sample, origins_of, photo, real


def explained(**changes: object) -> Explanation:
    model = real("linear")
    model.origins = origins_of(model)
    explanation = explain(model, as_sample(photo(), "jay.jpg"))
    best = explanation.predicted
    terms = tuple(replace(term, **changes) for term in best.terms)  # type: ignore[arg-type]
    return replace(explanation, classes=(replace(best, terms=terms), *explanation.classes[1:]))


def test_it_is_two_sentences_and_three_parts() -> None:
    explanation = explained()
    head, parts, tail, *_ = str(explanation).split("\n\n")
    best, runner = explanation.classes
    assert " ".join(head.split()).startswith(f"jay.jpg: {best.class_name}, ")
    assert runner.class_name in head
    assert len(parts.splitlines()) == SHOWN
    for line, term in zip(parts.splitlines(), best.terms, strict=False):
        ((y0, x0, y1, x1),) = term.region
        assert f"{term.contribution:+.2f}" in line
        assert f"{y0}:{y1}, {x0}:{x1}" in line
        assert f"prototype {term.prototype}" in line
    assert f"logit {best.logit:.2f}" in tail
    assert "--all" in tail


def test_what_is_not_shown_is_what_is_missing_from_the_logit() -> None:
    explanation = explained()
    best = explanation.predicted
    hidden = len(best.terms) - SHOWN
    rest = best.logit - sum(term.contribution for term in best.terms[:SHOWN])
    assert f"{hidden} more part{' adds' if hidden == 1 else 's add'} {rest:.2f}" in " ".join(str(explanation).split())


def test_parts_are_called_by_their_names_where_they_are_known() -> None:
    assert "beak and eye in " in str(explained(parts=("beak", "eye", "crown")))


def test_of_a_long_path_the_folders_go_and_the_name_of_the_part_stays() -> None:
    origin = explained().predicted.terms[0].origin
    assert origin is not None
    long = replace(origin, image=f"train/{'folder/' * 12}016.Painted_Bunting/Painted_Bunting_0005_15202.jpg")
    lines = str(explained(parts=("wing", "forehead"), origin=long)).split("\n\n")[1].splitlines()
    for line in lines:
        assert "wing and forehead in " in line and line.endswith("15202.jpg")
        assert "folder" not in line and len(line) <= 100


def test_a_claim_that_fails_is_said() -> None:
    model = real()
    sample = as_sample(photo())
    proven = prove(model, sample, explain(model, sample))
    assert "FAIL" not in str(proven)
    best = proven.predicted
    first = best.terms[0]
    assert first.proof is not None
    failed = replace(first.proof, field=replace(first.proof.field, passed=False))
    terms = (replace(first, proof=failed), *best.terms[1:])
    broken = replace(proven, classes=(replace(best, terms=terms), *proven.classes[1:]))
    assert "the others FAIL" in " ".join(str(broken).split())


def test_a_part_is_inside_where_its_point_is_in_the_region_and_seen() -> None:
    points = np.array([[1.0, 1.0], [5.0, 5.0], [5.0, 5.0], [8.0, 1.0]])
    region = (Box(0, 0, 4, 4), Box(4, 4, 8, 8))
    visible = np.array([True, True, False, True])
    assert parts_inside(region, points, visible, ["beak", "tail", "wing", "leg"]) == ("tail", "beak")
    assert parts_inside((), points, visible, ["beak", "tail", "wing", "leg"]) == ()


@pytest.mark.parametrize("text", ["", "{}", "[[1]]", '["beak"]', "[[", '[["' + "a" * 2**23 + '"]]'])
def test_a_damaged_list_of_names_counts_as_none(tmp_path, text: str) -> None:  # type: ignore[no-untyped-def]
    write_part_names(tmp_path, (("beak",), ()))
    assert read_part_names(tmp_path) == (("beak",), ())
    (tmp_path / "parts.json").write_text(text)
    assert read_part_names(tmp_path) == ()
