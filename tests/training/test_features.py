"""Features that are computed once: the same bits however they came about, and nothing is lost or trusted blindly."""

import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pixpnet.config import RunConfig
from pixpnet.data import Augmentation, DataSet, Entry, open_data
from pixpnet.members.pixpnet import Architecture, PixPNetConfig
from pixpnet.model import Backbone, PixPNet
from pixpnet.settings import Optimization
from pixpnet.training import evaluate, train
from pixpnet.training.features import Features, FeaturesError, ViewOf
from pixpnet.windows import Scale, Windows
from tests.training.material import in_child, small_config
from tests.training.sameness import same


@pytest.fixture(scope="module")
def data(pictures: Path) -> DataSet:
    return open_data(f"folder:{pictures}")


def backbone(seed: int = 0, frozen: str = "all") -> Backbone:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3, stride=2))
    made = Backbone(network, "", (32, 32)).eval()
    made.freeze(frozen, (32, 32))
    return made


def features_in(
    folder: Path,
    data: DataSet,
    stem: Backbone | None = None,
    learning_precision: torch.dtype = torch.float32,
    **augmentation: Any,
) -> Features:
    preprocessing = data.preprocessing.scaled_to(32)
    settings = replace(Augmentation(), **augmentation)
    name = repr(data.reader)
    return Features(stem or backbone(), preprocessing, settings, data.reader, name, folder, learning_precision)


def some_views(data: DataSet) -> list[ViewOf]:
    return [ViewOf(entry, view) for entry in data.train[:3] for view in range(3)]


def test_features_are_those_of_the_image_as_the_network_sees_it(data: DataSet, tmp_path: Path) -> None:
    from pixpnet.data import plain_loader
    from pixpnet.data.loader import Loading

    stem = backbone()
    features = features_in(tmp_path, data, stem)
    entries = data.train[:3]
    assert features.compute([ViewOf(entry) for entry in entries]) == 3
    batch = features.batch([ViewOf(entry) for entry in entries])
    (plain,) = plain_loader(data, entries, data.preprocessing.scaled_to(32), Loading(batch_size=8))
    with torch.no_grad():
        torch.testing.assert_close(batch.images, stem(plain.images))
    assert batch.labels.tolist() == plain.labels.tolist()
    assert batch.ids == plain.ids
    assert torch.equal(batch.to_source, plain.to_source)


def test_nothing_is_computed_twice_and_views_differ(data: DataSet, tmp_path: Path) -> None:
    views = some_views(data)
    assert features_in(tmp_path, data).compute(views) == 9
    again = features_in(tmp_path, data)
    assert again.compute(views) == 0
    first = again.batch(views[:3]).images
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[1], first[2])


def on_windows(windows: Windows) -> Backbone:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Conv2d(6, 4, 3))
    made = Backbone(network, "", (32, 32), (), windows).eval()
    made.freeze("all", (32, 32))
    return made


def test_networks_with_one_size_of_windows_and_with_several_share_what_is_kept(data: DataSet, tmp_path: Path) -> None:
    both, views = Windows(12, 6, "", (Scale(24, 8),)), some_views(data)
    small, large = both.by_size
    assert features_in(tmp_path, data, on_windows(small)).compute(views[:4]) == 4
    together = features_in(tmp_path, data, on_windows(both))
    seen: list[int] = []
    # Of four views the second size is missing, of five both.
    assert together.compute(views, progress=lambda _, done, total: seen.append(done)) == 9
    assert seen[-1] == len(views)
    assert features_in(tmp_path, data, on_windows(large)).compute(views) == 0
    assert features_in(tmp_path, data, on_windows(both)).compute(views) == 0
    batch = together.batch(views)
    maps = on_windows(both).tail_maps(batch.images)
    for grid, one in enumerate((small, large)):
        alone = features_in(tmp_path, data, on_windows(one)).batch(views)
        assert torch.equal(maps[grid], alone.images)
        assert torch.equal(batch.to_source, alone.to_source)
        assert batch.ids == alone.ids


