"""How the fields of configurations are called on the command line, and what options were called before.

An option is its field with hyphens (`--validation-fraction`; `--replacement.head-epochs` in a group), but for those
that people know by another name in every other tool, which have that. The keys of configuration files are the fields.
"""

OPTIONS = {
    "workers": "--num-workers",
    "own_code": "--trust-code",
    "optimisation.epochs": "--epochs",
    "optimisation.pretraining_epochs": "--pretraining-epochs",
    "optimisation.warm_up_epochs": "--warm-up-epochs",
    "optimisation.batch_size": "--batch-size",
    "optimisation.views": "--views",
    "optimisation.backbone_rate": "--lr-backbone",
    "optimisation.add_on_rate": "--lr-add-on",
    "optimisation.prototype_rate": "--lr-prototypes",
    "optimisation.head_rate": "--lr-head",
    "optimisation.weight_decay": "--weight-decay",
    "optimisation.schedule": "--lr-schedule",
    "optimisation.rise": "--lr-rise",
    "optimisation.step_epochs": "--lr-step-epochs",
    "optimisation.step_factor": "--lr-step-factor",
    "optimisation.frozen_statistics": "--frozen-statistics",
    "optimisation.frozen": "--frozen",
    "trainer.accelerator": "--device",
    "trainer.devices": "--num-devices",
    "trainer.num_nodes": "--num-nodes",
    "trainer.strategy": "--strategy",
    "trainer.precision": "--precision",
}
# Of one command only, where it was not the name of a field.
_OTHERS = {"--batch": "--batch-size"}


def option_of(name: str) -> str:
    """The option that sets a field, by the field's name with those of its groups.

    >>> option_of("optimisation.backbone_rate"), option_of("replacement.head_epochs")
    ('--lr-backbone', '--replacement.head-epochs')
    """
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")


def renamed_option(option: str) -> str | None:
    """What an option of an earlier version is called now; None for one that is none.

    >>> renamed_option("--own_code"), renamed_option("--optimisation.add-on-rate"), renamed_option("--split_rule")
    ('--trust-code', '--lr-add-on', '--split-rule')
    >>> renamed_option("--epochs") is None
    True
    """
    if option in _OTHERS:
        return _OTHERS[option]
    field = option.removeprefix("--").replace("-", "_")
    today = option_of(field)
    return None if today == option or ("_" not in option and field not in OPTIONS) else today
