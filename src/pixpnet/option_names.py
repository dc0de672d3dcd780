"""How the fields of configurations are called on the command line, and what options were called before.

An option is its field with hyphens (`--validation-fraction`; `--replacement.head-epochs` in a group). Learning rates,
epochs and devices, which every other tool has too, are named without their group (`--lr-backbone`, `--num-devices`).
"""

from pixpnet.earlier_names import KEYS

# Groups whose options are named without them.
_PLAIN_GROUPS = ("optimization.", "trainer.")
# Of one command only, where it was not the name of a field.
_OTHERS = {"--batch": "--batch-size"}


def option_of(name: str) -> str:
    """The option that sets a field, by the field's name with those of its groups.

    >>> option_of("optimization.lr_backbone"), option_of("replacement.head_epochs")
    ('--lr-backbone', '--replacement.head-epochs')
    """
    for group in _PLAIN_GROUPS:
        name = name.removeprefix(group)
    return f"--{name.replace('_', '-')}"


def renamed_option(option: str) -> str | None:
    """What an option of an earlier version is called now; None for one that is none.

    >>> renamed_option("--own_code"), renamed_option("--optimisation.add-on-rate"), renamed_option("--split_rule")
    ('--trust-code', '--lr-add-on', '--split-rule')
    >>> renamed_option("--epochs") is None
    True
    """
    if option in _OTHERS:
        return _OTHERS[option]
    first, dot, rest = option.removeprefix("--").replace("-", "_").partition(".")
    first = KEYS[""].get(first, first)
    today = option_of(f"{first}.{KEYS.get(first, {}).get(rest, rest)}" if dot else first)
    return None if today == option else today
