"""The confounding mark: only its own pixels, never the bird, one per species."""

import numpy as np

from pixpnet.data.birds import SPECIES, BirdOptions, draw_bird


def test_the_mark_changes_its_own_pixels_and_nothing_else():
    for index in range(40):
        plain = draw_bird(0, index, index % 12)
        marked = draw_bird(0, index, index % 12, options=BirdOptions(confounder=1.0))
        changed = (plain.image != marked.image).any(axis=2)
        assert marked.confounder_mask is not None
        assert not (changed & ~marked.confounder_mask).any()
        assert changed.sum() > 0.8 * marked.confounder_mask.sum() > 20
        assert np.array_equal(plain.masks, marked.masks)
        assert np.array_equal(plain.keypoints, marked.keypoints)
        assert plain.confounder_mask is None


def test_the_mark_never_covers_the_bird_and_stays_in_a_corner():
    for index in range(40):
        marked = draw_bird(1, index, index % 12, size=(80, 120), options=BirdOptions(confounder=1.0))
        assert not (marked.confounder_mask & marked.bird_mask).any()
        ys, xs = np.nonzero(marked.confounder_mask)
        assert ys.max() < 24 or ys.min() >= 56
        assert xs.max() < 30 or xs.min() >= 90


def test_the_share_of_marked_pictures_is_the_share_asked_for():
    options = BirdOptions(confounder=0.25)
    marked = [draw_bird(2, index, 0, size=(32, 32), options=options).confounder_mask for index in range(200)]
    assert 0.15 < np.mean([mask is not None for mask in marked]) < 0.35


def test_every_species_has_a_mark_of_its_own():
    looks = set()
    for species in range(len(SPECIES)):
        # With the same seed and index all marks lie in the same place, turned by the same angle.
        marked = draw_bird(3, 0, species, options=BirdOptions(confounder=1.0))
        mask = marked.confounder_mask
        color = np.median(marked.image[mask], axis=0)
        looks.add((int(mask.sum()) // 8, *(int(value) // 16 for value in color)))
    assert len(looks) == len(SPECIES)
