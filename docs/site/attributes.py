"""A Griffe extension: the API reference shows attributes and arguments of attrs classes, with their comments.

Comments that begin with ``#:`` above an attribute, or stand behind it, describe it, as in docs/reference/python.md.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

_DECORATORS = {"frozen", "define"}


class Attributes(griffe.Extension):
    """Reads what Griffe leaves out."""

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Take a comment for the docstring of an attribute that has none."""
        if attr.docstring is None and attr.lineno is not None and isinstance(attr.parent, griffe.Class):
            text = _comment(attr.lines_collection[attr.filepath], attr.lineno, attr.endlineno or attr.lineno)
            attr.docstring = griffe.Docstring(text[0].upper() + text[1:], parent=attr) if text else None

    def on_class_members(self, *, node: Any, cls: griffe.Class, **kwargs: Any) -> None:
        """Give an attrs class the ``__init__`` that attrs makes for it."""
        decorators = [item for item in getattr(node, "decorator_list", []) if _name(item) in _DECORATORS]
        if decorators and "__init__" not in cls.members:
            cls.set_member("__init__", _initializer(node, _sets(decorators[0], "kw_only")))


def _comment(lines: list[str], first: int, last: int) -> str:
    """The comment behind a statement, or the ``#:`` lines above it."""
    if behind := re.search(r"\s#\s*(?!noqa|type:|fmt:)(.+)$", lines[last - 1]):
        return behind[1]
    above: list[str] = []
    for line in reversed(lines[: first - 1]):
        if not line.strip().startswith("#:"):
            break
        above.insert(0, line.strip().removeprefix("#:").strip())
    return " ".join(above)


def _initializer(node: ast.ClassDef, keyword_only: bool) -> griffe.Function:
    """What attrs makes of the fields of a class, as far as it can be read off its source."""
    kind = griffe.ParameterKind.keyword_only if keyword_only else griffe.ParameterKind.positional_or_keyword
    found = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        annotation, default = ast.unparse(field.annotation), field.value
        if annotation.startswith("ClassVar") or _sets(default, "init", to=False):
            continue
        found.append(
            griffe.Parameter(
                field.target.id.lstrip("_"), kind=kind, annotation=annotation, default=_default(default)
            )
        )
    return griffe.Function("__init__", parameters=griffe.Parameters(*found), returns="None")


def _default(value: ast.expr | None) -> str | None:
    """The default of a field; of ``field(...)``, what it is told."""
    if not isinstance(value, ast.Call) or _name(value) not in ("field", "ib"):
        return None if value is None else ast.unparse(value)
    given = {keyword.arg: keyword.value for keyword in value.keywords}
    if "default" in given:
        return ast.unparse(given["default"])
    return "..." if "factory" in given else None


def _name(item: ast.expr) -> str:
    """The last part of the name of a decorator or function, called or not."""
    called = item.func if isinstance(item, ast.Call) else item
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _sets(item: ast.expr | None, name: str, to: bool = True) -> bool:
    """Whether a call sets an argument to this constant."""
    keywords = item.keywords if isinstance(item, ast.Call) else []
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is to
        for keyword in keywords
    )
