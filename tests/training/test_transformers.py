"""Transformers of timm on windows, from drawn birds and random weights to an audited run."""

from pathlib import Path

import pytest

from pixpnet.config import RunConfig
from pixpnet.explanation import explain, prove
from pixpnet.metrics.auditing import audit
from pixpnet.model import PixPNet
from pixpnet.settings import Optimization
from pixpnet.training import open_run_data, train

VIT, SWIN = "timm:vit_tiny_patch16_224", "timm:swin_tiny_patch4_window7_224"


@pytest.mark.parametrize(
    ("name", "at", "window", "birds", "preset"),
    [
        (VIT, "blocks.0", 48, 40, "frozen"),
        (SWIN, "layers.0", 48, 40, "frozen"),
        pytest.param(VIT, "norm", 48, 400, "frozen", marks=pytest.mark.slow),
        pytest.param(SWIN, "norm", 48, 400, "frozen", marks=pytest.mark.slow),
        pytest.param(VIT, "blocks.1", 32, 400, "scratch", marks=pytest.mark.slow),
    ],
)
def test_a_transformer_learns_on_drawn_birds_and_its_explanations_are_proven_and_audited(
    name: str, at: str, window: int, birds: int, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    config = RunConfig.of(
        "pixpnet", preset, data="birds", birds=birds, backbone=name, at=at, weights="none", window=float(window),
        window_stride=16.0, evaluate_on_test=False,
    )  # fmt: skip
    epochs = Optimization(
        epochs=2, warm_up_epochs=0, batch_size=16, views=1, frozen="all" if preset == "frozen" else ""
    )
    metrics = train(config.with_settings(optimization=epochs), tmp_path / "run")
    assert metrics is not None and metrics.mean_field == (window / 96) ** 2 == metrics.largest_field
    model, data = PixPNet.load(tmp_path / "run"), open_run_data(config)
    sample = data.reader(data.val[0])
    explanation = explain(model, sample)
    proven = prove(model, sample, explanation, draws=2)
    terms = [term for explained in proven.classes for term in explained.terms]
    assert terms and all(term.proof is not None and term.proof.passed for term in terms)
    assert {(box.y1 - box.y0, box.x1 - box.x0) for term in terms for box in term.region} == {(window, window)}
    found = audit(tmp_path / "run", model, data, pixels=2)
    assert (found.grounding.verdict, found.reasoning.verdict) == ("holds", "holds")
