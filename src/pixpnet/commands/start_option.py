"""What ``pixpnet train --start RUN`` takes over from that run: data, backbone and the like, as they are there."""

from pathlib import Path
from typing import Any

from pixpnet.config import RunConfig, plain_config, read_config
from pixpnet.records import plain_fields

# What the other run built on itself, and what it ran on.
_OWN = ("member", "start", "start_model", "teacher", "teacher_model", "trainer", "num_workers", "evaluate_on_test")


def taken_over(run: Path) -> dict[str, Any]:
    """The values of a run's configuration that hold for one that starts from it, under the names of their fields.

    The data set is named as it is found from here (`training.location`).

    Raises:
        ValueError: if it is no run, or its configuration is damaged.
    """
    from pixpnet.training.location import located

    config = located(read_config(run / "config.yaml"), run)
    values, names = plain_config(config), [field.name for field in plain_fields(RunConfig)]
    return {name: values[name] for name in names if name not in _OWN}
