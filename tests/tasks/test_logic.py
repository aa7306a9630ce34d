"""Propositional inference: relations against sets of worlds, pairs as the published recipe makes them, and files."""

import gzip
import re
import subprocess
import sys
from collections import Counter
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Component, CrvnnError, Example, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_tasks.logic.language import (
    EVERYWHERE,
    RELATIONS,
    check_sentence,
    operations,
    pairs,
    relation,
    tokenize,
    worlds,
)
from crvnn_tasks.logic.task import Logic

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


# What sentences mean.


@given(TREES, TREES)
def test_relations_agree_with_sets_of_worlds(left, right):
    one, two = (worlds(written(tree).split()) for tree in (left, right))
    assert relation(one, two) == related(left, right)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "a", "="),
        ("( not ( not a ) )", "a", "="),
        ("( a ( and b ) )", "a", "<"),
        ("a", "( a ( or b ) )", "<"),
        ("a", "( a ( and b ) )", ">"),
        ("( not a )", "a", "^"),
        ("( a ( and b ) )", "( not a )", "|"),
        ("( a ( or b ) )", "( not a )", "v"),
        ("a", "b", "#"),
        ("( a ( or b ) )", "( not ( a ( and c ) ) )", "v"),
    ],
)
def test_known_relations(left, right, expected):
    assert relation(worlds(left.split()), worlds(right.split())) == expected


def test_sentences_are_true_where_they_should_be():
    assert worlds(tokenize("(a (or (not a)))")) == EVERYWHERE
    assert worlds(tokenize("(a (and (not a)))")) == 0
    assert [worlds([name]).bit_count() for name in VARIABLES] == [32] * 6
    assert worlds(tokenize("(a (and (b (and (c (and (d (and (e (and f))))))))))")).bit_count() == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g",
        "a b",
        "( a )",
        "( a and b )",
        "( a ( and b )",
        "( not a",
        "( not a b",
        "( a ( nor b ) )",
        "(",
        ")",
    ],
)
def test_what_is_no_sentence_has_no_worlds(text):
    with pytest.raises(InputError, match="this is not a sentence"):
        worlds(text.split())


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        ("a", "b", 0),
        ("( not a )", "b", 1),
        ("( not ( a ( and b ) ) )", "( not ( not ( not c ) ) )", 3),
        ("a", " ".join(["( not"] * 12 + ["a"] + [")"] * 12), 12),
        (" ".join(["( not"] * 19 + ["a"] + [")"] * 19), "a", 12),
    ],
)
def test_operations_are_those_of_the_longer_sentence_and_twelve_is_the_last_number(left, right, count):
    assert operations((left.split(), right.split())) == count
    assert Logic().bucket(Example((tuple(left.split()), tuple(right.split())), 0)) == str(count)


@pytest.mark.parametrize("text", ["(a(and(not b)))", " ( A ( AND ( not  b ) ) )\n", "( a ( and (not b)))"])
def test_users_need_no_spaces_around_parentheses(text):
    assert Logic().tokenize(text) == ("(", "a", "(", "and", "(", "not", "b", ")", ")", ")")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the sentence is empty"),
        ("( a ( nand b ) )", "token 4, 'nand', is unknown: ( a ( nand b ) )"),
        ("( a ( nand b ) )", "Did you mean 'and'?"),
        ("g", "The tokens are ( ) and or not a b c d e f."),
        ("( not a ) )", "token 5, ')', closes nothing: ( not a ) )"),
        (") not a (", "token 1, ')', closes nothing"),
        ("( not ( a )", "')' is missing at the end: ( not ( a )"),
        ("( a ( and ( not b", "') ) )' is missing at the end"),
        ("( not ( ) )", "token 4, ')', closes empty parentheses"),
    ],
)
def test_a_users_mistake_is_named_with_its_place(text, message):
    with pytest.raises(InputError) as caught:
        Logic().tokenize(text)
    assert message in str(caught.value)


# What the recipe makes.


@pytest.fixture(scope="module")
def made():
    return list(islice(pairs("0", lambda pair: True), 8000))


