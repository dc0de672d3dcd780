"""Classes by name or number."""

from difflib import get_close_matches

_SHOWN = 20


class UnknownClass(LookupError):
    """A class that the model does not have, or that was not explained; the message lists what there is."""


def label_of(which: str | int, class_names: tuple[str, ...]) -> int:
    """The label of a class that is named or numbered.

    Raises:
        UnknownClass: if there is none; similar names come first.

    >>> label_of("wren", ("jay", "wren"))
    1
    """
    if isinstance(which, str) and which in class_names:
        return class_names.index(which)
    if isinstance(which, int) and 0 <= which < len(class_names):
        return which
    if isinstance(which, int):
        raise UnknownClass(f"there is no class {which}: labels are 0 to {len(class_names) - 1}")
    folded = {name.casefold(): name for name in class_names}
    close = [folded[name] for name in get_close_matches(which.casefold(), folded, n=3, cutoff=0.5)]
    close += [name for name in class_names if which and which.casefold() in name.casefold() and name not in close]
    meant = f": did you mean {' or '.join(close[:3])}?" if close else "."
    more = f" and {len(class_names) - _SHOWN} more" if len(class_names) > _SHOWN else ""
    raise UnknownClass(f"there is no class {which!r}{meant} The model knows {', '.join(class_names[:_SHOWN])}{more}")
