"""What the page is told is what the library says, and pictures show what was tested."""

import io
import json
import math
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from PIL import Image

from pixpnet.explanation import explain
from pixpnet.mapping import heatmaps
from pixpnet.training import Run
from tests.views.explorer.client import TOKEN, Served, picture, served


def painted(path: str, height: int, width: int) -> np.ndarray:
    """The pixels that an outline holds, by the even-odd rule: an independent reader of its letters."""
    inside = np.zeros((height, width), bool)
    for ring in filter(None, path.split("Z")):
        x = y = 0
        verticals = []
        start = None
        for letter, text in re.findall(r"([MHV])([\d ]+)", ring):
            numbers = [int(word) for word in text.split()]
            if letter == "M":
                x, y = numbers
                start = (x, y)
            elif letter == "H":
                x = numbers[0]
            else:
                verticals.append((x, min(y, numbers[0]), max(y, numbers[0])))
                y = numbers[0]
        assert start is not None
        if (x, y) != start and y != start[1]:
            verticals.append((x, min(y, start[1]), max(y, start[1])))
        for at, low, high in verticals:
            inside[low:high, at:] ^= True
    return inside


def boxes_mask(boxes: object, height: int, width: int) -> np.ndarray:
    inside = np.zeros((height, width), bool)
    for y0, x0, y1, x1 in boxes:  # type: ignore[attr-defined]
        inside[y0:y1, x0:x1] = True
    return inside


@pytest.fixture(scope="module")
def image(explorer: Served) -> str:
    return str(explorer.ask("/api/images?sort=name").json["images"][0]["id"])


@pytest.mark.parametrize("query", ["sort=name", "sort=doubt", "sort=mistakes", "sort=doubt&label=1"])
def test_the_neighbours_of_an_image_are_those_in_the_list_that_it_was_taken_from(explorer: Served, query: str) -> None:
    listed = [line["id"] for line in explorer.ask(f"/api/images?{query}&count=200").json["images"]]
    assert len(listed) > 2
    walked: list[str] = []
    following: str | None = listed[0]
    while following is not None:
        neighbours = explorer.ask(f"/api/images/{following}?{query}").json["neighbours"]
        assert neighbours["previous"] == (walked[-1] if walked else None)
        walked.append(following)
        assert (neighbours["number"], neighbours["of"]) == (len(walked), len(listed))
        following = neighbours["next"]
    assert walked == listed
    upload = explorer.upload(picture(5)).json["id"]
    assert explorer.ask(f"/api/images/{upload}").json["neighbours"] is None


def test_an_answer_says_what_the_library_says(explorer: Served, image: str, pictures: Path) -> None:
    told = explorer.ask(f"/api/images/{image}").json
    model = explorer.explorer.model
    explanation = explain(model, explorer.explorer.images.get(image).sample)
    assert [item["label"] for item in told["classes"]] == [item.label for item in explanation.classes]
    for shown, explained in zip(told["classes"], explanation.classes, strict=True):
        assert sum(term["contribution"] for term in shown["terms"]) == pytest.approx(explained.logit, abs=1e-4)
        for term, known in zip(shown["terms"], explained.terms, strict=True):
            assert term["prototype"] == known.prototype
            assert term["contribution"] == known.contribution
            assert (painted(term["region"]["path"], 32, 32) == boxes_mask(known.region, 32, 32)).all()
            assert known.origin is not None
            origin = painted(term["origin"]["region"]["path"], 32, 32)
            assert (origin == boxes_mask(known.origin.boxes, 32, 32)).all()
    logits = np.array(explanation.logits)
    assert model.calibration is None or told["set"] is not None
    temperature = 1.0 if model.calibration is None else model.calibration.temperature
    shares = np.exp(logits / temperature - (logits / temperature).max())
    shares /= shares.sum()
    assert [item["label"] for item in told["ranking"]] == list(np.argsort(-logits, kind="stable"))
    assert [item["share"] for item in told["ranking"]] == pytest.approx(sorted(shares, reverse=True))
    assert told["answer"]["probability"] == pytest.approx(shares.max())
    assert told["image"]["truth"] in model.class_names


