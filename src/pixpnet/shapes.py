"""Shapes as types for `fields`, which needs torch and numpy alone: those of jaxtyping where it is installed.

Where it is not, ``Bool[Tensor, "rows cols"]`` is just ``Tensor``: nothing checks the shapes then.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Int as Int
    from jaxtyping import Shaped as Shaped
    from jaxtyping import UInt64 as UInt64
else:
    try:
        from jaxtyping import Bool, Int, Shaped, UInt64
    except ModuleNotFoundError:

        class _Plain:
            """Takes an array type and a shape, and gives the array type."""

            def __class_getitem__(cls, array_and_shape: tuple[Any, str]) -> Any:
                return array_and_shape[0]

        Bool = Int = Shaped = UInt64 = _Plain
