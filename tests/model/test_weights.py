"""Weights from files: what is read, what is refused, and that nothing in a file runs."""

import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.model import Backbone, WeightsError, load_weights
from pixpnet.model.weights import read_state


def network(seed: int = 0) -> nn.Sequential:
    made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))
    generator = torch.Generator().manual_seed(seed)
    for tensor in made.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.1, 1, generator=generator)
    return made


def same(one: nn.Module, other: nn.Module) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return list(mine) == list(theirs) and all(torch.equal(mine[name], theirs[name]) for name in mine)


def written(state: object, path: Path) -> Path:
    if path.suffix == ".safetensors":
        assert isinstance(state, dict)
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("kind", [".pth", ".pt", ".bin", ".safetensors"])
def test_a_plain_state_dict_fills_the_network_bit_by_bit(kind: str, tmp_path: Path) -> None:
    source, target = network(1), network(2)
    load_weights(target, written(source.state_dict(), tmp_path / f"weights{kind}"))
    assert same(source, target)


@pytest.mark.parametrize("wrapping", ["state_dict", "model_state_dict", "model"])
def test_a_state_dict_inside_a_checkpoint_is_found(wrapping: str, tmp_path: Path) -> None:
    source, target = network(1), network(2)
    checkpoint = {"epoch": 3, "optimizer": {"lr": torch.ones(1)}, wrapping: source.state_dict()}
    load_weights(target, written(checkpoint, tmp_path / "weights.pth"))
    assert same(source, target)


@pytest.mark.parametrize("kind", [".pth", ".safetensors"])
def test_weights_stored_in_half_precision_arrive_in_float32(kind: str, tmp_path: Path) -> None:
    source, target = network(1), network(2)
    half = {name: t.half() if t.is_floating_point() else t for name, t in source.state_dict().items()}
    load_weights(target, written(half, tmp_path / f"weights{kind}"))
    for name, tensor in target.state_dict().items():
        assert tensor.dtype == source.state_dict()[name].dtype
        assert torch.equal(tensor, half[name].to(tensor.dtype))


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_pickle_protocol_of_a_file_makes_no_difference_and_no_warning(protocol: int, tmp_path: Path) -> None:
    source, target = network(1), network(2)
    torch.save(source.state_dict(), tmp_path / "weights.pth", pickle_protocol=protocol)
    load_weights(target, tmp_path / "weights.pth")  # a warning would be an error here
    assert same(source, target)


def test_further_tensors_and_a_missing_batch_count_do_no_harm(tmp_path: Path) -> None:
    source, target = network(1), network(2)
    state = {**source.state_dict(), "fc.weight": torch.ones(2)}
    del state["1.num_batches_tracked"]
    load_weights(target, written(state, tmp_path / "weights.pth"))
    assert same(source, target)


def test_a_cut_network_takes_the_weights_of_the_whole_one(tmp_path: Path) -> None:
    class Tail(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.pool, self.head = network(), nn.AdaptiveAvgPool2d(1), nn.Linear(2, 5)

        def forward(self, images: Tensor) -> Tensor:
            return self.head(self.pool(self.body(images)).flatten(1))

    whole, other = Tail(), Tail()
    backbone = Backbone(other, "body.0", (16, 16))
    load_weights(backbone.network, written(whole.state_dict(), tmp_path / "weights.pth"))
    images = torch.rand(1, 3, 16, 16)
    torch.testing.assert_close(backbone(images), whole.body[0](images))


def refused(state: object, tmp_path: Path) -> str:
    """The message, after making sure that the network stayed as it was."""
    target, before = network(2), network(2)
    with pytest.raises(WeightsError) as caught:
        load_weights(target, written(state, tmp_path / "weights.pth"))
    assert same(target, before)
    assert str(tmp_path / "weights.pth") in str(caught.value)
    return str(caught.value)


def test_missing_tensors_are_named(tmp_path: Path) -> None:
    state = network(1).state_dict()
    del state["2.bias"]
    message = refused(state, tmp_path)
    assert "1 of 9 tensors are missing: 2.bias" in message


def test_other_shapes_are_named_with_both(tmp_path: Path) -> None:
    message = refused({**network(1).state_dict(), "0.weight": torch.ones(4, 3, 5, 5)}, tmp_path)
    assert "0.weight is 4 x 3 x 5 x 5 there and 4 x 3 x 3 x 3 here" in message


def test_a_number_where_a_vector_belongs_is_another_shape(tmp_path: Path) -> None:
    assert "2.bias is a number there and 2 here" in refused(
        {**network(1).state_dict(), "2.bias": torch.tensor(1.0)}, tmp_path
    )


def test_a_common_prefix_is_pointed_out(tmp_path: Path) -> None:
    state = {f"module.{name}": tensor for name, tensor in network(1).state_dict().items()}
    message = refused(state, tmp_path)
    assert "its names begin with 'module.': save it without that prefix" in message


def test_of_many_missing_tensors_a_few_are_shown(tmp_path: Path) -> None:
    assert "8 of 9 tensors are missing: 0.weight, 0.bias, 1.weight, 1.bias, 1.running_mean and 3 more" in refused(
        {"other": torch.ones(1)}, tmp_path
    )


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, {}, torch.ones(3), {1: torch.ones(1)}, "text"])
def test_a_file_without_named_tensors_is_refused(content: object, tmp_path: Path) -> None:
    assert "holds no state dict" in refused(content, tmp_path)