def test_a_file_is_answered_as_the_command_answers_it(explorer: Served, pictures: Path, run_folder: Path) -> None:
    file = pictures / "val" / "red" / "0.png"
    line = explorer.upload(file.read_bytes(), quote(file.name)).json
    known = explain(Run(run_folder).model(), file)
    assert (line["answer"], line["name"]) == (known.predicted.class_name, "0.png")
    assert line["logit"] == pytest.approx(max(known.logits))


def test_beside_a_wrong_answer_stands_the_right_one(explorer: Served) -> None:
    for line in explorer.ask("/api/images").json["images"]:
        told = explorer.ask(f"/api/images/{line['id']}").json
        names = [item["name"] for item in told["classes"]]
        assert names[0] == line["answer"]
        assert line["runner_up"] in names
        assert line["truth"] in names


def test_any_class_is_explained_when_asked_for(explorer: Served, image: str) -> None:
    names = explorer.explorer.model.class_names
    for label in range(len(names)):
        told = explorer.ask(f"/api/images/{image}?classes={label}").json
        assert names[label] in [item["name"] for item in told["classes"]]
    assert explorer.ask(f"/api/images/{image}?classes=99").status == 404


def test_a_pixel_that_is_nan_reaches_exactly_the_cells_whose_shown_field_holds_it(explorer: Served, image: str) -> None:
    (grid,) = explorer.ask(f"/api/images/{image}/cells").json["grids"]
    fields = [painted(cell["path"], 32, 32) for cell in grid["cells"]]
    model = deepcopy(explorer.explorer.model).double()
    sample = explorer.explorer.images.get(image).sample.image.as_subclass(torch.Tensor).double()
    for y, x in ((0, 0), (31, 31), (7, 20), (16, 16), (30, 3)):
        changed = sample.clone()
        changed[:, y, x] = torch.nan
        with torch.no_grad():
            (cells,) = model.embed(changed[None])
        reached = cells[0].isnan().any(dim=0).flatten().tolist()
        assert reached == [bool(field[y, x]) for field in fields]


def test_the_box_of_upsampling_is_the_mappings(explorer: Served, image: str) -> None:
    sample = explorer.explorer.images.get(image).sample
    claimed = heatmaps(explorer.explorer.model, sample.image, [2], "upsampling").regions[0]
    told = explorer.ask(f"/api/images/{image}/upsampling/2").json["region"]
    assert (painted(told["path"], 32, 32) == boxes_mask(claimed, 32, 32)).all()
    heat = explorer.ask(f"/api/images/{image}/heat/2?token={TOKEN}")
    with Image.open(io.BytesIO(heat.body)) as layer:
        assert (layer.size, layer.mode) == ((32, 32), "RGBA")


def test_a_proof_shows_images_that_differ_outside_the_part_and_a_number_that_does_not(
    explorer: Served, image: str
) -> None:
    told = explorer.ask(f"/api/images/{image}").json
    term = told["classes"][0]["terms"][0]
    job = explorer.post("/api/proofs", {"image": image, "prototype": term["prototype"]}).json
    ended = explorer.ended(job)
    assert ended["state"] == "done", ended["error"]
    result = ended["result"]
    assert result["terms"][0]["proof"]["held"] is True

    def pixels(number: int) -> np.ndarray:
        reply = explorer.ask(f"/api/jobs/{job['id']}/pictures/{number}")
        assert reply.headers["content-type"] == "image/png"
        with Image.open(io.BytesIO(reply.body)) as shown:
            return np.asarray(shown)

    part = painted(term["region"]["path"], 32, 32)
    unchanged, changed = pixels(0), result["changed"]
    assert changed[0]["similarity"] == changed[1]["similarity"]
    assert [item["inside"] for item in changed] == [False] * 7 + [True] * 6
    for number in range(1, 7):
        shown = pixels(number)
        assert (shown[part] == unchanged[part]).all()
        assert (shown[~part] != unchanged[~part]).any(axis=1).mean() > 0.9
        assert changed[number]["similarity"] == changed[0]["similarity"]
    for number in range(7, 13):
        shown = pixels(number)
        assert (shown[~part] == unchanged[~part]).all()
        assert (shown[part] != unchanged[part]).any()
    assert explorer.ask(f"/api/jobs/{job['id']}/pictures/13").status == 404


