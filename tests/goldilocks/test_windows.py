"""Windows in a search: which are chosen, what they see, and that their features are computed once."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from pixpnet.config import read_config
from pixpnet.data.locked import LockedSplit
from pixpnet.fields.verify import verify_fields
from pixpnet.goldilocks import SearchError, Survey, find_cuts, look_for_cuts, read_result, with_windows
from pixpnet.goldilocks.options import SearchOptions
from pixpnet.goldilocks.search import Unwatched
from pixpnet.goldilocks.windowed import _stride, with_windows_for
from pixpnet.model import Backbone
from pixpnet.model.build import build_backbone
from pixpnet.training import train
from pixpnet.windows import window_starts
from tests.goldilocks.material import options

pytestmark = pytest.mark.filterwarnings("ignore::pixpnet.model.FieldWarning")


def windowed(pictures: Path, **changes: object) -> SearchOptions:
    given = {"backbones": ("small-21",), "layers": ("stage3",), "windows": (12, 16), "epochs": 2, "zone": (0.9, 1.0)}
    return options(pictures, **{**given, **changes})


def test_the_recommended_windows_are_those_that_were_measured() -> None:
    # docs/decisions/windows.md, where 384:72:40:layer1 has 81 cells and a mean field of 7.7 %.
    (cut,) = with_windows(Survey(384, (), ()), ["resnet18"], [72]).candidates
    assert cut.windows is not None
    assert (cut.at, cut.windows.size, cut.windows.stride, cut.windows.start) == ("layer4", 72, 40, "layer1")
    assert cut.shape == (512, 9, 9) and round(100 * cut.mean_field, 1) == 7.7


@pytest.mark.parametrize("length", [24, 96, 97, 384])
def test_windows_overlap_by_nearly_half_are_four_along_a_side_and_cover_the_image(length: int) -> None:
    for window in range(2, length):
        starts = window_starts(length, window, _stride(length, window))
        steps = [there - here for here, there in pairwise(starts)]
        assert starts[0] == 0 and starts[-1] + window == length
        assert max(steps, default=0) <= window  # no gaps
        if length - window >= 3:
            assert len(starts) >= 4
        if window > 20 and len(starts) > 4:
            assert max(steps) <= 0.6 * window  # at least 40 %, to a whole cell


@pytest.mark.parametrize(("start", "named"), [(None, "stage2"), ("image", ""), ("stage1", "stage1")])
def test_the_field_of_a_candidate_is_what_the_probe_sees(start: str | None, named: str) -> None:
    (cut,) = with_windows(Survey(48, (), ()), ["small-21"], [24], ["stage3"], start).candidates
    assert cut.windows is not None and cut.windows.start == named
    backbone = build_backbone(cut.backbone, cut.at, None, 48, 0, (), cut.windows).eval()
    assert not verify_fields(backbone, (3, 48, 48), pixels=6).disagreements
    assert backbone(torch.zeros(1, 3, 48, 48)).shape[1:] == cut.shape


def test_a_target_lists_windows_before_edits_and_hits_it() -> None:
    found = look_for_cuts(SearchOptions("", ("small-37",), target_field=0.2, size=96), 96, Unwatched())
    kinds = ["windows" if cut.windows else "edits" if cut.edits else "plain" for cut in found.candidates]
    assert kinds == sorted(kinds, key=["plain", "windows", "edits"].index)
    windows = [cut for cut in found.candidates if cut.windows]
    assert windows and min(abs(cut.mean_field - 0.2) for cut in windows) < 0.02


def test_of_a_transformer_windows_have_sizes_that_its_patches_divide() -> None:
    found = with_windows(Survey(96, (), ()), ["timm:vit_tiny_patch16_224"], [32, 40])
    (cut,), (refused,) = found.candidates, found.left_out
    assert cut.windows is not None and cut.windows.start == "" and cut.mean_field == (32 / 96) ** 2
    assert cut.at == "norm" and "do not divide 40: take 32 or 48" in refused.reason
    (near,) = with_windows_for(Survey(96, (), ()), ["timm:vit_tiny_patch16_224"], 0.25).candidates
    assert near.windows is not None and near.windows.size == 48


def test_windows_that_fit_nothing_are_an_error_that_says_why() -> None:
    with pytest.raises(SearchError, match="windows of 128 px do not fit into images of 96 px"):
        with_windows(Survey(96, (), ()), ["small-21"], [128])
    with pytest.raises(ValueError, match="needs the sizes of windows"):
        SearchOptions("birds", window_from="layer1")


def test_probe_and_prototypes_share_one_pass_and_the_recommended_run_needs_no_other(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    passes: list[int] = []
    stem = Backbone.stem

    def counted(backbone: Backbone, images: torch.Tensor) -> torch.Tensor:
        passes.append(len(images))
        return stem(backbone, images)

    monkeypatch.setattr(Backbone, "stem", counted)

    def refuse(*args: object) -> None:
        raise AssertionError("the test split was opened")

    with monkeypatch.context() as closed:
        closed.setattr(LockedSplit, "open", refuse)
        result = find_cuts(windowed(pictures), tmp_path / "out")
    assert result.settings.method == "frozen" and len(result.evaluated) == 2
    for cut in result.evaluated:
        assert cut.windows is not None and cut.accuracy is not None and cut.probe is not None
    assert read_result(tmp_path / "out") == result
    data = json.loads((tmp_path / "out" / "front.json").read_text())
    assert {cut["windows"]["size"] for cut in data["evaluated"]} == {12, 16}
    header, *_ = (tmp_path / "out" / "front.csv").read_text().splitlines()
    assert header.endswith("probe,window,window_stride,window_from")

    # Views and plain images of train, and validation, once for each of two cuts; opening a set checks one view of each
    # kind, and the run of a cut opens it again.
    best = next(cut for cut in result.evaluated if cut.name == result.recommended)
    config = read_config(tmp_path / "out" / "train.yaml")
    assert (config.window, config.optimization.views) == (best.windows and best.windows.size, 1)
    passes.clear()
    metrics = train(replace(config, evaluate_on_test=False), tmp_path / "run")
    assert len(passes) <= 4  # one plain and one augmented view are compared with what is kept, nothing else
    assert metrics is not None and metrics.validation.accuracy == best.accuracy  # the very run that was evaluated
    passes.clear()
    assert find_cuts(windowed(pictures), tmp_path / "out") == result and not passes


def test_an_older_result_without_windows_opens(pictures: Path, tmp_path: Path) -> None:
    find_cuts(options(pictures, backbones=("small-21",), layers=("stage2",)), tmp_path)
    path = tmp_path / "front.json"
    data = json.loads(path.read_text())
    data["judged"] = data.pop("evaluated")  # its name then
    for cut in data["judged"]:
        del cut["windows"], cut["probe"]
    for cut in data["outside"]:
        del cut["windows"]
    path.write_text(json.dumps(data))
    assert read_result(tmp_path).evaluated[0].windows is None
