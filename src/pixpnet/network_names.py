"""What a name of a network or a data set stands for: one of a library, user code, or an object of the caller's."""

# A backbone or a dataset that the caller handed over as an object, and of which a file knows the name alone.
GIVEN = "given:"


def is_user_code(backbone: str) -> bool:
    """Whether building this backbone would import and call user code.

    >>> is_user_code("my.module:build"), is_user_code("timm:convnext_tiny"), is_user_code("given:MyNet")
    (True, False, False)
    """
    return ":" in backbone and not backbone.startswith("timm:") and not is_given(backbone)


def is_given(name: str) -> bool:
    """Whether a backbone, or a dataset, is an object that the caller has to give: no file can hold it.

    >>> is_given("given:MyNet"), is_given("resnet18")
    (True, False)
    """
    return name.startswith(GIVEN)
