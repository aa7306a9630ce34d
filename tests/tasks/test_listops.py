"""ListOps: answers against a second evaluator, expressions as the published recipe makes them, and published files."""

import gzip
import random
import statistics
import subprocess
import sys
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Component, CrvnnError, Example, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_tasks.listops.language import bracketed, tokenize
from crvnn_tasks.listops.recipe import Recipe, expressions
from crvnn_tasks.listops.task import ListOps, evaluate, split_of

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


# What expressions mean, and how they are written.


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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "It is empty."),
        ("1 2", "There are 2 of them."),
        ("[MAX 1 2", "'[MAX' is still open: ']' is missing at the end."),
        ("[MAX 1 2 ] 3", "There are 2 of them."),
        ("[MAX 1 [MIN 2", "'[MIN' is still open: '] ]' is missing at the end."),
    ],
)
def test_what_is_not_one_whole_expression_is_an_error(text, why):
    with pytest.raises(InputError) as caught:
        evaluate(text.split())
    assert str(caught.value) == f"this is not one whole expression: {text}\n  {why}"


def test_only_the_neighbours_of_a_wrong_token_are_shown_in_a_long_expression():
    with pytest.raises(InputError) as caught:
        evaluate(["[MAX", *"1234567890" * 20, "x", *"1234567890" * 20, "]"])
    shown = "... 9 0 1 2 3 4 5 6 7 8 9 0 x 1 2 3 4 5 6 7 8 9 0 1 ..."
    assert f"token 202, 'x', does not fit: {shown}\n" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        " [MAX  2 9 [MIN 4 7 ] 0 ]\n",
        "[MAX 2 9 [MIN 4 7] 0]",
        "[max 2 9[Min 4 7]0]",
        "[ MAX 2 9 [ MIN 4 7 ] 0 ]",
        "( ( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) 0 ) ] )",
        "((([MAX 2) 9) [MIN 4 7]) 0 ]",
    ],
)
def test_users_may_write_an_expression_in_many_ways(text):
    assert ListOps().tokenize(text) == ("[MAX", "2", "9", "[MIN", "4", "7", "]", "0", "]")


@pytest.mark.parametrize(
    ("text", "what", "advice"),
    [
        ("[MUX 1 2]", "token 1, '[MUX', does not fit: [MUX 1 2 ]", "Did you mean '[MAX'?"),
        ("[MIM 1 2]", "token 1, '[MIM'", "Did you mean '[MIN'?"),
        ("(MED 1 2)", "token 1, 'MED'", "Did you mean '[MED'?"),
        ("[MAX 1 29 ]", "token 3, '29'", "Numbers have one digit each, as in '2 9'."),
        ("[MAX 1 [MIN ] ]", "token 4, ']'", "The list '[MIN ]' is empty."),
        ("[MAX 1 ] ]", "token 4, ']'", "There is no list that it could close."),
        ("[MAX 1 2", "this is not one whole expression", "']' is missing"),
        (" ( ) ", "this is not one whole expression", "It is empty."),
    ],
)
def test_a_users_mistake_comes_with_advice(text, what, advice):
    with pytest.raises(InputError) as caught:
        ListOps().tokenize(text)
    first, _, second = str(caught.value).partition("\n  ")
    assert first.startswith(what)
    assert advice in second


def test_parentheses_are_those_of_the_published_files():
    assert bracketed(["[SM", "7", "5", "]"]) == "( ( ( [SM 7 ) 5 ) ] )"
    nested = "( ( ( ( [MAX 2 ) ( ( ( [MIN 4 ) 7 ) ] ) ) 0 ) ] )"
    assert bracketed(["[MAX", "2", "[MIN", "4", "7", "]", "0", "]"]) == nested
    assert bracketed(["7"]) == "7"


@given(TREES)
def test_parentheses_join_two_parts_each_and_are_left_out_in_reading(tree):
    text = bracketed(written(tree))
    assert list(tokenize(text)) == written(tree)
    assert text.split().count("(") == text.split().count(")") == len(written(tree)) - 1


# What the recipe makes.


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


def test_every_class_is_asked_for(rows):
    labels = Counter(example.label for example in rows)
    assert set(labels) == set(range(10))
    assert min(labels.values()) > 100


def test_no_expression_comes_twice_and_none_is_a_single_digit(rows):
    assert len({example.sequences for example in rows}) == len(rows)
    assert min(len(example.sequences[0]) for example in rows) >= 4


def test_limits_are_kept():
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


