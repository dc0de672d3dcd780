"""The network as a whole: its pieces agree, its fields are those of its patches, its modes are its own."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pixpnet.fields import receptive_fields
from pixpnet.fields.probe import probe
from pixpnet.model import Backbone, Output, PixPNet
from tests.model.conftest import PREPROCESSING, SIZE, small_model


def test_an_answer_holds_tensors_and_nothing_else(model: PixPNet, images: Tensor) -> None:
    output = model(images)
    leaves = tree_leaves(output)
    assert all(isinstance(leaf, Tensor) for leaf in leaves)
    matches, (grid,) = output.matches, output.matches.grids
    for tensor in (output.logits, matches.scores, matches.distances, matches.cells, grid.distance_maps):
        assert any(tensor is leaf for leaf in leaves)
    again = tree_map(lambda tensor: tensor.clone(), output)
    assert isinstance(again, Output)
    assert torch.equal(again.matches.distance_maps, matches.distance_maps)


@pytest.mark.parametrize("head", ["class_sum", "linear", "frozen", "own_class"])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 3)])
def test_the_pieces_of_an_answer_agree(squeezed: Backbone, images: Tensor, head: str, kernel: tuple[int, int]) -> None:
    model = small_model(squeezed, head=head, prototype_rows=kernel[0], prototype_cols=kernel[1])
    with torch.no_grad():
        output = model(images)
        (embeddings,) = model.embed(images)
        again = model.compare((embeddings,))
        by_hand = model.add_on(model.backbone(images))
    cells = embeddings.shape[-2:]
    assert embeddings.shape == (2, 6, *cells)
    assert output.logits.shape == (2, 3)
    assert output.matches.scores.shape == (2, 6)
    assert output.matches.distance_maps.shape == (2, 6, cells[0] - kernel[0] + 1, cells[1] - kernel[1] + 1)
    torch.testing.assert_close(embeddings, by_hand, rtol=1e-4, atol=1e-6)
    assert torch.equal(output.logits, again.logits)
    assert torch.equal(output.matches.cells, again.matches.cells)
    torch.testing.assert_close(output.logits, output.matches.scores @ model.head.weights().T)


def test_labels_go_through_the_classes_in_order(model: PixPNet) -> None:
    assert model.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert [model.prototypes_of(label).tolist() for label in range(3)] == [[0, 1], [2, 3], [4, 5]]
    assert model.num_classes == 3
    assert model.prototypes.shape == (6, 6, 1, 1)


@pytest.mark.parametrize("names", [(), ("one",)])
def test_fewer_than_two_classes_are_refused(squeezed: Backbone, names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="at least two classes"):
        PixPNet(squeezed, small_model(squeezed).architecture, names, PREPROCESSING)


def test_gradients_reach_every_parameter(squeezed: Backbone, images: Tensor) -> None:
    model = small_model(squeezed, head="linear").train()
    nn.functional.cross_entropy(model(images).logits, torch.tensor([0, 2])).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("kernel", [(1, 1), (2, 3)])
def test_its_field_is_that_of_the_patches_by_the_nan_probe(squeezed: Backbone, kernel: tuple[int, int]) -> None:
    model = small_model(squeezed, prototype_rows=kernel[0], prototype_cols=kernel[1])

    class Maps(nn.Module):
        """The comparison as a convolution of the size of a prototype."""

        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.Sequential(model.backbone, model.add_on)
            self.compare = nn.Conv2d(6, 1, kernel)

        def forward(self, images: Tensor) -> Tensor:
            return self.compare(self.cells(images))

    pixels = [(0, 0), (17, 20), (SIZE - 1, 3)]
    for sighting in probe(Maps().eval(), (3, SIZE, SIZE), pixels):
        ((seen,),) = sighting.layers[""]
        assert seen is not None
        claimed = model.field.sees(*sighting.pixel)
        assert torch.equal(claimed.any(dim=0), seen[0])
        assert seen.any() or sighting.pixel == (SIZE - 1, 3)


def test_the_field_of_larger_prototypes_is_the_union_of_their_cells(squeezed: Backbone) -> None:
    model = small_model(squeezed, prototype_rows=2, prototype_cols=3)
    cells = receptive_fields(nn.Sequential(model.backbone, model.add_on), (3, SIZE, SIZE))[""]
    rows, cols = cells.shape[1] - 1, cells.shape[2] - 2
    assert model.field.shape[1:] == (rows, cols)
    for row in range(rows):
        for col in range(cols):
            union = torch.stack([cells.mask(row + down, col + right) for down in (0, 1) for right in (0, 1, 2)])
            assert torch.equal(model.field.mask(row, col), union.any(dim=0))


def test_pixels_outside_a_cells_field_never_change_its_similarity(model: PixPNet, images: Tensor) -> None:
    def similarities(batch: Tensor) -> Tensor:
        return torch.stack(model.similarity_maps(model(batch).matches, range(model.num_prototypes)), dim=1)

    row, col = 3, 5
    outside = ~model.field.mask(row, col)
    assert outside.any()
    changed = torch.where(outside, torch.randn(images.shape, generator=torch.Generator().manual_seed(9)), images)
    with torch.no_grad():
        before, after = (similarities(batch)[..., row, col] for batch in (images, changed))
    torch.testing.assert_close(before, after, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        inside = similarities(torch.where(outside, images, changed + 1))[..., row, col]
    assert not torch.allclose(before, inside, rtol=1e-4, atol=1e-5)


def test_field_at_answers_for_other_sizes_and_leaves_every_mode_as_it_was(model: PixPNet) -> None:
    model.train()
    model.backbone.network.features[0].eval()
    model.add_on[2].eval()
    modes = [module.training for module in model.modules()]
    field = model.field_at((31, 47))
    assert field.space == (31, 47)
    # 7 x 7 with stride 2, then 3 x 3 with stride 2, rounded up
    assert field.shape == (6, 6, 10)
    assert field.size == (11, 11)
    assert model.field.space == (SIZE, SIZE)
    assert [module.training for module in model.modules()] == modes
    assert not all(modes)
    assert any(modes)


def test_field_at_leaves_modes_as_they_were_after_an_error(model: PixPNet) -> None:
    model.train()
    with pytest.raises(RuntimeError, match=r"Kernel size can't be greater than actual input size"):
        model.field_at((2, 2))  # the first convolution is 7 x 7
    assert all(module.training for module in model.modules())
