"""Errors a user can act on. The command line prints these as one message; anything else is a bug."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from crvnn_core.host.manager import Source


class CrvnnError(Exception):
    """A problem the user can put right: the message says where, what, and what to do."""


class CrvnnWarning(UserWarning):
    """Something that works, but that the user should know: the command line prints it as one message."""


class InputError(CrvnnError):
    """The data given to a model cannot be encoded."""


class ContractError(CrvnnError):
    """A component did not keep a promise of its slot."""

    def __init__(self, message: str, slot: str = "") -> None:
        super().__init__(message)
        self.slot = slot


class PluginError(CrvnnError):
    """A plug-in is broken, misspelt, or clashes with another.

    :param blamed: the sources of the plug-ins without which the error would not occur, if that is known.
    """

    def __init__(self, message: str, blamed: Iterable[Source] = ()) -> None:
        super().__init__(message)
        self.blamed = tuple(blamed)


class LostProcessError(CrvnnError):
    """Another process of this training has ended, or hangs."""


class MissingPluginError(CrvnnError):
    """A run needs plug-in files that are not loaded; it keeps copies of them, ``files``."""

    def __init__(self, why: str, options: str, details: str, files: Sequence[Path]) -> None:
        self.why, self.details, self.files = why, details, tuple(files)
        super().__init__(self.advising(f"add\n  {options}"))

    def advising(self, remedy: str) -> str:
        """The message, with what to do about it."""
        return f"{self.why}, then {remedy}\n{self.details}"


class UnknownNameError(CrvnnError):
    """Nothing has the given name."""


@frozen
class Problem:
    """One thing wrong in a spec: where it stands, what is wrong, and what would be right."""

    where: str
    what: str
    context: str = ""
    advice: str = ""

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}"]
        lines += [f"  {line}" for line in (self.context, self.advice) if line]
        return "\n".join(lines)


Path_ = tuple[str, ...]


@frozen
class Origin:
    """Where a value was written."""

    label: str
    line: int = 0
    text: str = ""
    under: Path_ = ()  # the place of the table that paths start from, for a table within the spec
    #: Where relative paths of files start, and whether that is in a package; ``None`` if they are left as they are.
    directory: Path | None = field(default=None, eq=False, repr=False)
    packaged: bool = field(default=False, eq=False, repr=False)
    #: Whether what is set here holds for every stage, over what a stage sets itself.
    every_stage: bool = field(default=False, eq=False, repr=False)

    def where(self, path: Path_) -> str:
        """This place in words, for a value at ``path``."""
        label = f"{self.label}:{self.line}" if self.line else self.label
        place = ".".join((*self.under, *path))
        return label if self.is_option or not place else f"{label} [{place}]"

    @property
    def is_option(self) -> bool:
        """Whether this is an option of the command line, which says what it is about itself."""
        return self.label.startswith("--")

    def problem(self, path: Path_, what: str, advice: str = "") -> Problem:
        """A problem at this place."""
        return Problem(self.where(path), what, f"{self.line} | {self.text}" if self.line else "", advice)


class SpecError(CrvnnError):
    """A spec that cannot be used, with every problem in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


_LONGEST_NAME = 200


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """``" Did you mean 'x'?"``, or nothing when no known name is close."""
    if len(name) > _LONGEST_NAME:  # comparing takes time that is quadratic in the length
        return ""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean '{close[0]}'?" if close else ""


#: What a stranger's code may raise and must not get away with: leaving the program is one of these.
FAILURES = (Exception, SystemExit)


def raised_at(error: BaseException) -> str:
    """``Type: message (file.py:12)``, with the line to look at: the innermost that is neither ours nor torch's."""
    if isinstance(error, SyntaxError):  # raised by the parser, about a line that never ran
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [(file, line) for file, line in frames if not file.startswith("<frozen ")]
    theirs = [(file, line) for file, line in frames if not _blameless(file)]
    place = "".join(f" ({file}:{line})" for file, line in (theirs or frames)[-1:])
    return f"{type(error).__name__}: {error}{place}"


def _blameless(file: str) -> bool:
    """Whether a plug-in's mistake may come to light in a file, but not lie there: Python's, torch's and our own."""
    packages = [sys.modules.get(name) for name in ("crvnn_core", "torch", "pluggy", "attr", "click")]
    homes = [
        os.path.dirname(module.__file__) for module in packages if module is not None and module.__file__
    ]
    installed = any(part in ("site-packages", "dist-packages") for part in file.split(os.sep))
    if not installed:  # installed packages often lie in a folder of the standard library's
        import sysconfig

        homes.append(sysconfig.get_path("stdlib"))
    return any(file.startswith(home + os.sep) for home in homes)
