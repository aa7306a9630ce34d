"""ListOps by recursion, from its definitions: what the tests compare with."""

import statistics

from hypothesis import strategies as st

NAMES = ("MIN", "MAX", "MED", "SM")


def answer(tree):
    """The answer to a tree of tuples, from the definitions and by recursion."""
    if isinstance(tree, int):
        return tree
    name, *arguments = tree
    numbers = sorted(answer(argument) for argument in arguments)
    if name == "SM":
        return sum(numbers) % 10
    if name == "MED":
        return int(statistics.median(numbers))
    return numbers[0] if name == "MIN" else numbers[-1]


def written(tree):
    """A tree as tokens."""
    if isinstance(tree, int):
        return [str(tree)]
    return [f"[{tree[0]}", *(token for argument in tree[1:] for token in written(argument)), "]"]


def read(tokens):
    """Tokens as a tree, by recursive descent."""

    def node(place):
        if not tokens[place].startswith("["):
            return int(tokens[place]), place + 1
        arguments, name = [], tokens[place][1:]
        place += 1
        while tokens[place] != "]":
            argument, place = node(place)
            arguments.append(argument)
        return (name, *arguments), place + 1

    tree, end = node(0)
    assert end == len(tokens)
    return tree


def depth(tree):
    return 1 if isinstance(tree, int) else 1 + max(map(depth, tree[1:]))


def inner(tree):
    if not isinstance(tree, int):
        yield tree
        for argument in tree[1:]:
            yield from inner(argument)


TREES = st.recursive(
    st.integers(0, 9),
    lambda below: st.builds(
        lambda name, arguments: (name, *arguments),
        st.sampled_from(NAMES),
        st.lists(below, min_size=1, max_size=5),
    ),
    max_leaves=40,
)
