"""Faults that the process of a command is given from within, before the command begins."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

_CHANGES = ("open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.truncate")  # audit events of files


def cause(kind: str, **options: Any) -> None:
    """Cause a fault by its name."""
    _KINDS[kind](**options)


def die_at_change(number: int, under: str) -> None:
    """Kill this process before its ``number``-th change of a file below a directory, counted from 1."""
    inside, done = os.path.abspath(under), 0

    def count(event: str, args: tuple[Any, ...]) -> None:
        nonlocal done
        if event not in _CHANGES or not isinstance(args[0], str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(args[0]))
        writes = event != "open" or bool(args[2] & (os.O_WRONLY | os.O_RDWR))
        if writes and (path == inside or path.startswith(inside + os.sep)):
            done += 1
            if done == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def die_in_file(number: int, share: float) -> None:
    """Kill this process when a share of the bytes of its ``number``-th file of tensors is written."""
    done, whole = 0, Path.write_bytes

    def write_bytes(path: Path, content: Any) -> int:
        nonlocal done
        done += ".safetensors." in path.name
        if done < number:
            return whole(path, content)
        whole(path, content[: int(share * len(content))])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    Path.write_bytes = write_bytes


def limit_files(size: int) -> None:
    """Let every write beyond so many bytes of a file fail, by the kernel, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def be_impatient(seconds: float) -> None:
    """Have plug-ins that do not answer named sooner."""
    from crvnn_core import delays

    delays.PATIENCE = seconds


_KINDS = {each.__name__: each for each in (die_at_change, die_in_file, limit_files, be_impatient)}