def test_a_proof_of_everything_is_a_job(explorer: Served, image: str) -> None:
    job = explorer.post("/api/proofs", {"image": image}).json
    result = explorer.ended(job)["result"]
    shown = explorer.ask(f"/api/images/{image}").json["classes"]
    assert len(result["terms"]) == sum(len(item["terms"]) for item in shown)
    assert all(term["proof"]["held"] for term in result["terms"])
    assert result["deciding"]


def test_images_are_listed_by_mistakes_and_by_doubt(explorer: Served) -> None:
    mistakes = explorer.ask("/api/images?sort=mistakes").json
    assert mistakes["total"] == 9
    right = [line["right"] for line in mistakes["images"]]
    assert right == sorted(right)
    doubt = [line["id"] for line in explorer.ask("/api/images?sort=doubt").json["images"]]
    leads = []
    for image_id in doubt:
        logits = explain(explorer.explorer.model, explorer.explorer.images.get(image_id).sample).logits
        best, second = sorted(logits, reverse=True)[:2]
        leads.append(best - second)
    assert leads == pytest.approx(sorted(leads), abs=1e-4)
    page = explorer.ask("/api/images?sort=doubt&start=2&count=3").json["images"]
    assert [line["id"] for line in page] == doubt[2:5]


def test_kept_answers_are_those_that_the_model_gives(explorer: Served) -> None:
    for line in explorer.ask("/api/images").json["images"]:
        asked = explorer.ask(f"/api/images/{line['id']}").json["answer"]
        assert asked["answer"] == line["answer"]
        assert asked["probability"] == pytest.approx(line["probability"], abs=1e-4)


@pytest.mark.parametrize(
    ("limits", "rare"),
    [((-1e6, 1e6), "no part matches well"), ((1e6, -1e6), "too little evidence for any class"), ((-1e6, -1e6), "")],
)
def test_the_page_says_which_sign_is_rare(
    run_folder: Path, tmp_path: Path, limits: tuple[float, float], rare: str
) -> None:
    run = Run(Path(shutil.copytree(run_folder, tmp_path / "run")))
    model = run.model()
    assert model.calibration is not None
    model.calibration = replace(model.calibration, least_logit=limits[0], least_score=limits[1])
    run.keep_calibrated(model)
    with served(run.path) as opened:
        kept = opened.ask("/api/images").json["images"]
        assert {(line["doubted"], line["rare"]) for line in kept} == {(bool(rare), rare)}  # of scores that were kept
        line = opened.upload(picture()).json
        assert (line["doubted"], line["rare"]) == (bool(rare), rare)
        shown = opened.ask(f"/api/images/{line['id']}").json["doubt"]
        assert bool(shown) == bool(rare)
        assert ("no part matches a prototype" in shown) == (rare == "no part matches well")
        assert "largest score below" in opened.ask("/api/measures").json["limits"]


def test_a_thumbnail_and_the_picture_are_pictures(explorer: Served, image: str) -> None:
    for name, kind in (("picture", "PNG"), ("thumbnail", "JPEG")):
        with Image.open(io.BytesIO(explorer.ask(f"/api/images/{image}/{name}").body)) as shown:
            assert (shown.format, shown.size) == (kind, (32, 32))


