"""The directory of compiled libraries: made for its user alone, and which of its files may be loaded.

Loading a library runs its code, and one that was cut short kills the process (SIGBUS). So nothing is loaded that
another user could have written or that differs from what was compiled.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from crvnn_core.errors import CrvnnError
from crvnn_core.files import cache_directory, sha256_of, write_atomically

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def directory() -> Path:
    """Where compiled libraries are kept."""
    try:
        return cache_directory() / "kernels"
    except RuntimeError as error:  # a user without a home directory, as in some containers
        raise CrvnnError(
            f"there is no directory for compiled kernels: {error} Name one in CRVNN_CACHE."
        ) from error


def make_directory(path: Path) -> None:
    """Make the directory of libraries if it is not there; an error if it cannot be, or if others can write to it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = exposed(path)
    except OSError as error:
        raise CrvnnError(f"{path} cannot be written: {error}") from error
    if problem:
        raise CrvnnError(f"{problem}, or name another directory in CRVNN_CACHE")


def exposed(path: Path) -> str:
    """Who else could have written a file or directory, and what to do about it; empty if only this user could.

    Where files have no owner (Windows) nobody else is assumed.
    """
    if not hasattr(os, "getuid"):
        return ""
    found = path.stat() if path.is_dir() else path.lstat()
    if found.st_uid != os.getuid():
        return f"{path} belongs to another user (uid {found.st_uid}): remove it"
    if stat.S_ISLNK(found.st_mode):
        return f"{path} is a symbolic link: remove it"
    if found.st_mode & _OTHERS_WRITE:
        return f"others can write to {path} (mode {stat.S_IMODE(found.st_mode):o}): run 'chmod go-w {path}'"
    return ""


def checksum_file(library: Path) -> Path:
    """The file beside a library with its SHA-256, in the format of ``sha256sum``."""
    return library.with_name(f"{library.name}.sha256")


def write_checksum(library: Path) -> None:
    """Note the content of a library that was just compiled."""
    write_atomically(checksum_file(library), f"{sha256_of(library)}  {library.name}\n")


def add_checksum(library: Path, coming: Path) -> None:
    """Note the content of a file that is about to replace a library, beside what is noted of the library.

    Whoever loads it meanwhile finds the checksum of the old one or of the new one.
    """
    noted = _noted(library)[:1] if checksum_file(library).exists() else []
    lines = [f"{digest}  {library.name}\n" for digest in (*noted, sha256_of(coming))]
    write_atomically(checksum_file(library), "".join(lines))


def _noted(library: Path) -> list[str]:
    """The words of the checksum file."""
    return checksum_file(library).read_text(encoding="utf-8", errors="replace").split()


def problem(library: Path) -> str:
    """Why an existing library must not be loaded; empty if it may be."""
    try:
        if found := exposed(library.parent) or exposed(library):
            return found
        noted = _noted(library)
        while sha256_of(library) not in noted:
            before, noted = noted, _noted(library)
            if noted == before:  # else another process has replaced the library since the checksum was read
                return (
                    f"{library} is damaged: its SHA-256 is not the one noted in {checksum_file(library).name}"
                )
    except FileNotFoundError:
        return f"{library} was not completed: {checksum_file(library).name} is missing"
    except OSError as error:
        return f"{library} cannot be read: {error}"
    return ""
