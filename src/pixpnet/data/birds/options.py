"""How much a drawn bird varies: one record of nuisance strengths."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class BirdOptions:
    """What varies from picture to picture, besides the species; 0 switches a nuisance off.

    Each nuisance has its own random stream, so that changing one leaves the others as they were.

    >>> BirdOptions(occlusion=0.0).occlusion
    0.0
    """

    pose: float = 1.0
    """Strength of the bird's own movement: pitch, nod, wing, tail, plumpness."""
    flip: float = 0.5
    """Share of birds that look to the left."""
    rotation: float = 18.0
    """Largest rotation of the whole bird, in degrees."""
    scale: float = 0.14
    """Size varies between 1 - scale and 1 + scale."""
    light: float = 1.0
    """Strength of exposure, tint and direction of the light."""
    color: float = 1.0
    """Strength of the body colour noise; at 0 all birds share one set of colours."""
    clutter: float = 1.0
    """Amount of bird-coloured leaves, berries and blades behind the bird."""
    occlusion: float = 0.5
    """Share of birds with a sprig in front of them."""
    crop: float = 0.15
    """Share of birds that leave the frame in part."""
    confounder: float = 0.0
    """Share of pictures that carry the mark of their species in a corner: a shortcut that is no bird."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            limit = _LIMITS.get(field.name, 1.0)
            if not 0.0 <= value <= limit:
                raise ValueError(f"BirdOptions.{field.name} is {value}; give a number from 0 to {limit}")


_LIMITS = {"rotation": 180.0, "scale": 0.5, "clutter": 5.0}
