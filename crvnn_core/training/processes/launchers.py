"""What launchers of processes (torchrun, SLURM) write into the environment, checked before Fabric reads it."""

from __future__ import annotations

import os
from datetime import timedelta

from crvnn_core.errors import CrvnnError

#: Ranks, by launcher: whoever sets them has started the processes.
_RANKS = {"torchrun": ("RANK", "LOCAL_RANK"), "SLURM": ("SLURM_PROCID", "SLURM_LOCALID")}
#: Other numbers that Fabric reads.
_OTHERS = {"torchrun": ("NODE_RANK", "GROUP_RANK", "MASTER_PORT"), "SLURM": ("SLURM_NODEID",)}


def check_numbers() -> None:
    """Refuse what is no number, which Fabric would fail at, some of it as soon as it is imported."""
    for numbers in (_RANKS, _OTHERS):
        for launcher, names in numbers.items():
            for name in names:
                _number(name, "a number", launcher)


def check_ranks(processes: int) -> None:
    """Refuse what is no number, and a rank that none of so many processes has."""
    check_numbers()
    for launcher, names in _RANKS.items():
        for name in names:
            if processes > 1 and (rank := _number(name, "a number", launcher)) >= processes:
                raise CrvnnError(
                    f"{name} is set to {rank} in the environment, but there are {processes} processes, which are "
                    f"numbered from 0 to {processes - 1}"
                )


def count(name: str) -> int:
    """The number of processes in an environment variable; 0 if it is not set."""
    return _number(name, "a number of processes", "SLURM" if name.startswith("SLURM") else "torchrun")


def _number(name: str, what: str, launcher: str) -> int:
    text = os.environ.get(name, "").strip() or "0"
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise CrvnnError(
            f"{name} is set to '{text:.40}' in the environment; it must be {what}, as {launcher} sets it. "
            f"'unset {name}' trains in one process."
        )
    return int(text)


def patience() -> timedelta:
    """How long a process waits for the others before it gives up."""
    text = os.environ.get("CRVNN_TIMEOUT", "").strip() or "600"
    if not text.isascii() or not text.isdecimal() or len(text) > 6 or not int(text):
        raise CrvnnError(
            f"CRVNN_TIMEOUT is set to '{text:.40}' in the environment; it must be a number of seconds below a million"
        )
    return timedelta(seconds=int(text))