def test_expressions_that_grow_beyond_the_limit_are_given_up_early():
    # Each operator has more than two operators among its arguments: whole trees would have millions of tokens.
    task = ListOps(max_tokens=30, test_max_tokens=30, operator_probability=0.6)
    assert all(len(example.sequences[0]) <= 30 for example in islice(task.examples("train", 0), 20))


def test_long_ranges_are_made_at_once_and_rightly():
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


def test_a_range_of_lengths_is_made_as_the_recipe_would_have_made_it():
    # The slow twin waits until expressions of the range turn up.
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


def test_a_range_in_which_there_is_nothing_is_an_error():
    task = ListOps(min_tokens=200, max_tokens=300, max_depth=2)
    with pytest.raises(CrvnnError, match=r"no ListOps expression has 200 to 300 tokens .* max_depth = 2"):
        next(task.examples("train", 0))


def test_operators_too_rare_to_be_met_are_an_error(monkeypatch):
    monkeypatch.setattr("crvnn_tasks.listops.recipe._ATTEMPTS", 100)
    with pytest.raises(
        CrvnnError, match=r"100 attempts .* for 'dev'; operator_probability = 1e-12 may be too"
    ):
        next(ListOps(operator_probability=1e-12).examples("dev", 0))


# Splits and epochs.


def test_splits_have_nothing_in_common():
    task = ListOps(max_tokens=15, test_max_tokens=15, rows=2000, held_out=300)
    seen = {split: {e.sequences[0] for e in task.examples(split, seed=1)} for split in task.splits}
    assert {split: len(sequences) for split, sequences in seen.items()} == {
        "train": 2000,
        "dev": 300,
        "test": 300,
    }
    assert seen["train"].isdisjoint(seen["dev"] | seen["test"])
    assert seen["dev"].isdisjoint(seen["test"])
    for split, sequences in seen.items():
        assert all(split_of(tokens) == split for tokens in sequences)


def test_splits_stay_apart_whatever_the_seed_and_the_epoch():
    task = ListOps(max_tokens=8, rows=2000, held_out=100)
    train = {e.sequences[0] for seed in (1, 2) for number in (0, 1) for e in task.epoch(seed, number)}
    for seed in (1, 2):
        assert train.isdisjoint(e.sequences[0] for e in task.examples("dev", seed))


def test_the_seed_alone_decides_what_comes():
    def some(split, seed):
        return list(islice(ListOps().examples(split, seed), 50))

    for split in ("train", "dev", "test"):
        assert some(split, 3) == some(split, 3)
        assert some(split, 3) != some(split, 4)


def test_another_process_makes_the_same_expressions(tmp_path):
    settings = "test_min_tokens=60, test_max_tokens=90"
    code = (
        "from itertools import islice\nfrom crvnn_tasks.listops.task import ListOps\n"
        f"task = ListOps({settings})\n"
        "for split in task.splits:\n"
        "    for e in islice(task.examples(split, 2), 30): print(*e.sequences[0], e.label)"
    )
    got = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    task = ListOps(test_min_tokens=60, test_max_tokens=90)
    here = [e for split in task.splits for e in islice(task.examples(split, 2), 30)]
    assert got.splitlines() == [" ".join([*e.sequences[0], str(e.label)]) for e in here]


def test_every_epoch_has_new_expressions():
    task = ListOps(rows=500, min_tokens=20)
    epochs = [list(task.epoch(0, number)) for number in range(3)]
    assert [len(epoch) for epoch in epochs] == [500] * 3
    assert len({example.sequences for epoch in epochs for example in epoch}) == 1500
    assert list(ListOps(rows=500, min_tokens=20).epoch(0, 2)) == epochs[2]
    assert list(task.epoch(1, 0)) != epochs[0]


def test_every_epoch_has_the_same_expressions_in_another_order_if_wanted():
    task = ListOps(rows=500, fresh=False)
    first, second = list(task.epoch(0, 0)), list(task.epoch(0, 1))
    assert first != second
    assert Counter(first) == Counter(second) == Counter(task.examples("train", 0))


@pytest.mark.parametrize("fresh", [True, False])
def test_expressions_grow_from_epoch_to_epoch(fresh):
    task = ListOps(rows=400, fresh=fresh, growing=[8, 15], max_tokens=40)
    longest = [max(len(e.sequences[0]) for e in task.epoch(0, number)) for number in range(3)]
    assert longest[0] <= 8 < longest[1] <= 15 < longest[2] <= 40
    assert max(len(e.sequences[0]) for e in task.examples("train", 0)) > 15
    assert len(list(task.epoch(0, 0))) == 400 if fresh else len(list(task.epoch(0, 0))) < 400


