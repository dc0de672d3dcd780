"""Pictures of prototypes show the pixels of the field, and nothing of the rest."""

import numpy as np
import torch
from PIL import Image

from pixpnet.box import Box
from pixpnet.data import Preprocessing, open_data, preprocess, to_uint8
from pixpnet.model import Origin, PixPNet
from pixpnet.training.crops import crop
from tests.training.conftest import Trained


def origin_with(*boxes: Box) -> Origin:
    return Origin(0, 0, "a", 0, 0, boxes, (1, 0, 0, 0, 1, 0, 0, 0, 1), 0.0, "image")


PIXELS = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)


def test_a_crop_is_the_pixels_of_the_field() -> None:
    shown = np.asarray(crop(PIXELS, origin_with(Box(2, 3, 6, 10))))
    assert np.array_equal(shown[..., :3], PIXELS[2:6, 3:10])
    assert (shown[..., 3] == 255).all()


def test_what_lies_between_the_boxes_of_a_field_is_transparent() -> None:
    shown = np.asarray(crop(PIXELS, origin_with(Box(1, 1, 2, 2), Box(1, 3, 2, 4), Box(3, 1, 4, 2))))
    assert shown.shape == (3, 3, 4)
    assert (shown[..., 3] == 255).tolist() == [[True, False, True], [False, False, False], [True, False, False]]
    assert shown[0, 2, :3].tolist() == PIXELS[1, 3].tolist()


def test_a_field_without_pixels_is_one_transparent_pixel() -> None:
    shown = crop(PIXELS, origin_with())
    assert (shown.size, shown.getpixel((0, 0))) == ((1, 1), (0, 0, 0, 0))


def test_a_normalized_image_is_shown_as_it_was() -> None:
    preprocessing = Preprocessing()
    image = torch.from_numpy(PIXELS).permute(2, 0, 1) / 255
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (preprocessing.mean, preprocessing.std))
    assert np.array_equal(to_uint8((image - mean) / std, preprocessing), PIXELS)


def test_the_pictures_of_a_run_are_cut_from_its_training_images(trained: Trained) -> None:
    model, data = PixPNet.load(trained.path), open_data(trained.config.data)
    assert model.origins is not None
    folder = trained.path / "prototypes"
    assert len(model.origins) == len(list(folder.glob("*.png"))) == len(list(folder.glob("*.jpg"))) == 6
    assert (model.pictures, len(list(folder.iterdir()))) == (folder, 12)
    entries = {entry.id: entry for entry in data.train}
    preprocessing = model.preprocessing
    for origin in model.origins:
        image = preprocess(data.reader(entries[origin.image]), preprocessing).image.as_subclass(torch.Tensor)
        ((y0, x0, y1, x1),) = origin.boxes
        shown = np.array(Image.open(trained.path / "prototypes" / f"{origin.prototype}.png"))
        again = (
            torch.from_numpy(shown[..., :3]).permute(2, 0, 1) / 255 - torch.tensor(preprocessing.mean)[:, None, None]
        ) / (torch.tensor(preprocessing.std)[:, None, None])
        # Half a step of 8 bits, in units of the standard deviation.
        torch.testing.assert_close(again, image[:, y0:y1, x0:x1], rtol=0, atol=0.51 / 255 / min(preprocessing.std))
