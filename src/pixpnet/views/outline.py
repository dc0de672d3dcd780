"""Outlines of regions, as views know them: `pixpnet.outline`, which notebooks use too."""

from pixpnet.outline import rings as rings
from pixpnet.outline import signed_area as signed_area
from pixpnet.outline import svg_path as svg_path
