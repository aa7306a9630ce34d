"""Formats of trees: a record for each in this module, and its functions in the module of the same name.

To add a format, write its record here and a module with ``write(tree, unknown)``, which returns the text of a tree; and
if it is readable, ``read(text)``, which returns the tree. ``builder.py`` and ``escapes.py`` are for all formats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attrs import frozen

from crvnn_core.errors import InputError, nearest

if TYPE_CHECKING:
    from crvnn_core.trees.tree import Tree


@frozen(kw_only=True)
class Format:
    """A format of trees: what it is called, and what ``Tree`` and ``crvnn predict --trees`` need to know of it."""

    #: For ``Tree.to`` and ``--format``; also the name of its module.
    name: str
    #: Of files in this format.
    suffixes: tuple[str, ...] = ()
    #: Whether a tree is one line, so that a file can hold several.
    one_line: bool = False
    #: Whether its module has ``read``.
    readable: bool = False


_RECORDS = (
    Format(name="brackets", suffixes=(".txt",), one_line=True, readable=True),
    Format(name="nested", one_line=True),
    Format(name="json", suffixes=(".json", ".jsonl"), one_line=True, readable=True),
    Format(name="nltk", suffixes=(".ptb", ".mrg"), one_line=True, readable=True),
    Format(name="svg", suffixes=(".svg",)),
    Format(name="latex", suffixes=(".tex",)),
    Format(name="terminal"),
)

#: The names of all formats, which ``Tree.to`` writes.
FORMATS = tuple(form.name for form in _RECORDS)
#: Those that ``Tree.read`` reads.
READABLE = tuple(form.name for form in _RECORDS if form.readable)
#: Those in which a tree is one line.
ONE_LINE = tuple(form.name for form in _RECORDS if form.one_line)
#: The name of a format by the suffix of a file.
FORMAT_BY_SUFFIX: Mapping[str, str] = {suffix: form.name for form in _RECORDS for suffix in form.suffixes}


def writer(name: str) -> Callable[[Tree, Collection[int]], str]:
    """The function that writes a tree in a format; its second argument is the positions of unknown tokens."""
    return _module(name, FORMATS, "written as").write  # type: ignore[no-any-return]


def reader(name: str) -> Callable[[str], Tree]:
    """The function that reads a tree from a string in a format."""
    return _module(name, READABLE, "read from").read  # type: ignore[no-any-return]


def _module(name: str, known: Sequence[str], verb: str) -> Any:
    """The module of a format, imported on use; an error that suggests the nearest name if there is none."""
    if name not in known:
        hint = f"{nearest(name, known)} There are: {', '.join(known)}."
        raise InputError(f"trees cannot be {verb} '{name}'.{hint}")
    return import_module(f"{__name__}.{name}")