def test_made_labels_are_right_and_no_sentence_is_constant(made):
    for label, pair in made[::10]:
        left, right = (read(" ".join(sentence)) for sentence in pair)
        assert label == related(left, right)
        assert not constant(left)
        assert not constant(right)


def test_pairs_look_like_the_published_ones(made):
    # Shares that were counted in the published files, all of them together; a small set has more short pairs.
    labels = Counter(label for label, _ in made)
    published = {"=": 0.02, "<": 0.107, ">": 0.108, "^": 0.019, "|": 0.104, "v": 0.105, "#": 0.537}
    for label, share in published.items():
        assert labels[label] / len(made) == pytest.approx(share, abs=0.025)
    lengths = Counter(operations(pair) for _, pair in made)
    assert set(lengths) == set(range(13))
    assert max(lengths, key=lambda number: lengths[number] if number > 2 else 0) in (4, 5, 6)
    used = [set(pair[0] + pair[1]) & set(VARIABLES) for _, pair in made]
    assert max(map(len, used)) == 4
    assert set().union(*used) == set(VARIABLES)
    tokens = Counter(token for _, pair in made for sentence in pair for token in sentence)
    joined = tokens["and"] + tokens["or"]
    assert tokens["and"] / joined == pytest.approx(0.5, abs=0.03)
    parts = joined + sum(tokens[name] for name in VARIABLES)
    assert tokens["not"] / parts == pytest.approx(1 / 3, abs=0.02)


def test_sentences_are_written_like_the_published_ones(made):
    for _, pair in made:
        for sentence in pair:
            text = " ".join(sentence)
            assert written(read(text)) == text
            assert "( not ( not" not in text


def test_no_pair_comes_twice(made):
    assert len({pair for _, pair in made}) == len(made)


def test_there_are_as_many_pairs_of_two_variables_as_there_can_be(monkeypatch):
    monkeypatch.setattr("crvnn_tasks.logic.language._ATTEMPTS", 20_000)
    assert len(list(pairs("0", lambda pair: operations(pair) == 0))) == 36
    with pytest.raises(CrvnnError, match="20,000 attempts gave no pair"):
        next(pairs("0", lambda pair: False))


# Splits.

SETTINGS = {"rows": 1500, "held_out": 120}


@pytest.mark.parametrize("setting", ["length", "A", "B", "C"])
def test_splits_are_of_the_size_asked_for_and_have_nothing_in_common(setting):
    task = Logic(setting=setting, **SETTINGS)
    seen = {split: {e.sequences for e in task.examples(split, 1)} for split in task.splits}
    assert {split: len(found) for split, found in seen.items()} == {"train": 1500, "dev": 120, "test": 120}
    assert len(set().union(*seen.values())) == 1740
    other = {e.sequences for e in task.examples("train", 2)}
    assert other != seen["train"]
    assert other.isdisjoint(seen["dev"] | seen["test"])


def test_length_is_tested_on_more_operations_than_were_trained_on():
    task = Logic(**SETTINGS)
    for split in ("train", "dev"):
        assert {operations(e.sequences) for e in task.examples(split, 0)} <= set(range(7))
    assert Counter(task.bucket(e) for e in task.examples("test", 0)) == {str(n): 20 for n in range(7, 13)}
    shorter = Logic(train_operations=3, rows=1500, held_out=100)
    assert {operations(e.sequences) for e in shorter.examples("train", 0)} <= {0, 1, 2, 3}
    tested = Counter(task.bucket(e) for e in shorter.examples("test", 0))
    assert sorted(tested, key=int) == [str(n) for n in range(4, 13)]
    assert sum(tested.values()) == 100
    assert set(tested.values()) == {11, 12}


PATTERNS = {
    "A": lambda text: "( and ( not a ) )" in text,
    "B": lambda text: "( and ( not " in text,
    "C": lambda text: "( and ( not " in text or "( or ( not " in text,
}


