"""Drawn birds: pictures with known parts, made on the spot, with nothing to download.

`draw_bird` gives a `Drawing`: the picture, a mask and a keypoint for each of `PARTS`, the bird's box.
`SPECIES` says which `VARIANTS` of the parts make a species; `BirdOptions` says how much the rest varies.
Twelve species, ten parts; everything random follows from a seed and an index.
"""

from pixpnet.data.birds.draw import Drawing, draw_bird
from pixpnet.data.birds.options import BirdOptions
from pixpnet.data.birds.species import PARTS, SPECIES, VARIANTS, Species

__all__ = ["PARTS", "SPECIES", "VARIANTS", "BirdOptions", "Drawing", "Species", "draw_bird"]
