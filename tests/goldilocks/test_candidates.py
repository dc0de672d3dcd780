"""Cuts that come into question."""

import pytest

from pixpnet import UnknownLayer, UnknownModel, receptive_fields
from pixpnet.goldilocks import SearchError, candidates, survey
from pixpnet.goldilocks.candidates import inside
from pixpnet.goldilocks.options import SearchOptions
from tests.goldilocks.material import candidate

OWN = "tests.goldilocks.material:one_convolution"


def test_layers_of_the_papers_table_that_cannot_be_cut_at_are_listed_with_the_reason() -> None:
    result = survey(["densenet121", "resnet18", "squeezenet1_1"], 64)
    assert len(result.candidates) + len(result.left_out) == 14 + 8 + 6  # rows of the table
    reasons = {(cut.backbone, cut.at): cut.reason for cut in result.left_out}
    assert reasons.keys() == {("densenet121", "avgpool"), ("densenet121", "classifier"), ("resnet18", "fc")}
    assert "no layer 'avgpool' was run" in reasons["densenet121", "avgpool"]
    assert "(1000) is flat" in reasons["resnet18", "fc"]
    fields = {cut.name: cut for cut in result.candidates}
    assert fields["resnet18 @ avgpool"].mean_field == 1.0
    block = fields["densenet121 @ denseblock2"]  # early channels of a dense block see less than late ones
    assert block.mean_field > block.mean_field_neurons


def test_the_field_on_the_axis_is_the_papers_figure() -> None:
    (cut,) = survey(["vgg16"], 224, ["maxpool4"]).candidates
    assert round(100 * cut.mean_field, 4) == 15.7358  # the reference's figure


def test_paper_stands_for_the_21_networks_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = receptive_fields(OWN, (3, 4, 4))
    monkeypatch.setattr(candidates, "receptive_fields", lambda name, shape: nothing)
    result = survey(["vgg16", "paper"], 224)
    assert len({cut.backbone for cut in result.left_out}) == 21
    # 4 DenseNets, Inception, 10 ResNets and their like, 2 SqueezeNets, 4 VGGs.
    assert len(result.left_out) == 4 * 14 + 18 + 10 * 8 + 2 * 6 + 4 * 8


def test_the_field_of_a_convolution_is_what_one_counts_by_hand() -> None:
    # Of 4 rows, a cell of a 3 x 3 convolution sees 2, 3, 3 and 2: 10 / 16 of them; the same across.
    (cut,) = survey([OWN], 4).candidates
    assert cut.mean_field == cut.mean_field_neurons == (10 / 16) ** 2
    assert (cut.at, cut.shape) == ("0", (4, 4, 4))


def test_of_layers_with_the_same_field_the_last_is_taken() -> None:
    result = survey(["small-37"], 96).candidates
    names = ["stage1.halve", "stage1", "stage2", "stage3.mix", "stage3"]
    assert [cut.at for cut in result] == names
    assert [cut.order for cut in result] == sorted(cut.order for cut in result)
    fields = [cut.mean_field for cut in result]
    assert sorted(set(fields)) == fields


def test_patterns_choose_layers_by_path_or_by_the_papers_name_and_each_layer_once() -> None:
    names = [cut.at for cut in survey(["resnet18"], 64, ["layer?"]).candidates]
    assert names == ["layer1", "layer2", "layer3", "layer4"]
    names = [cut.at for cut in survey(["vgg11"], 64, ["maxpool*", "features.2", "features.[01]"]).candidates]
    assert names == ["features.0", "features.1", "maxpool1", "maxpool2", "maxpool3", "maxpool4", "maxpool5"]


def test_a_pattern_may_fit_one_of_several_networks_but_must_fit_one() -> None:
    assert [cut.name for cut in survey(["vgg11", "resnet18"], 64, ["layer2"]).candidates] == ["resnet18 @ layer2"]
    with pytest.raises(UnknownLayer, match=r"--layers layr2 fits no layer of resnet18.*'layer2'"):
        survey(["resnet18"], 64, ["layr2", "layer1"])
    with pytest.raises(UnknownModel, match="did you mean 'resnet18'"):
        survey(["resnet81"], 64)
    with pytest.raises(SearchError, match="name some"):
        survey([], 64)


def test_only_cuts_inside_the_zone_are_chosen_ends_included() -> None:
    cuts = [candidate(position) for position in (1, 5, 20, 60, 70)]
    assert [cut.order for cut in inside(cuts, (0.05, 0.6))] == [5, 20, 60]
    with pytest.raises(SearchError, match=r"nearest are small-21 @ layer20 \(0.2000\) and small-21 @ layer60"):
        inside(cuts, (0.21, 0.4))
    with pytest.raises(SearchError, match="has rows and columns"):
        inside([], (0.05, 0.6))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zone": (0.6, 0.05)}, "reversed: write --zone 0.05 0.6"),
        ({"zone": (5.0, 60.0)}, "20 % is 0.2"),
        ({"want": 20.0}, "20 % is 0.2"),
        ({"epochs": 0}, "epochs is at least 1"),
        ({"seed": -1}, "not negative"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchOptions("birds", **changes)  # type: ignore[arg-type]


def test_the_wanted_field_is_the_middle_of_the_zone_as_a_ratio() -> None:
    assert SearchOptions("birds", zone=(0.1, 0.4)).wanted == 0.2
    assert SearchOptions("birds", zone=(0.0, 0.4)).wanted == 0.2
    assert SearchOptions("birds", want=0.3).wanted == 0.3
