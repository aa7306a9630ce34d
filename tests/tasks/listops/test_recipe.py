"""ListOps expressions as the published recipe generates them."""

import random
import statistics
from collections import Counter
from itertools import islice

import pytest

from crvnn_core import CrvnnError
from crvnn_tasks.listops.recipe import Recipe, expressions
from crvnn_tasks.listops.task import ListOps, evaluate, split_of
from listops_reference import NAMES, answer, depth, inner, read, written


@pytest.fixture(scope="module")
def rows():
    return list(islice(ListOps(max_tokens=0).examples("train", seed=0), 3000))


def test_labels_are_right_and_of_every_class_and_no_expression_is_repeated_or_a_single_digit(rows):
    assert all(example.label == answer(read(example.sequences[0])) for example in rows)
    labels = Counter(example.label for example in rows)
    assert set(labels) == set(range(10))
    assert min(labels.values()) > 100
    assert len({example.sequences for example in rows}) == len(rows)
    assert min(len(example.sequences[0]) for example in rows) >= 4


def test_expressions_have_the_statistics_of_the_published_generator(rows):
    trees = [read(example.sequences[0]) for example in rows]
    lengths = [len(example.sequences[0]) for example in rows]
    assert 11 <= statistics.median(lengths) <= 13
    assert max(lengths) > 100
    assert max(map(depth, trees)) <= 20
    nodes = [node for tree in trees for node in inner(tree)]
    names = Counter(node[0] for node in nodes)
    assert all(0.22 < names[name] / len(nodes) < 0.28 for name in NAMES)
    arguments = Counter(len(node) - 1 for node in nodes)
    assert set(arguments) == {2, 3, 4, 5}
    assert all(0.22 < count / len(nodes) < 0.28 for count in arguments.values())
    below = [argument for node in nodes for argument in node[1:]]
    assert 0.2 < sum(not isinstance(argument, int) for argument in below) / len(below) < 0.3
    assert set(Counter(argument for argument in below if isinstance(argument, int))) == set(range(10))


def published(generator, depth=1):
    """An expression by the published recipe, written down a second time."""
    if depth == 20 or generator.random() > 0.25:
        return str(generator.randrange(10))
    arguments = [published(generator, depth + 1) for _ in range(generator.randint(2, 5))]
    return f"[{generator.choice(NAMES)} {' '.join(arguments)} ]"


def test_lengths_are_those_of_the_published_recipe():
    # No expression comes twice, and the short ones run out first, so the lengths grow with the number of rows.
    generator, recipe = random.Random(0), {}
    while len(recipe) < 20_000:
        text = published(generator)
        if " " in text:
            recipe[text] = text.count(" ") + 1
    theirs = sorted(recipe.values())
    ours = sorted(map(len, islice(expressions(Recipe(), "0"), 20_000)))
    for part in (0.1, 0.25, 0.5, 0.75, 0.9):
        place = int(part * 20_000)
        assert ours[place] == pytest.approx(theirs[place], rel=0.06, abs=1)
    assert statistics.mean(ours) == pytest.approx(statistics.mean(theirs), rel=0.05)


def test_lengths_depths_and_arguments_are_within_their_limits():
    settings = {"max_depth": 3, "min_arguments": 3, "max_arguments": 4, "operator_probability": 0.5}
    task = ListOps(max_tokens=20, test_min_tokens=10, test_max_tokens=15, held_out=300, **settings)
    for split, least, most in (("train", 5, 20), ("dev", 5, 20), ("test", 10, 15)):
        examples = list(islice(task.examples(split, seed=0), 300))
        assert len(examples) == 300
        for example in examples:
            tree = read(example.sequences[0])
            assert least <= len(example.sequences[0]) <= most
            assert depth(tree) <= 3
            assert all(3 <= len(node) - 1 <= 4 for node in inner(tree))


def test_expressions_that_grow_beyond_the_limit_are_abandoned_early():
    # Each operator has more than two operators among its arguments: whole trees would have millions of tokens.
    task = ListOps(max_tokens=30, test_max_tokens=30, operator_probability=0.6)
    assert all(len(example.sequences[0]) <= 30 for example in islice(task.examples("train", 0), 20))


def test_long_expressions_are_sampled_directly_and_labelled_correctly():
    task = ListOps(test_min_tokens=900, test_max_tokens=1000, held_out=40)
    examples = list(task.examples("test", seed=0))
    assert len({example.sequences for example in examples}) == 40
    for example in examples:
        tree = read(example.sequences[0])
        assert 900 <= len(example.sequences[0]) <= 1000
        assert depth(tree) <= 20
        assert example.label == answer(tree)
        assert split_of(example.sequences[0]) == "test"


def test_ten_and_fifteen_arguments_can_be_asked_for():
    for count in (10, 15):
        settings = {"min_arguments": count, "max_arguments": count, "min_tokens": 100, "max_tokens": 1000}
        for tokens in islice(expressions(Recipe(**settings), "0"), 20):
            assert 100 <= len(tokens) <= 1000
            assert {len(node) - 1 for node in inner(read(tokens))} == {count}


def test_sampling_a_range_of_lengths_agrees_with_rejection_sampling():
    # The reference draws expressions and rejects those outside the range.
    generator, limits = random.Random(0), {"max_depth": 6, "max_arguments": 4, "operator_probability": 0.35}
    direct, patient = Recipe(min_tokens=25, max_tokens=32, **limits), Recipe(max_tokens=32, **limits)
    ours = [direct.draw(generator) for _ in range(4000)]
    theirs = []
    while len(theirs) < 4000:
        tokens = patient.draw(generator)
        if len(tokens) >= 25:
            theirs += [tokens] if len(tokens) <= 32 else []
    measures = {
        "length": len,
        "depth": lambda tokens: depth(read(tokens)),
        "operators": lambda tokens: sum(token[0] == "[" for token in tokens),
        "outermost arguments": lambda tokens: len(read(tokens)) - 1,
        "first argument": lambda tokens: len(written(read(tokens)[1])),
        "last argument": lambda tokens: len(written(read(tokens)[-1])),
        "answer": evaluate,
    }
    for name, measure in measures.items():
        one, two = Counter(map(measure, ours)), Counter(map(measure, theirs))
        for value in one | two:
            spread = (one[value] + two[value]) ** 0.5
            assert abs(one[value] - two[value]) < 4.5 * spread + 1, f"{name} {value}"


def test_a_range_of_lengths_without_expressions_is_an_error():
    task = ListOps(min_tokens=200, max_tokens=300, max_depth=2)
    with pytest.raises(CrvnnError, match=r"no ListOps expression has 200 to 300 tokens .* max_depth = 2"):
        next(task.examples("train", 0))


def test_operators_too_rare_to_be_drawn_are_an_error(monkeypatch):
    monkeypatch.setattr("crvnn_tasks.listops.recipe._ATTEMPTS", 100)
    with pytest.raises(
        CrvnnError, match=r"100 attempts .* for 'dev'; operator_probability = 1e-12 may be too"
    ):
        next(ListOps(operator_probability=1e-12).examples("dev", 0))


def test_test_expressions_may_have_to_be_deep():
    task = ListOps(max_depth=4, max_tokens=20, test_max_tokens=100, test_min_depth=3, held_out=30)
    depths = {
        split: [depth(read(e.sequences[0])) - 1 for e in task.examples(split, 0)] for split in ("dev", "test")
    }
    assert min(depths["test"]) == 3
    assert min(depths["dev"]) < 3
