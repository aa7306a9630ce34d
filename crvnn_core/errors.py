"""Errors a user can act on. The command line prints these as one message; anything else is a bug."""

from __future__ import annotations

import difflib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Sequence

from attrs import frozen


class CrvnnError(Exception):
    """A problem the user can put right: the message says where, what, and what to do."""


class InputError(CrvnnError):
    """The data given to a model cannot be encoded."""


class ContractError(CrvnnError):
    """A component did not keep a promise of its slot."""

    def __init__(self, message: str, slot: str = "") -> None:
        super().__init__(message)
        self.slot = slot


class PluginError(CrvnnError):
    """A plug-in is broken, misspelt, or clashes with another."""


class UnknownNameError(CrvnnError):
    """Something was asked for by a name that nothing has."""


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


class SpecError(CrvnnError):
    """A spec that cannot be used, with every problem in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


def nearest(name: str, known: Iterable[str]) -> str:
    """``" Did you mean 'x'?"``, or nothing when no known name is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


#: What a stranger's code may raise and must not get away with: leaving the program is one of these.
FAILURES = (Exception, SystemExit)


def raised_at(error: BaseException) -> str:
    """``Type: message (file.py:12)``, with the line to look at: the innermost that is neither ours nor torch's."""
    if isinstance(error, SyntaxError):  # raised by the parser, about a line that never ran
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [(file, line) for file, line in frames if not file.startswith("<frozen ")]
    theirs = [(file, line) for file, line in frames if not file.startswith(_blameless())]
    place = "".join(f" ({file}:{line})" for file, line in (theirs or frames)[-1:])
    return f"{type(error).__name__}: {error}{place}"


def _blameless() -> tuple[str, ...]:
    """Directories in which a plug-in's mistake may come to light, but not lie."""
    packages = [sys.modules.get(name) for name in ("crvnn_core", "torch", "pluggy", "attr", "click")]
    files = [module.__file__ for module in packages if module is not None and module.__file__]
    return (
        *(os.path.join(os.path.dirname(file), "") for file in files),
        sysconfig.get_path("stdlib") + os.sep,
    )