@pytest.mark.parametrize("setting", ["A", "B", "C"])
def test_systematicity_is_tested_on_what_training_never_sees(setting):
    task = Logic(setting=setting, **SETTINGS)
    for split in task.splits:
        for example in task.examples(split, 0):
            found = any(PATTERNS[setting](" ".join(sentence)) for sentence in example.sequences)
            assert found == (split == "test")
            assert operations(example.sequences) <= 6


def test_a_tenth_is_for_development():
    task = Logic()
    splits = Counter(task.split_of(pair) for _, pair in islice(pairs("1", lambda pair: True), 6000))
    assert splits["dev"] / (splits["dev"] + splits["train"]) == pytest.approx(0.1, abs=0.015)


def test_epochs_are_shuffled_or_new():
    task = Logic(rows=300)
    first, second = list(task.epoch(0, 0)), list(task.epoch(0, 1))
    assert first != second
    assert Counter(first) == Counter(second) == Counter(task.examples("train", 0))
    fresh = Logic(rows=300, fresh=True)
    first, second = list(fresh.epoch(0, 0)), list(fresh.epoch(0, 1))
    assert len(first) == len(second) == 300
    assert len({*first, *second}) > 500
    assert list(Logic(rows=300, fresh=True).epoch(0, 1)) == second


