"""ListOps: answers against a second evaluator, and expressions as the published generator makes them."""

import random
import statistics
import subprocess
import sys
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import InputError
from crvnn_tasks.listops import ListOps, evaluate, split_of

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


TREES = st.recursive(
    st.integers(0, 9),
    lambda below: st.builds(
        lambda name, arguments: (name, *arguments),
        st.sampled_from(NAMES),
        st.lists(below, min_size=1, max_size=5),
    ),
    max_leaves=40,
)


@given(TREES)
def test_answers_agree_with_a_second_evaluator(tree):
    assert evaluate(written(tree)) == answer(tree)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("[MAX 2 9 4 ]", 9),
        ("[MIN 8 3 7 ]", 3),
        ("[SM 7 5 ]", 2),
        ("[MED 1 2 ]", 1),
        ("[MED 9 1 4 2 ]", 3),
        ("[MED 9 1 4 ]", 4),
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),
        ("[SM [SM 9 9 ] [MED 1 [MAX 3 8 ] 5 ] ]", 3),
    ],
)
def test_known_answers(text, expected):
    assert evaluate(text.split()) == expected


@pytest.mark.parametrize(
    ("text", "place", "token"),
    [
        ("[MAX 1 two ]", 3, "two"),
        ("[MUX 1 2 ]", 1, "[MUX"),
        ("[MAX 1 2 ] ]", 5, "]"),
        ("]", 1, "]"),
        ("[MAX ]", 2, "]"),
        ("[MAX 1 10 ]", 3, "10"),
    ],
)
def test_a_token_that_does_not_fit_is_named_with_its_place(text, place, token):
    with pytest.raises(InputError) as caught:
        evaluate(text.split())
    assert f"token {place}, '{token}', does not fit: {text}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "1 2", "[MAX 1 2", "[MAX 1 2 ] 3", "[MAX 1 [MIN 2 ]"])
def test_what_is_not_one_whole_expression_is_an_error(text):
    with pytest.raises(InputError, match="this is not one whole expression"):
        evaluate(text.split())


@pytest.fixture(scope="module")
def rows():
    return list(islice(ListOps(max_tokens=0).examples("train", seed=0), 3000))


def test_generated_labels_are_right(rows):
    assert all(example.label == answer(read(example.sequences[0])) for example in rows)


def test_expressions_look_like_those_of_the_published_generator(rows):
    trees = [read(example.sequences[0]) for example in rows]
    lengths = [len(example.sequences[0]) for example in rows]
    assert 11 <= statistics.median(lengths) <= 13
    assert max(lengths) > 100
    assert max(map(depth, trees)) <= 20
    nodes = [node for tree in trees for node in _inner(tree)]
    names = Counter(node[0] for node in nodes)
    assert all(0.22 < names[name] / len(nodes) < 0.28 for name in NAMES)
    arguments = Counter(len(node) - 1 for node in nodes)
    assert set(arguments) == {2, 3, 4, 5}
    below = [argument for node in nodes for argument in node[1:]]
    assert 0.2 < sum(not isinstance(argument, int) for argument in below) / len(below) < 0.3
    assert set(Counter(argument for argument in below if isinstance(argument, int))) == set(range(10))


def published(generator, depth=1):
    """An expression by the published recipe, written down a second time."""
    if depth == 20 or generator.random() > 0.25:
        return str(generator.randrange(10))
    arguments = [published(generator, depth + 1) for _ in range(generator.randint(2, 5))]
    return f"[{generator.choice(NAMES)} {' '.join(arguments)} ]"


def test_lengths_are_those_of_the_published_recipe_at_every_size():
    # No expression comes twice, and the short ones run out first: the median grows with the number of rows,
    # from 12 of three thousand to 16 of the hundred thousand that were published.
    generator, recipe = random.Random(0), {}
    while len(recipe) < 100_000:
        text = published(generator)
        if " " in text:
            recipe[text] = text.count(" ") + 1
    ours = [len(e.sequences[0]) for e in islice(ListOps(max_tokens=0).examples("train", seed=0), 100_000)]
    theirs = list(recipe.values())
    for rows, median in ((3_000, 12), (100_000, 16)):
        assert abs(statistics.median(ours[:rows]) - median) <= 1
        assert abs(statistics.median(theirs[:rows]) - median) <= 1


def _inner(tree):
    if not isinstance(tree, int):
        yield tree
        for argument in tree[1:]:
            yield from _inner(argument)


def test_every_class_is_asked_for(rows):
    labels = Counter(example.label for example in rows)
    assert set(labels) == set(range(10))
    assert min(labels.values()) > 100


def test_no_expression_comes_twice_and_none_is_a_single_digit(rows):
    assert len({example.sequences for example in rows}) == len(rows)
    assert min(len(example.sequences[0]) for example in rows) >= 4


def test_splits_have_nothing_in_common():
    task = ListOps(max_tokens=15, held_out=300)
    seen = {
        split: {e.sequences[0] for e in islice(task.examples(split, seed=1), 2000)} for split in task.splits
    }
    assert len(seen["dev"]) == len(seen["test"]) == 300
    assert seen["train"].isdisjoint(seen["dev"] | seen["test"])
    assert seen["dev"].isdisjoint(seen["test"])
    for split, sequences in seen.items():
        assert all(split_of(tokens) == split for tokens in sequences)


def test_splits_stay_apart_whatever_the_seed():
    task = ListOps(max_tokens=8, held_out=100)
    train = {e.sequences[0] for e in islice(task.examples("train", seed=1), 3000)}
    for seed in (1, 2):
        assert train.isdisjoint(e.sequences[0] for e in task.examples("dev", seed))


def test_the_seed_alone_decides_what_comes():
    def some(seed):
        return list(islice(ListOps().examples("train", seed), 50))

    assert some(3) == some(3)
    assert some(3) != some(4)


def test_another_process_makes_the_same_expressions(tmp_path):
    code = (
        "from itertools import islice\nfrom crvnn_tasks.listops import ListOps\n"
        "for e in islice(ListOps().examples('dev', 2), 30): print(*e.sequences[0], e.label)"
    )
    got = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    here = islice(ListOps().examples("dev", 2), 30)
    assert got.splitlines() == [" ".join([*e.sequences[0], str(e.label)]) for e in here]


def test_limits_are_kept():
    task = ListOps(max_tokens=20, max_depth=3, max_arguments=3, operator_probability=0.5)
    for example in islice(task.examples("train", seed=0), 300):
        tree = read(example.sequences[0])
        assert len(example.sequences[0]) <= 20
        assert depth(tree) <= 3
        assert all(2 <= len(node) - 1 <= 3 for node in _inner(tree))


def test_training_never_ends_and_held_out_splits_do(monkeypatch):
    monkeypatch.setattr("crvnn_tasks.listops._PATIENCE", 2000)
    tiny = ListOps(max_tokens=4, held_out=1000)  # four operators on two digits: 400 expressions in all
    held_out = [{e.sequences[0] for e in tiny.examples(split, seed=0)} for split in ("dev", "test")]
    assert all(0 < len(sequences) < 60 for sequences in held_out)
    assert len(list(islice(tiny.examples("train", seed=0), 800))) == 800


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"max_tokens": 3}, "max_tokens must be 0, or at least 4"),
        ({"max_tokens": -1}, "max_tokens must be 0, or at least 4"),
        ({"max_depth": 1}, "max_depth must be at least 2"),
        ({"max_arguments": 1}, "max_arguments"),
        ({"held_out": 0}, "held_out at least 1"),
        ({"operator_probability": 0.0}, "operator_probability between 0 and 1"),
        ({"operator_probability": 1.0}, "operator_probability between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ValueError, match=what):
        ListOps(**settings)


def test_text_is_split_at_spaces():
    assert ListOps().tokenize(" [MAX  1 2 ]\n") == ("[MAX", "1", "2", "]")


def test_expressions_that_grow_beyond_the_limit_are_given_up_early():
    # Each operator has more than two operators among its arguments: whole trees would have millions of tokens.
    task = ListOps(max_tokens=30, operator_probability=0.6)
    assert all(len(example.sequences[0]) <= 30 for example in islice(task.examples("train", 0), 20))


def test_training_goes_round_again_when_every_expression_has_been_seen():
    task = ListOps(max_tokens=4)
    examples = list(islice(task.examples("train", 0), 800))
    assert len(set(examples[:360])) == len(set(examples)) == 360  # all that there are
