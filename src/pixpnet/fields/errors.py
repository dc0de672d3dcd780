"""What can go wrong when fields are computed; every message says what to do next."""


class UnsupportedOperation(NotImplementedError):
    """An operation whose exact dependence on its inputs is not known, so that no answer would be true."""


class FieldMismatch(UnsupportedOperation):
    """The NaN probe, run on the real network, saw other fields than those that were computed."""


class UnknownValue(UnsupportedOperation):
    """A step needs the value of a tensor that does not depend on the image, and the value is not at hand."""
