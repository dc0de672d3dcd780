"""What can be said against a cut."""


class CutError(ValueError):
    """A layer at which a network cannot be cut; the message says why."""


class FieldWarning(UserWarning):
    """The cells of a backbone see so much that an explanation cannot point at a part."""
