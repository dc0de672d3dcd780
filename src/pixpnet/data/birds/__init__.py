"""Drawn birds: pictures with known parts, made on the spot, with nothing to download."""

from pixpnet.data.birds.draw import Drawing, draw_bird
from pixpnet.data.birds.options import BirdOptions
from pixpnet.data.birds.species import PARTS, SPECIES, VARIANTS, Species

__all__ = ["PARTS", "SPECIES", "VARIANTS", "BirdOptions", "Drawing", "Species", "draw_bird"]