def test_a_view_has_the_same_bits_in_any_order_and_after_any_interruption(data: DataSet, tmp_path: Path) -> None:
    views = some_views(data)
    whole = features_in(tmp_path / "whole", data)
    whole.compute(views)
    parts = features_in(tmp_path / "parts", data)
    parts.compute(views[5:])
    parts = features_in(tmp_path / "parts", data)
    parts.compute(list(reversed(views)))
    assert torch.equal(whole.batch(views).images, parts.batch(views).images)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_views_computed_side_by_side_have_the_bits_of_one_thread(
    data: DataSet, tmp_path: Path, two_threads: None
) -> None:
    views = some_views(data)
    begun: list[int] = []
    threads = set[int]()

    def watched(entry: Entry) -> Any:
        threads.add(threading.get_ident())
        begun.append(torch.get_num_threads())
        return data.reader(entry)

    side_by_side = features_in(tmp_path / "two", replace(data, reader=watched))
    seen: list[int] = []
    assert side_by_side.compute(views, progress=lambda _, done, total: seen.append(done)) == 9
    assert threading.get_ident() not in threads
    assert set(begun) == {1}
    assert seen == list(range(10))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    alone = features_in(tmp_path / "one", data)
    alone.compute(views)
    assert torch.equal(side_by_side.batch(views).images, alone.batch(views).images)


def test_a_reader_that_fails_among_threads_ends_the_pass_and_gives_them_back(
    data: DataSet, tmp_path: Path, two_threads: None
) -> None:
    views = some_views(data)

    def failing(entry: Entry) -> Any:
        raise OSError("the disk is gone")

    features = features_in(tmp_path, replace(data, reader=failing))
    with pytest.raises(OSError, match="the disk is gone"):
        features.compute(views)
    assert torch.get_num_threads() == 2


def test_what_is_only_learnt_from_may_be_computed_in_reduced_precision(data: DataSet, tmp_path: Path) -> None:
    views = some_views(data)
    augmented = [view for view in views if view.view]
    plain = [view for view in views if not view.view]
    full = features_in(tmp_path, data)
    assert full.compute(views) == 9
    reduced = features_in(tmp_path, data, learning_precision=torch.bfloat16)
    assert reduced.compute(views) == 6  # the plain ones are those of any precision
    assert torch.equal(reduced.batch(plain).images, full.batch(plain).images)
    near, exact = reduced.batch(augmented).images, full.batch(augmented).images
    assert near.dtype == torch.float32
    assert not torch.equal(near, exact)
    assert (near - exact).norm() < 0.02 * exact.norm()
    assert torch.equal(near, near.bfloat16().float())  # kept in 16 bits each
    assert features_in(tmp_path, data, learning_precision=torch.bfloat16).compute(views) == 0


def test_other_weights_preprocessing_or_augmentation_are_other_features(data: DataSet, tmp_path: Path) -> None:
    views = some_views(data)
    features_in(tmp_path, data).compute(views)
    assert features_in(tmp_path, data, backbone(seed=1)).compute(views) == 9
    assert features_in(tmp_path, data, backbone(frozen="2")).compute(views) == 9
    # The plain views of three images are what they were.
    assert features_in(tmp_path, data, max_rotation=3.0).compute(views) == 6
    assert features_in(tmp_path, data, factor=7).compute(views) == 0  # how many views there are decides none of them


def test_a_damaged_file_is_computed_again(data: DataSet, tmp_path: Path) -> None:
    views = [ViewOf(entry) for entry in data.train[:3]]
    features = features_in(tmp_path, data)
    features.compute(views)
    expected = features.batch(views).images.clone()
    (file,) = tmp_path.glob("*/*.safetensors")
    content = bytearray(file.read_bytes())
    content[-200] ^= 1
    file.unlink()
    file.write_bytes(content)
    again = features_in(tmp_path, data)
    assert again.compute(views) == 3
    assert torch.equal(again.batch(views).images, expected)


def test_features_of_code_that_changed_under_the_same_name_are_refused(data: DataSet, tmp_path: Path) -> None:
    views = [ViewOf(entry) for entry in data.train[:3]]
    stem = backbone()
    features_in(tmp_path, data, stem).compute(views)
    plain = stem.stem_parts
    stem.stem_parts = lambda *given: tuple(2 * part for part in plain(*given))  # type: ignore[method-assign]
    with pytest.raises(FeaturesError, match=r"not those of this network.*delete that folder"):
        features_in(tmp_path, data, stem).compute(views)