def test_when_all_have_been_seen_training_repeats_them_and_held_out_splits_end(monkeypatch):
    monkeypatch.setattr("crvnn_tasks.listops.recipe._ATTEMPTS", 20_000)
    tiny = ListOps(max_tokens=4, test_max_tokens=4, rows=1000)
    every = [(f"[{name}", one, two, "]") for name in NAMES for one in "0123456789" for two in "0123456789"]
    for split in ("dev", "test"):
        assert sorted(e.sequences[0] for e in tiny.examples(split, 0)) == sorted(
            tokens for tokens in every if split_of(tokens) == split
        )
    train = [e.sequences[0] for e in tiny.examples("train", 0)]
    expected = {tokens for tokens in every if split_of(tokens) == "train"}
    assert set(train[: len(expected)]) == set(train) == expected
    assert len(train) == 1000


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"rows": 0}, "rows and held_out must be at least 1, not 0"),
        ({"held_out": 0}, "held_out must be at least 1"),
        ({"max_tokens": 3}, "^max_tokens must be 0, or at least 4"),
        ({"max_tokens": -1}, "^max_tokens must be 0, or at least 4"),
        ({"min_tokens": 101}, r"^min_tokens must be 0, or at most max_tokens \(100\), not 101"),
        ({"min_tokens": -1}, "^min_tokens"),
        ({"test_max_tokens": 3}, "^test_max_tokens must be 0, or at least 4"),
        ({"test_min_tokens": 300, "test_max_tokens": 200}, "^test_min_tokens must be"),
        ({"max_arguments": 10}, "^test_max_tokens must be given: with max_arguments = 10"),
        (
            {"max_arguments": 15, "max_depth": 500, "test_max_tokens": 9, "max_tokens": 0},
            "^max_tokens must be given",
        ),
        ({"growing": [3]}, "growing: 3 is not between"),
        ({"growing": [12, 200]}, "growing: 200 is not between"),
        ({"min_tokens": 20, "growing": [12]}, "growing: 12 is not between"),
        ({"max_depth": 1}, "max_depth must be at least 2"),
        ({"min_arguments": 1}, "min_arguments must be at least 2"),
        ({"max_arguments": 1}, "max_arguments must be at least min_arguments"),
        ({"operator_probability": 0.0}, "operator_probability must be between 0 and 1"),
        ({"operator_probability": 1.0}, "operator_probability must be between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ValueError, match=what):
        ListOps(**settings)


# Published files.


def file_of(path, examples):
    path.write_text("".join(f"{label}\t{text}\n" for label, text in examples))
    return path


@pytest.fixture
def directory(tmp_path):
    """Files in the published form: ten short rows, ten long ones, and so on in turn."""
    rows = [(7, f"( ( ( [MAX {number % 8} ) 7 ) ] )") for number in range(10)]
    rows += [(3, "( ( ( " + f"[MED {number} ) {'3 ' * 120}) ] )") for number in range(10)]
    file_of(tmp_path / "train_d20s.tsv", rows * 3)
    file_of(tmp_path / "test_d20s.tsv", rows[5:15])
    return tmp_path


def test_published_files_are_read_as_the_paper_has_it(directory):
    task = ListOps(str(directory), held_out=15)
    lengths = {split: [len(e.sequences[0]) for e in task.examples(split, 0)] for split in task.splits}
    assert lengths == {
        "train": [4] * 20,  # the rows after the first fifteen, without the long ones
        "dev": [4] * 10 + [123] * 5,
        "test": [4] * 5 + [123] * 5,
    }
    first = next(task.examples("dev", 0))
    assert first == Example((("[MAX", "0", "7", "]"),), 7)


def test_rows_of_files_belong_to_one_split_each(directory):
    task = ListOps(str(directory), held_out=15)
    lines = {split: [row.line for row in task.rows(split)] for split in task.splits}
    assert lines == {"train": list(range(16, 61)), "dev": list(range(1, 16)), "test": list(range(1, 11))}


def test_lengths_and_the_curriculum_hold_for_files_too(directory):
    task = ListOps(str(directory), held_out=5, max_tokens=0, test_min_tokens=100, growing=[50])
    assert Counter(len(e.sequences[0]) for e in task.examples("train", 0)) == {4: 25, 123: 30}
    assert Counter(len(e.sequences[0]) for e in task.epoch(0, 0)) == {4: 25}
    assert Counter(len(e.sequences[0]) for e in task.epoch(0, 1)) == {4: 25, 123: 30}
    assert Counter(len(e.sequences[0]) for e in task.examples("test", 0)) == {123: 5}


def test_files_may_be_packed_and_the_test_file_may_be_missing(directory):
    train = directory / "train_d20s.tsv"
    (directory / "train_d20s.tsv.gz").write_bytes(gzip.compress(train.read_bytes()))
    train.unlink()
    (directory / "test_d20s.tsv").unlink()
    task = ListOps(str(directory), held_out=15)
    assert tuple(task.splits) == ("train", "dev")
    assert len(list(task.examples("train", 0))) == 20


def test_a_task_is_built_without_its_files_and_misses_them_when_asked(tmp_path):
    task = ListOps(str(tmp_path / "nowhere"))
    assert tuple(task.splits) == ("train", "dev", "test")
    assert task.tokenize("[SM 1 2 ]") == ("[SM", "1", "2", "]")
    with pytest.raises(CrvnnError, match=r"train_d20s\.tsv[\s\S]*listops-release"):
        next(task.examples("train", 0))


def test_files_where_the_program_runs_do_not_change_what_is_made(directory, monkeypatch):
    monkeypatch.chdir(directory)
    (directory / "test_d20s.tsv").unlink()
    assert tuple(ListOps().splits) == ("train", "dev", "test")


@pytest.mark.parametrize(
    "text",
    [
        "7\t[MAX 1 7 ]\n2\t[MIN 2 3 ]\n",
        "Target\tSource\n7\t( ( ( [MAX 1 ) 7 ) ] )\n2\t( ( ( [MIN 2 ) 3 ) ] )\n",
        "Source\tTarget\n( ( ( [MAX 1 ) 7 ) ] )\t7\n( ( ( [MIN 2 ) 3 ) ] )\t2\n",
        "[MAX 1 7]\t7\r\n[min 2 3]\t2\r\n",
    ],
)
def test_columns_may_stand_in_either_order_and_have_names(tmp_path, text):
    (tmp_path / "mine.tsv").write_bytes(text.encode())
    examples = list(ListOps().read(tmp_path / "mine.tsv"))
    assert [(" ".join(e.sequences[0]), e.label) for e in examples] == [("[MAX 1 7 ]", 7), ("[MIN 2 3 ]", 2)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("7", "expected a label and an expression with a tab between them; found 1"),
        ("7\t[MAX 1 7 ]\tx", "expected a label and an expression with a tab between them; found 3"),
        ("", "expected a label and an expression with a tab between them; the line is empty"),
        ("x\t[MAX 1 7 ]", "neither column is a label, a digit from 0 to 9: 'x', '[MAX 1 7 ]'"),
        ("12\t[MAX 1 7 ]", "neither column is a label"),
        ("7\t", "this is not one whole expression:"),
        ("7\t[MAX 1 7", "'[MAX' is still open"),
        ("7\t[MAX 1 7 ] ]", "token 5, ']', does not fit"),
        ("7\t[MUX 1 7 ]", "token 1, '[MUX', does not fit"),
        ("6\t[MAX 1 7 ]", "the label is 6, but the value of the expression is 7"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path, line, fault):
    path = tmp_path / "mine.tsv"
    path.write_text(f"7\t[MAX 1 7 ]\n{line}\n2\t[MIN 2 3 ]\n")
    with pytest.raises(InputError) as caught:
        list(ListOps().read(path))
    assert str(caught.value).startswith(f"{path}:2: ")
    assert fault in str(caught.value).splitlines()[0]


def test_malformed_rows_are_skipped_and_counted_if_wanted(tmp_path, capsys):
    path = file_of(tmp_path / "mine.tsv", [(7, "[MAX 1 7 ]"), (1, "[MAX 1 7 ]"), (2, "[MIN 2 3 ]")])
    assert [e.label for e in ListOps(bad_rows="skip").read(path)] == [7, 2]
    assert "skipped 1 of 3 rows; the first is line 2: the label is 1, but" in capsys.readouterr().err


# What the framework asks for.


@pytest.mark.parametrize(
    ("length", "bucket"),
    [
        (1, "1-10"),
        (10, "1-10"),
        (11, "11-20"),
        (50, "21-50"),
        (100, "51-100"),
        (101, "101-200"),
        (300, "201-300"),
        (1000, "901-1000"),
        (1001, "1001+"),
        (5000, "1001+"),
    ],
)
def test_results_are_grouped_by_length(length, bucket):
    assert ListOps().bucket(Example((("1",) * length,), 1)) == bucket


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_tokens": 9, "test_max_tokens": 9}, {"min_tokens": 30, "fresh": False, "growing": [40]}],
)
def test_the_contract_of_tasks_is_kept(settings):
    outcomes = run_checks(Component("listops", ListOps, example=settings), CHECKS["task"])
    assert outcomes
    assert not [outcome for outcome in outcomes if not outcome.kept]
