"""Where the files of a spec are: specs by name, and the relative paths in a spec."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from crvnn_core.documents import read_toml
from crvnn_core.errors import CrvnnError, CrvnnWarning, Origin, SpecError, nearest

#: The paths of spec files by the names that plug-ins offer them under.
NamedFiles = Mapping[str, Path]


def find_spec(given: Path | str, named: NamedFiles, beside: Path = Path(), asked: str = "") -> Path:
    """The spec file at a path, or the one that a plug-in offers under this name.

    :param beside: the directory that a relative path starts from.
    :param asked: where it was asked for, for messages.
    """
    path, name = beside / given, str(given)
    try:
        found = path.is_file()
    except OSError as error:  # such as a path that is too long
        raise SpecError([Origin(f"{asked}{path!s:.200}").problem((), str(error.strerror))]) from None
    if found:
        if name in named:
            message = (
                f"{path} is a file, and '{name}' is a spec of an installed package too; the file is used"
            )
            warnings.warn(CrvnnWarning(message), stacklevel=3)
        return path
    if name in named:
        return named[name]
    if not path.exists():
        raise SpecError([Origin(f"{asked}{path}").problem((), *_absent(path, name, named))])
    return path


def _absent(path: Path, name: str, named: NamedFiles) -> tuple[str, str]:
    """What to say of a spec that does not exist, and the specs that do."""
    if PurePath(name).suffix or PurePath(name).name != name:
        if path.stem in named:
            return (
                "there is no such file",
                f"A spec that comes with a package is used by its name: {path.stem}",
            )
        found = sorted(each.name for each in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        return "there is no such file", f"{path.parent} has {', '.join(found)}." if found else ""
    guess = nearest(name, named)
    return (
        f"there is no such file, and no spec has this name.{guess}",
        "'crvnn list specs' lists those that have one.",
    )


def copy_spec(path: Path, directory: Path) -> list[Path]:
    """Copy a spec file to a directory, and the files beside it that it names; the paths of the copies.

    No existing file is overwritten.
    """
    data = read_toml(path)
    names = {text for text in _texts(data) if text and (path.parent / text).is_file()}
    copies = {path: directory / path.name} | {path.parent / name: directory / name for name in sorted(names)}
    for copy in copies.values():
        if copy.exists():
            raise CrvnnError(f"{copy} exists already; choose another directory for --copy")
    for source, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    return list(copies.values())


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


def absolute(value: Any, origin: Origin) -> Any:
    """A path (or a list of paths) of a spec as an absolute one, so that it means the same in every directory.

    A relative path in a file starts from the directory of that file, one of --set from the working directory.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(absolute(each, origin) for each in value)
    if origin.directory is None or not value or not isinstance(value, (str, PurePath)) or "://" in str(value):
        return value
    try:
        path = Path(value).expanduser()
    except RuntimeError as error:  # nobody is called so
        raise ValueError(f"{value!r}: {error}") from None
    start = origin.directory
    if origin.packaged and not (start / path).exists():
        start = Path()  # the package has no such file: it is the user's data
    return type(value)(os.path.abspath(start / path))
