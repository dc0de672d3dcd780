"""Classes by name or number."""

from difflib import get_close_matches

_SHOWN = 20


class UnknownClass(LookupError):
    """A class that the model does not have, or that was not explained; the message lists what there is."""


def label_of(class_or_label: str | int, class_names: tuple[str, ...]) -> int:
    """The label of a class that is named or numbered.

    Raises:
        UnknownClass: if there is none; similar names come first.

    >>> label_of("wren", ("jay", "wren"))
    1
    """
    if isinstance(class_or_label, str) and class_or_label in class_names:
        return class_names.index(class_or_label)
    if isinstance(class_or_label, int) and 0 <= class_or_label < len(class_names):
        return class_or_label
    if isinstance(class_or_label, int):
        raise UnknownClass(f"there is no class {class_or_label}: labels are 0 to {len(class_names) - 1}")
    folded = {name.casefold(): name for name in class_names}
    close = [folded[name] for name in get_close_matches(class_or_label.casefold(), folded, n=3, cutoff=0.5)]
    close += [
        name
        for name in class_names
        if class_or_label and class_or_label.casefold() in name.casefold() and name not in close
    ]
    meant = f": did you mean {' or '.join(close[:3])}?" if close else "."
    more = f" and {len(class_names) - _SHOWN} more" if len(class_names) > _SHOWN else ""
    raise UnknownClass(
        f"there is no class {class_or_label!r}{meant} The model knows {', '.join(class_names[:_SHOWN])}{more}"
    )
