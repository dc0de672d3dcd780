"""What commands that open a run share: which device they compute on, and where its images are."""

from typing import TYPE_CHECKING

from pixpnet.messages import first_line

if TYPE_CHECKING:
    import torch

WORKERS_HELP = "processes that load images; auto is none on a CPU, and else the cores less one, 1 to 8"
DEVICE_HELP = "cpu, cuda, mps, ... or auto for the best available"
TRUST_HELP = "the backbone is code of your own, which may be imported and called"
MOVED_HELP = "where the run's images are now, such as folder:PATH, if they were moved since it began"


def choose_device(name: str) -> "torch.device":
    """The device of this name, if this machine has it.

    Raises:
        ValueError: if it has not, or there is no such name.
    """
    import torch

    if name == "auto":
        mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        message = first_line(error)
        raise ValueError(f"this machine cannot compute on --device {name} ({message}): use cpu or auto") from error
    return device
