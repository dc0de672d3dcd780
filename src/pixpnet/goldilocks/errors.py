"""What can go wrong in a search; every message says what to do next."""


class SearchError(ValueError):
    """A search that cannot be begun or gone on with as it was asked for."""
