"""Annotations of parameters that say more than their type, for specs to check and for ``crvnn describe`` to show.

A plug-in writes them in the signature of its component: ``def __init__(self, path: FilePath)``.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, get_args

from attrs import frozen


@frozen
class PathText:
    """Marks a text as the path of a file or directory."""

    def __str__(self) -> str:
        return "a path"


#: The path of a file or directory. A relative one in a spec is taken from the directory of the spec file.
FilePath = Annotated[str, PathText()]


def holds_path(annotation: Any) -> bool:
    """Whether values of an annotation are paths: ``FilePath`` or ``pathlib.Path``, or a list or choice of them."""
    if isinstance(annotation, type) and issubclass(annotation, PurePath):
        return True
    return any(isinstance(each, PathText) or holds_path(each) for each in get_args(annotation))
