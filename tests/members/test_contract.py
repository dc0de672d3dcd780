"""The contract: what holds for every member of the family, tested without knowing which one it is.

A member that refuses to give reasons fails desideratum 3, one that never replaces prototypes fails desideratum 1; the
audit must then say so. Everything else holds for all.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pixpnet.cli import main
from pixpnet.config import RunConfig, read_config
from pixpnet.data import DataSet, preprocess
from pixpnet.explanation import Explanation, explain, prove
from pixpnet.family import DEFAULT, MEMBERS, member_named
from pixpnet.metrics.auditing import audit
from pixpnet.metrics.suite import MeasureSettings, measure
from pixpnet.model import PixPNet
from pixpnet.parts import NoReasons
from pixpnet.training import open_run_data, resume, train
from pixpnet.training.actions import Replace
from pixpnet.training.watching import Nobody
from tests.members.tiny import run_config
from tests.training.material import draw_pictures, replaced_and_judged
from tests.training.sameness import same

# Two cuts of one backbone, so that whatever counts on a single grid shows.
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in MEMBERS]
CASES += [(name, {"at": "stage2,stage3"}) for name in MEMBERS]
# Windows of two sizes: the grids are not one behind the other, and are of one layer.
CASES += [(DEFAULT, {"window": "12,24", "window_stride": "6,8"})]
# Of two sizes with a price: the decision chooses, image by image, which prototypes speak.
PRICED = {"window": "12,24", "window_stride": "6,8", "terms_per_class": 2, "field_price": 3.0}
CASES += [(DEFAULT, PRICED)]


class Made:
    """A finished run of a member, and what belongs to it."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        self.model = PixPNet.load(path)
        self.data: DataSet = open_run_data(config)

    def images(self, count: int) -> Tensor:
        samples = [preprocess(self.data.reader(entry), self.model.preprocessing) for entry in self.data.val[:count]]
        return torch.stack([sample.image.as_subclass(Tensor) for sample in samples])

    @property
    def replaces(self) -> bool:
        stages = member_named(self.config.member).stages(self.config.settings)
        return any(isinstance(action, Replace) for stage in stages for action in stage.at_end)


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_pictures(tmp_path_factory.mktemp("contract") / "squares")


def named(case: tuple[str, dict[str, Any]]) -> str:
    return " @ ".join((case[0], *(str(value) for value in case[1].values())))