def test_another_process_makes_the_same_pairs(tmp_path):
    code = (
        "from itertools import islice\nfrom crvnn_tasks.logic.task import Logic\n"
        "for e in islice(Logic().examples('test', 2), 30): print(*e.sequences[0], '/', *e.sequences[1], e.label)"
    )
    got = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    here = islice(Logic().examples("test", 2), 30)
    assert got.splitlines() == [
        f"{' '.join(e.sequences[0])} / {' '.join(e.sequences[1])} {e.label}" for e in here
    ]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"train_operations": 0}, "train_operations must be between 1 and 11, not 0"),
        ({"train_operations": 12}, "train_operations must be between 1 and 11, not 12"),
        ({"train_operations": 13, "setting": "A"}, "train_operations must be between 1 and 12, not 13"),
        ({"rows": 0}, "rows and held_out must be at least 1"),
        ({"held_out": 0}, "rows and held_out must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, what):
    with pytest.raises(ValueError, match=what):
        Logic(**settings)


# Published files.


def publish(directory, kind, number, count=40, packed=False):
    """A file in the published form, and its rows."""
    found = islice(pairs(f"{kind} {number}", lambda pair: operations(pair) == number), count)
    rows = [f"{label}\t{' '.join(left)}\t{' '.join(right)}\n" for label, (left, right) in found]
    text = "".join(rows).encode()
    name = f"{kind}{number}.gz" if packed else f"{kind}{number}"
    (directory / name).write_bytes(gzip.compress(text) if packed else text)
    return rows


def as_rows(examples):
    return [
        f"{RELATIONS[e.label]}\t{' '.join(e.sequences[0])}\t{' '.join(e.sequences[1])}\n" for e in examples
    ]


@pytest.fixture
def directory(tmp_path):
    for number in range(13):
        publish(tmp_path, "train", number, count=30, packed=number % 2 == 1)
    return tmp_path


def test_published_files_are_read_whole(directory):
    task = Logic(str(directory))
    assert tuple(task.splits) == ("train", "dev", "test")
    found = {split: as_rows(task.examples(split, 0)) for split in task.splits}
    texts = {
        number: (directory / f"train{number}").read_text()
        if number % 2 == 0
        else gzip.decompress((directory / f"train{number}.gz").read_bytes()).decode()
        for number in range(13)
    }
    short = [row for number in range(7) for row in texts[number].splitlines(keepends=True)]
    assert sorted(found["train"] + found["dev"]) == sorted(short)
    assert 8 <= len(found["dev"]) <= 35
    assert found["test"] == [row for n in range(7, 13) for row in texts[n].splitlines(keepends=True)]


def test_development_rows_do_not_depend_on_their_order(directory):
    before = set(as_rows(Logic(str(directory)).examples("dev", 0)))
    path = directory / "train4"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert set(as_rows(Logic(str(directory)).examples("dev", 0))) == before


def test_test_files_come_before_training_files_that_were_not_trained_on(directory):
    rows = publish(directory, "test", 9, count=5)
    tested = as_rows(Logic(str(directory)).examples("test", 0))
    assert [row for row in tested if operations([part.split() for part in row.split("\t")]) == 9] == rows
    assert len(tested) == 5 * 30 + 5


@pytest.mark.parametrize("setting", ["length", "A", "B", "C"])
def test_every_row_of_the_files_is_in_one_split(directory, setting):
    task = Logic(str(directory), setting=setting)
    rows = Counter((row.file.name, row.line) for split in task.splits for row in task.rows(split))
    assert set(rows.values()) == {1}
    assert len(rows) == (13 if setting == "length" else 7) * 30
    for split in task.splits:
        assert [row.example for row in task.rows(split)] == list(task.examples(split, 0))


@pytest.mark.parametrize("setting", ["A", "B", "C"])
def test_rows_with_the_pattern_are_the_test_split(directory, setting):
    task = Logic(str(directory), setting=setting)
    for split in task.splits:
        rows = as_rows(task.examples(split, 0))
        assert rows
        assert {PATTERNS[setting](row) for row in rows} == {split == "test"}


def test_without_the_longer_files_there_is_no_test_split(directory):
    (directory / "train12").unlink()
    assert tuple(Logic(str(directory)).splits) == ("train", "dev")
    assert tuple(Logic(str(directory), setting="C").splits) == ("train", "dev", "test")


def test_a_task_is_built_without_its_files_and_misses_them_when_asked(tmp_path):
    task = Logic(str(tmp_path / "nowhere"))
    assert tuple(task.splits) == ("train", "dev", "test")
    with pytest.raises(CrvnnError, match=r"train0[\s\S]*Ordered-Neurons"):
        next(task.examples("train", 0))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("=\ta", "expected a relation and two sentences with tabs between them; found 2"),
        ("=\ta\ta\ta", "expected a relation and two sentences with tabs between them; found 4"),
        ("", "expected a relation and two sentences with tabs between them; the line is empty"),
        ("~\ta\ta", "'~' is no relation; the relations are = < > ^ | v #"),
        ("=\ta\t( not a", "')' is missing at the end: ( not a"),
        ("=\t( not a ) )\ta", "token 5, ')', closes nothing"),
        ("=\ta\t( not x )", "token 3, 'x', is unknown"),
        ("=\t\ta", "the sentence is empty"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path, line, fault):
    path = tmp_path / "mine"
    path.write_text(f"#\ta\tb\n{line}\n=\ta\ta\n")
    with pytest.raises(InputError) as caught:
        list(Logic().read(path))
    assert str(caught.value).startswith(f"{path}:2: {fault}")
    assert len(list(Logic(bad_rows="skip").read(path))) == 2


def test_malformed_rows_are_counted_in_training(directory):
    with (directory / "train0").open("a") as file:
        file.write("=\ta\n")
    task = Logic(str(directory), bad_rows="skip")
    assert [len([row for row in task.rows(split) if row.fault]) for split in task.splits] == [1, 0, 0]


def test_the_relation_in_a_file_is_believed(tmp_path):
    (tmp_path / "mine").write_text("#\ta\ta\n")
    assert next(Logic().read(tmp_path / "mine")) == Example((("a",), ("a",)), RELATIONS.index("#"))


@pytest.mark.parametrize("setting", ["length", "A", "B", "C"])
def test_the_contract_of_tasks_is_kept(setting):
    component = Component("logic", Logic, example={"setting": setting, "train_operations": 5})
    outcomes = run_checks(component, CHECKS["task"])
    assert outcomes
    assert not [outcome for outcome in outcomes if not outcome.kept]


def test_the_contract_is_kept_with_files(directory):
    outcomes = run_checks(Component("logic", Logic, example={"directory": str(directory)}), CHECKS["task"])
    assert not [outcome for outcome in outcomes if not outcome.kept]


@given(TREES)
def test_sentences_of_the_language_are_accepted(tree):
    tokens = tokenize(written(tree))
    check_sentence(tokens)
    assert " ".join(tokens) == written(tree)