class Malicious:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("way", ["torch.save", "pickle", "inside a state dict", "a whole module"])
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(way: str, tmp_path: Path) -> None:
    trace, path = tmp_path / "trace", tmp_path / "weights.pth"
    if way == "pickle":
        path.write_bytes(pickle.dumps(Malicious(trace)))
    elif way == "torch.save":
        torch.save(Malicious(trace), path)
    elif way == "inside a state dict":
        torch.save({**network().state_dict(), "extra": Malicious(trace)}, path)
    else:
        torch.save(network(), path)
    with pytest.raises(WeightsError, match="a pickle can run any code"):
        load_weights(network(), path)
    assert not trace.exists()
    if way == "pickle":
        pickle.loads(path.read_bytes())  # it would have
        assert trace.exists()


def test_a_missing_file_and_a_folder_are_no_weights(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.pth", tmp_path):
        with pytest.raises(WeightsError, match="there is no file of weights"):
            read_state(path)


@pytest.mark.parametrize("kind", [".pth", ".safetensors"])
@given(fraction=st.floats(0, 0.999))
def test_a_truncated_file_is_refused(kind: str, tmp_path_factory: pytest.TempPathFactory, fraction: float) -> None:
    path = written(network().state_dict(), tmp_path_factory.mktemp("weights") / f"weights{kind}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * fraction)])
    with pytest.raises(WeightsError):
        read_state(path)


@pytest.mark.parametrize("kind", [".pth", ".safetensors"])
@given(noise=st.binary(max_size=200), head=st.sampled_from([b"", b"\x80\x02", b"PK\x03\x04", b"\x80\x05}", b"(lp0\n"]))
def test_random_bytes_are_refused(
    kind: str, tmp_path_factory: pytest.TempPathFactory, noise: bytes, head: bytes
) -> None:
    path = tmp_path_factory.mktemp("weights") / f"weights{kind}"
    path.write_bytes(head + noise)
    with pytest.raises(WeightsError):
        read_state(path)


def test_the_weights_of_torchvisions_resnet18_load(shared: Path) -> None:
    with pytest.warns(match="of the image on average"):  # of an image of 64 x 64 pixels
        backbone = Backbone(zoo.build("resnet18"), "layer3", (64, 64))
    path = shared / "data" / "weights" / "resnet18.pth"
    load_weights(backbone.network, path)
    stored = torch.load(path, weights_only=True)
    assert torch.equal(backbone.network.conv1.weight, stored["conv1.weight"].float())
    assert torch.equal(backbone.network.layer3[1].bn2.running_var, stored["layer3.1.bn2.running_var"].float())


def test_the_weights_of_the_features_of_vgg16_load_though_the_classifier_is_missing(shared: Path) -> None:
    network = zoo.build("vgg16", device="meta")
    backbone = Backbone(network, "maxpool4", (224, 224)).to_empty(device="cpu")
    path = shared / "data" / "weights" / "vgg16_features.pth"
    load_weights(backbone.network, path)
    stored = torch.load(path, weights_only=True)
    for name, tensor in backbone.network.state_dict().items():
        assert torch.equal(tensor, stored[name].float())