@pytest.fixture(scope="module", params=CASES, ids=named)
def made(request: pytest.FixtureRequest, squares: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    name, options = request.param
    folder = tmp_path_factory.mktemp("runs")
    chosen = {key: value for key, value in options.items() if key in ("terms_per_class", "field_price")}
    others = {key: options[key] for key in options.keys() - chosen.keys()}
    config, path = run_config(name, "laptop", squares, folder, **others), folder / "run"
    if chosen:
        architecture: Any = config.settings.architecture
        config = config.with_settings(architecture=replace(architecture, **chosen))
    assert train(config, path) is not None
    return Made(path, config)


def test_the_reasons_of_an_answer_add_up_to_its_logits_or_are_refused(made: Made) -> None:
    with torch.no_grad():
        output = made.model(made.images(4))
    for logits, scores in zip(output.logits, output.matches.scores, strict=True):
        labels = list(range(made.model.num_classes))
        try:
            reasons = made.model.head.reasons(scores, labels)
        except NoReasons:
            assert audit(made.path, made.model, made.data, pixels=1).reasoning.verdict == "fails"
            continue
        torch.testing.assert_close(reasons.logits(scores), logits.double(), rtol=1e-5, atol=1e-5)


def test_every_claimed_region_passes_the_proof_and_the_record_survives_json(made: Made) -> None:
    sample = made.data.reader(made.data.val[0])
    explanation = explain(made.model, sample)
    proven = prove(made.model, sample, explanation, draws=3)
    terms = [term for explained in proven.classes for term in explained.terms]
    assert terms
    assert all(term.proof is not None and term.proof.passed for term in terms)
    for explained in proven.classes:
        total = math.fsum(term.contribution for term in explained.terms) + explained.rest
        assert total == pytest.approx(explained.logit, rel=1e-4, abs=1e-4)
    assert Explanation.from_json(proven.to_json()) == proven
    assert proven.predicted.class_name in str(proven)


def test_a_claimed_region_one_row_short_fails_the_proof(made: Made) -> None:
    sample = made.data.reader(made.data.val[0])
    explanation = explain(made.model, sample)

    def short(term: Any) -> Any:
        boxes = tuple(replace_row(box) for box in term.region)
        return replace(term, region=boxes)

    def replace_row(box: Any) -> Any:
        return box._replace(y1=box.y1 - 1)

    classes = tuple(
        replace(class_explanation, terms=tuple(map(short, class_explanation.terms)))
        for class_explanation in explanation.classes
    )
    proven = prove(made.model, sample, replace(explanation, classes=classes), draws=3)
    assert not all(term.proof.passed for explained in proven.classes for term in explained.terms if term.proof)


def test_prototypes_are_the_patches_that_their_origins_name_or_the_audit_says_that_they_are_not(made: Made) -> None:
    model = made.model
    if not made.replaces:
        assert model.origins is None
        assert audit(made.path, model, made.data, pixels=1).grounding.verdict == "fails"
        return
    assert model.origins is not None
    assert [origin.prototype for origin in model.origins] == list(range(model.num_prototypes))
    entries = {entry.id: entry for entry in made.data.train}
    for origin in model.origins:
        grid = model.grid_of(origin.prototype)
        sample = preprocess(made.data.reader(entries[origin.image]), model.preprocessing)
        with torch.no_grad():
            cells = model.embed(sample.image.as_subclass(Tensor)[None])[grid.number][0]
        _, cols = model.fields[grid.number].shape[-2:]
        cell = torch.tensor(origin.row * cols + origin.col)
        patch = grid.comparison.patches(cells[None], torch.tensor(0), cell).vectors
        prototype = grid.comparison.prototypes[origin.prototype - grid.first]
        torch.testing.assert_close(grid.comparison.as_prototypes(patch[None])[0], prototype, rtol=1e-4, atol=1e-5)


def test_a_model_that_was_saved_and_loaded_answers_bit_for_bit_the_same(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "again.safetensors"
    made.model.save(path)
    again, images = PixPNet.load(path), made.images(4)
    with torch.no_grad():
        first, second = made.model(images), again(images)
        repeated = made.model(images)
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.logits, repeated.logits)
    assert torch.equal(first.matches.cells, second.matches.cells)
    assert again.origins == made.model.origins
    assert again.member == made.config.member


def test_an_interrupted_run_ends_bit_for_bit_like_one_that_was_not(made: Made, tmp_path: Path) -> None:
    class Stopping(Nobody):
        def epoch_ended(self, line: Any) -> None:
            if line.epoch == 2:
                raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(made.config, out, Stopping())
    assert resume(out) is not None
    same(made.path, out)


def test_evaluation_and_replacement_are_the_same_with_two_processes_as_with_one(made: Made, tmp_path: Path) -> None:
    actions = [
        action
        for stage in member_named(made.config.member).stages(made.config.settings)
        for action in stage.at_end
        if isinstance(action, Replace)
    ]

    replacement = actions[-1].settings if actions else None
    (alone,), (leader, other) = (
        replaced_and_judged(tmp_path, world_size, made.path, made.config.data, replacement) for world_size in (1, 2)
    )
    assert leader == other
    losses = [item["evaluation"].pop("loss") for item in (leader, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert leader == alone


def test_the_audit_and_the_measures_come_to_their_end(made: Made, tmp_path: Path) -> None:
    result = audit(made.path, made.model, made.data, pixels=2)
    assert result.localization.disagreements == 0
    assert result.conduct.verdict == "holds"
    few = MeasureSettings(mappings=("field", "upsampling", "random"), samples=1, prototypes=1, split="val")
    table = measure(made.path, few, out=tmp_path / "measured").table
    assert {row.mapping for row in table.rows} == {"field", "upsampling", "random"}


def test_the_report_renders(made: Made, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(made.path), "--examples", "1", "--out", str(out)]) == 0
    assert "<html" in out.read_text()


def test_the_configuration_that_a_run_keeps_is_the_one_it_was_given(made: Made) -> None:
    assert read_config(made.path / "config.yaml") == made.config
    header = (made.path / "log.csv").read_text().splitlines()[0].split(",")
    stages = member_named(made.config.member).stages(made.config.settings)
    assert {term.name for stage in stages for term in stage.losses} <= set(header)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "preset"), [(name, preset) for name in MEMBERS for preset in member_named(name).presets]
)
def test_every_preset_trains_to_a_model_that_explains_itself(
    name: str, preset: str, squares: Path, tmp_path: Path
) -> None:
    config = run_config(name, preset, squares, tmp_path)
    assert train(config, tmp_path / "run") is not None
    one = Made(tmp_path / "run", config)
    sample = one.data.reader(one.data.val[0])
    proven = prove(one.model, sample, explain(one.model, sample), draws=2)
    assert all(term.proof is not None and term.proof.passed for term in proven.predicted.terms)
