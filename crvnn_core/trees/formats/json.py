"""Trees as JSON: an object with the tokens and the inner nodes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from attrs import asdict

from crvnn_core.documents import parse_json
from crvnn_core.errors import InputError
from crvnn_core.trees.formats.escapes import as_json
from crvnn_core.trees.tree import Node, Tree

_PLACES = ("start", "split", "end")


def plain(tree: Tree, unknown: Collection[int] = ()) -> dict[str, Any]:
    """Tokens and nodes as JSON has them."""
    marked = {"unknown": sorted(unknown)} if unknown else {}
    return {"tokens": list(tree.tokens), **marked, "nodes": [asdict(node) for node in tree.nodes]}


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """``{"tokens": [...], "nodes": [{"start": 0, "split": 1, "end": 2, "step": 1, "chance": 0.9, ...}]}``."""
    return as_json(plain(tree, unknown))


def read(text: str) -> Tree:
    """The tree that ``write`` has written."""
    try:
        found = parse_json(text)
    except json.JSONDecodeError as error:
        raise InputError(f"this is not JSON: {error}") from None
    except ValueError as error:
        raise InputError(f"this is not the JSON of a tree: {error}") from None
    return from_plain(found)


def from_plain(found: object) -> Tree:
    """The tree whose ``plain`` form this is."""
    if not isinstance(found, Mapping) or not {"tokens", "nodes"} <= found.keys():
        raise InputError('the JSON of a tree is an object with "tokens" and "nodes"')
    tokens, nodes = found["tokens"], found["nodes"]
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise InputError('"tokens" is a list of strings')
    if not isinstance(nodes, list):
        raise InputError('"nodes" is a list of objects')
    return Tree(tokens, [_node(number, node) for number, node in enumerate(nodes, 1)])


def _node(number: int, found: object) -> Node:
    if not isinstance(found, Mapping):
        raise InputError(f"node {number} is not an object")
    for name in _PLACES:
        if not _is_count(found.get(name)):
            raise InputError(f'node {number}: "{name}" must be an integer, 0 or more')
    step, chance, conflict = (found.get(name) for name in ("step", "chance", "conflict"))
    for name, value in (("step", step), ("conflict", conflict)):
        if value is not None and not (_is_count(value) and value):
            raise InputError(f'node {number}: "{name}" must be an integer, 1 or more, or null')
    if chance is not None and not (_is_number(chance) and 0 <= chance <= 1):
        raise InputError(f'node {number}: "chance" must be a number from 0 to 1, or null')
    start, split, end = (found[name] for name in _PLACES)
    return Node(start, split, end, step, None if chance is None else float(chance), conflict)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
