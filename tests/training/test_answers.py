"""What a run keeps of its last judgement, and that it costs one pass over the images."""

import copy
import importlib
import json
import shutil
from pathlib import Path

import pytest
import torch

from pixpnet.data import preprocess, read_sample
from pixpnet.model import PixPNet
from pixpnet.model.weights import read_state
from pixpnet.training import Run, RunError, evaluate, train
from pixpnet.training.answers import AnswerLine, answers_from_text, answers_text, confusion_of
from pixpnet.training.final_evaluation import evaluate_both
from tests.training.conftest import Trained
from tests.training.material import batches_of, small_config


def test_every_judged_image_has_one_line_that_says_what_the_model_answered(trained: Trained, pictures: Path) -> None:
    lines = Run(trained.path).read_answers()
    assert lines is not None
    expected = {
        str(path.relative_to(pictures)) for split in ("test", "val") for path in (pictures / split).rglob("*.*")
    }
    assert len(lines) == len(expected) == 21
    assert {line.file for line in lines} == expected
    model = Run(trained.path).model()
    for line in lines:
        assert line.file.startswith(line.split)
        assert line.truth == Path(line.file).parent.name
        with torch.no_grad():
            image = preprocess(read_sample(pictures / line.file), model.preprocessing).image.as_subclass(torch.Tensor)
            logits = dict(zip(model.class_names, model(image[None]).logits[0].tolist(), strict=True))
        assert list(line.best) == sorted(logits, key=lambda name: -logits[name])
        assert line.scores == pytest.approx([logits[name] for name in line.best], rel=1e-4)


def test_confusion_and_accuracies_follow_from_the_lines(trained: Trained) -> None:
    lines = Run(trained.path).read_answers()
    assert lines is not None
    metrics = json.loads((trained.path / "metrics.json").read_text())
    for split, name in (("test", "test"), ("val", "validation")):
        counted = confusion_of([line for line in lines if line.split == split], ("blue", "green", "red"))
        assert counted.to_plain() == metrics[name]["confusion"]


def test_lines_are_read_as_they_were_written() -> None:
    lines = (
        AnswerLine("test", 'odd "name",\r.png', "a,b", ("wren", "a,b"), (1.0 / 3, -1e-30)),
        AnswerLine("val", "plain.png", "wren", ("wren", "a,b"), (3.5, 2.0)),
    )
    read = answers_from_text(answers_text(lines))
    assert [(line.split, line.file, line.truth, line.best) for line in read] == [
        (line.split, line.file, line.truth, line.best) for line in lines
    ]
    for one, other in zip(read, lines, strict=True):  # all that 32 bits hold
        assert torch.equal(torch.tensor(one.scores), torch.tensor(other.scores))
    assert (lines[1].answer, lines[1].lead, round(lines[0].lead, 3)) == ("wren", 0.0, 0.333)


@pytest.mark.parametrize("text", ["", "split,file\n", "split,file,class,best 1,logit 1\ntrain,a,b,c,1.0\n", "\xff\x00"])
def test_a_damaged_table_is_an_error_that_names_it(trained: Trained, tmp_path: Path, text: str) -> None:
    run = Run(Path(shutil.copytree(trained.path, tmp_path / "run")))
    (run.path / "answers.csv").write_text(text)
    with pytest.raises(RunError, match=r"answers\.csv is damaged"):
        run.read_answers()
    (run.path / "answers.csv").unlink()
    assert run.read_answers() is None  # as in runs of earlier versions


def test_two_models_are_judged_with_one_pass_through_the_backbone(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Run(trained.path).model()
    before = copy.deepcopy(model)
    before.load_state_dict(read_state(Run(trained.path).learnt), strict=False)
    with torch.no_grad():
        for tensor in (before.prototypes, before.head.weight if hasattr(before.head, "weight") else before.prototypes):
            tensor += torch.randn_like(tensor)
    images = torch.randn(11, 3, 32, 32)
    batches = batches_of(images, [number % 3 for number in range(11)], [f"{n}" for n in range(11)], 4)
    alone = [evaluate(network, 3, batches) for network in (model, before)]
    passes: list[int] = []
    maps = model.backbone.maps
    monkeypatch.setattr(model.backbone, "maps", lambda images: passes.append(len(images)) or maps(images))
    monkeypatch.setattr(before.backbone, "maps", lambda images: pytest.fail("embedded twice"))
    both = evaluate_both(model, before, batches)
    assert passes == [4, 4, 3]
    for together, one in zip((both.after, both.before), alone, strict=True):
        assert together.confusion == one.confusion
        assert together.loss == pytest.approx(one.loss, rel=1e-5)
    assert both.after.loss != both.before.loss
    assert both.scores.logits.shape == (11, 3)


def test_the_end_of_a_run_embeds_each_image_once(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finishing = importlib.import_module("pixpnet.training.finishing")
    embedded: list[int] = []
    embed, crops = PixPNet.embed, finishing.write_crops

    def counted(self: PixPNet, images: torch.Tensor) -> object:
        embedded.append(len(images))
        return embed(self, images)

    def cropped(*words: object) -> None:
        crops(*words)  # type: ignore[arg-type]
        embedded.clear()  # what comes from here on is the last judgement

    monkeypatch.setattr(PixPNet, "embed", counted)
    monkeypatch.setattr(finishing, "write_crops", cropped)
    train(small_config(pictures), tmp_path / "run")
    assert sum(embedded) == 12 + 9
