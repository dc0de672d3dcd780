"""Whether as many processes were started as a configuration wants, where somebody else starts them."""

import os
from collections.abc import Mapping

from pixpnet.training.run import RunError

# What Lightning takes for a shell in which a person tries things, and not for a job of tasks.
_INTERACTIVE = ("bash", "interactive")


def refuse_other_count(wanted: int, environment: Mapping[str, str] = os.environ) -> None:
    """Refuses a launcher's processes that are not those of the configuration, which would train without a word.

    Args:
        wanted: processes of all machines together.
        environment: of this process.

    Raises:
        RunError: with what to change.

    >>> refuse_other_count(2, {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2"})
    """
    launcher, started = _started(environment)
    if started is None or started == wanted:
        return
    raise RunError(
        f"{launcher} started {started} process{'' if started == 1 else 'es'}, and the configuration wants {wanted} "
        "(--num-devices times --num-nodes): one for each device is needed. Change one of the two, such as "
        + (
            f"torchrun --nproc-per-node={wanted}"
            if launcher == "torchrun"
            else f"#SBATCH --ntasks-per-node={wanted} with srun pixpnet train ..."
        )
    )


def _started(environment: Mapping[str, str]) -> tuple[str, int | None]:
    if "TORCHELASTIC_RUN_ID" in environment:
        return "torchrun", _count(environment.get("WORLD_SIZE"))
    if environment.get("SLURM_JOB_NAME") in _INTERACTIVE or "SLURM_PROCID" not in environment:
        return "nobody", None
    return "SLURM", _count(environment.get("SLURM_NTASKS"))


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