def test_a_budget_makes_room_for_what_is_needed_and_says_when_it_cannot(
    data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = [ViewOf(entry) for entry in data.train]
    features_in(tmp_path, data).compute(views)
    (old,) = [path for path in tmp_path.iterdir() if any(path.glob("*.safetensors"))]
    size = sum(path.stat().st_size for path in old.glob("*.safetensors"))
    monkeypatch.setenv("PIXPNET_FEATURES_GB", str(1.5 * size / 1e9))
    features_in(tmp_path, data, backbone(seed=1)).compute(views)
    assert not old.exists()
    monkeypatch.setenv("PIXPNET_FEATURES_GB", str(0.5 * size / 1e9))
    with pytest.raises(FeaturesError, match=r"the cache may hold .*--views"):
        features_in(tmp_path, data, backbone(seed=2)).compute(views)
    monkeypatch.setenv("PIXPNET_FEATURES_GB", "many")
    with pytest.raises(FeaturesError, match="number of gigabytes"):
        features_in(tmp_path, data, backbone(seed=2)).compute(views)


def test_a_full_disk_is_said_before_anything_is_written(
    data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(FeaturesError, match="left on the disk"):
        features_in(tmp_path, data).compute([ViewOf(data.train[0])])
    assert not list(tmp_path.glob("*/*.safetensors"))


def frozen_config(pictures: Path, frozen: str = "all", **changes: Any) -> RunConfig:
    config = small_config(
        pictures,
        architecture=Architecture(dim=8, prototypes_per_class=2, pooling="distinct", channel_dropout=0.2),
        optimization=Optimization(epochs=3, warm_up_epochs=0, batch_size=8, views=2, frozen=frozen),
    )
    return replace(config, **changes)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


@pytest.mark.parametrize("frozen", ["all", "stem"])
def test_a_run_on_kept_features_is_judged_as_the_network_answers_for_images(
    pictures: Path, own_cache: Path, tmp_path: Path, frozen: str
) -> None:
    layer = frozen if frozen == "all" else first_module(pictures)
    config = frozen_config(pictures, layer)
    metrics = train(config, tmp_path / "run")
    assert metrics is not None
    data = open_data(config.data)
    from pixpnet.data import plain_loader
    from pixpnet.data.loader import Loading

    model = PixPNet.load(tmp_path / "run")
    entries = data.test.open(lambda *_: None, "to compare")
    result = evaluate(model, 3, plain_loader(data, entries, model.preprocessing, Loading(batch_size=8)))
    assert metrics.test is not None
    assert result.confusion == metrics.test.confusion
    # Features are computed image by image, the network answers in batches; the pole of the similarity magnifies that.
    assert result.loss == pytest.approx(metrics.test.loss, abs=1e-4)
    assert any(own_cache.iterdir())


def first_module(pictures: Path) -> str:
    from pixpnet.model.build import build_backbone

    names = [name for name, _ in build_backbone("small-21", "", None, 32, 0).network.named_children()]
    return names[0]


def test_another_seed_computes_no_features_again(pictures: Path, own_cache: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    config = frozen_config(pictures, weights=str(weights))
    save_small_weights(weights)
    train(config, tmp_path / "one")
    before = {path: path.stat().st_mtime_ns for path in own_cache.glob("*/*.safetensors")}
    train(replace(config, seed=1), tmp_path / "two")
    assert {path: path.stat().st_mtime_ns for path in own_cache.glob("*/*.safetensors")} == before


def save_small_weights(path: Path) -> None:
    from safetensors.torch import save_file

    from pixpnet import zoo

    torch.manual_seed(0)
    save_file(zoo.build("small-21").state_dict(), path)


@pytest.mark.parametrize(
    "kill", ["in the first step", "during the second replacement", "before the figures are written"]
)
def test_a_killed_run_on_features_ends_bit_for_bit_the_same(
    pictures: Path, own_cache: Path, tmp_path: Path, kill: str
) -> None:
    config = frozen_config(pictures)
    assert in_child("train", config=config, out=str(tmp_path / "whole")) == 0
    out = tmp_path / "killed"
    assert in_child("train", config=config, out=str(out), kill=kill) == -signal.SIGKILL
    shutil.rmtree(own_cache)  # what was kept may be gone when the run goes on
    assert in_child("resume", out=str(out)) == 0
    same(tmp_path / "whole", out)


def test_a_frozen_backbone_cannot_be_pretrained() -> None:
    with pytest.raises(ValueError, match="pretrained"):
        PixPNetConfig(optimization=Optimization(frozen="all", pretraining_epochs=2))
