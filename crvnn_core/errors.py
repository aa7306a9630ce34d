"""Errors a user can act on. The command line prints these as one message; anything else is a bug."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from attrs import frozen


class CrvnnError(Exception):
    """A problem the user can put right: the message says where, what, and what to do."""


class InputError(CrvnnError):
    """The data given to a model cannot be encoded."""


class ContractError(CrvnnError):
    """A component did not keep a promise of its slot."""


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


def raised_at(error: BaseException) -> str:
    """``Type: message (file.py:12)``, with the innermost line that raised."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    at = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place else ""
    return f"{type(error).__name__}: {error}{at}"
