"""What other libraries say, made fit for our own messages."""


def first_line(said: object) -> str:
    r"""The first line of an error or text: torch and databases go on with traces and statements.

    >>> first_line(ValueError("sizes differ\nsee line 12"))
    'sizes differ'
    """
    return str(said).strip().split("\n", 1)[0]
