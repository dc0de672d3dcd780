"""Random draws that depend on a seed and on what they are for, and on nothing else."""

import hashlib

import torch


def generator_for(seed: int, *what: object) -> torch.Generator:
    """A generator for one purpose, so that no draw depends on how many others were made before it.

    >>> one, same, other = (generator_for(0, "noise", id_).initial_seed() for id_ in ("jay", "jay", "wren"))
    >>> one == same, one == other
    (True, False)
    """
    digest = hashlib.blake2b(repr((seed, *what)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
