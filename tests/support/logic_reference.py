"""Propositional logic from set theory: what the tests compare with."""

import re
from itertools import product

from hypothesis import strategies as st

VARIABLES = "abcdef"


def true_in(tree, world):
    """Whether a tree of tuples is true, where these variables are."""
    if isinstance(tree, str):
        return tree in world
    name, *parts = tree
    values = [true_in(part, world) for part in parts]
    return {"not": not values[0], "and": all(values), "or": any(values)}[name]


def written(tree):
    """A tree in the published form."""
    if isinstance(tree, str):
        return tree
    if tree[0] == "not":
        return f"( not {written(tree[1])} )"
    return f"( {written(tree[1])} ( {tree[0]} {written(tree[2])} ) )"


def read(text):
    """A tree from the published form, by rewriting the innermost parentheses until none are left."""
    trees = dict(zip(VARIABLES, VARIABLES, strict=True))
    while "(" in text:
        inner = re.search(r"\( not (\w+) \)|\( (\w+) \( (and|or) (\w+) \) \)", text)
        name = f"t{len(trees)}"
        single, left, operator, right = inner.groups()
        trees[name] = ("not", trees[single]) if single else (operator, trees[left], trees[right])
        text = text.replace(inner[0], name, 1)
    return trees[text]


WORLDS = [
    frozenset(name for name, true in zip(VARIABLES, truths, strict=True) if true)
    for truths in product((False, True), repeat=6)
]


def related(left, right):
    """The relation of two trees, from set theory."""
    one = {world for world in WORLDS if true_in(left, world)}
    two = {world for world in WORLDS if true_in(right, world)}
    holds = {
        "=": one == two,
        "<": one < two,
        ">": one > two,
        "^": one.isdisjoint(two) and len(one | two) == 64,
        "|": one.isdisjoint(two) and len(one | two) < 64,
        "v": not one.isdisjoint(two) and len(one | two) == 64 and not (one <= two or one >= two),
    }
    return next((name for name, true in holds.items() if true), "#")


def constant(tree):
    return len({true_in(tree, world) for world in WORLDS}) == 1


TREES = st.recursive(
    st.sampled_from(VARIABLES),
    lambda below: st.one_of(
        st.tuples(st.just("not"), below), st.tuples(st.sampled_from(["and", "or"]), below, below)
    ),
    max_leaves=8,
).filter(lambda tree: not constant(tree))


#: What the test split of each setting of systematicity has, and no other split.
PATTERNS = {
    "A": lambda text: "( and ( not a ) )" in text,
    "B": lambda text: "( and ( not " in text,
    "C": lambda text: "( and ( not " in text or "( or ( not " in text,
}