def test_uploads_that_nobody_asked_about_for_longest_are_forgotten_first(run_folder: Path) -> None:
    from pixpnet.views.explorer.explorer import Explorer
    from pixpnet.views.explorer.images import UnknownImage
    from pixpnet.views.explorer.uploads import decoded

    explorer = Explorer(run_folder, remembered_bytes=2 * 3 * 32 * 32 * 4)
    try:
        for number in range(2):
            explorer.images.add(f"upload-{number}", "a", lambda: decoded(picture(), "a"))
        explorer.images.get("upload-0")
        explorer.images.add("upload-2", "a", lambda: decoded(picture(), "a"))
        assert explorer.images.get("upload-0").id == "upload-0"
        with pytest.raises(UnknownImage, match="again"):
            explorer.images.get("upload-1")
    finally:
        explorer.close()


def test_an_answer_that_was_begun_before_a_name_was_given_is_not_remembered(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pixpnet.views.explorer import explorer as module
    from pixpnet.views.explorer.images import Asked
    from pixpnet.views.explorer.uploads import decoded

    explorer = module.Explorer(run_folder)
    try:
        asked: Asked = explorer.images.add("upload-0", "a", lambda: decoded(picture(), "a"))

        def named_meanwhile(*given: object) -> object:
            explanation = explain(*given)  # type: ignore[arg-type]
            explorer.rename({0: "red belly"})
            return explanation

        monkeypatch.setattr(module, "explain", named_meanwhile)
        early = explorer.explanation(asked)
        later = explorer.explanation(asked)
        assert later is not early
        assert explorer.explanation(asked) is later  # which has all names, and is remembered
    finally:
        explorer.close()


def test_without_its_images_a_run_is_asked_about_others(run_folder: Path, tmp_path: Path) -> None:
    with served(run_folder, moved_to=f"folder:{tmp_path / 'gone'}") as opened:
        listing = opened.ask("/api/images").json
        assert (listing["state"], listing["images"]) == ("missing", [])
        assert "gone" in listing["why"]
        assert opened.upload(picture()).json["answer"]
        assert opened.ask("/api/images/val-0").status == 404


def test_the_network_tab_marks_the_cut_in_use(explorer: Served) -> None:
    facts = explorer.ask("/api/network").json
    model = explorer.explorer.model
    (used,) = [row for row in facts["layers"] if row["used"]]
    assert used["mean"] == pytest.approx(model.mean_field)
    means = [row["mean"] for row in facts["layers"]]
    assert all(0 < mean <= 1 for mean in means)
    assert used["mean"] == max(means)
    (grid,) = facts["grids"]
    assert grid["prototypes"] == model.num_prototypes


def test_measures_are_those_of_the_run_and_name_the_commands_for_the_rest(explorer: Served, run_folder: Path) -> None:
    facts = explorer.ask("/api/measures").json
    metrics = json.loads((run_folder / "metrics.json").read_text())
    assert facts["split"] == "test"
    assert facts["accuracy"][0]["after"]["images"] == metrics["test"]["images"]
    assert facts["accuracy"][0]["after"]["accuracy"].startswith(f"{100 * metrics['test']['accuracy']:.3g}")
    log = (run_folder / "log.csv").read_text().splitlines()
    points = facts["curves"][0]["series"][0]["points"]
    assert [epoch for epoch, _ in points] == list(range(1, len(log)))
    assert all(math.isfinite(value) for _, value in points)
    commands = [item["command"] for item in facts["missing"]]
    assert f"pixpnet measure {run_folder}" in commands
    assert not facts["problems"]


def test_damaged_files_of_a_run_are_said_and_the_rest_is_shown(run_folder: Path, tmp_path: Path) -> None:
    from pixpnet.views.explorer.measures import measured

    copy = tmp_path / "run"
    shutil.copytree(run_folder, copy)
    model = Run(copy).model()
    (copy / "metrics.json").write_text("{")
    (copy / "log.csv").write_text("epoch,val_accuracy\nx,y\n")
    facts = measured(Run(copy), model)
    assert len(facts["problems"]) == 2
    assert facts["missing"]
