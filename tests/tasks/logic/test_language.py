"""Propositional inference: relations of sentences, their tokens, and pairs as the published recipe generates them."""

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given

from crvnn_core import CrvnnError, Example, InputError
from crvnn_tasks.logic.language import (
    EVERYWHERE,
    check_sentence,
    operations,
    pairs,
    relation,
    tokenize,
    worlds,
)
from crvnn_tasks.logic.task import Logic
from logic_reference import TREES, VARIABLES, constant, read, related, written


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
def test_what_is_not_a_sentence_is_an_error(text):
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
def test_operations_are_those_of_the_longer_sentence_and_twelve_at_most(left, right, count):
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


@given(TREES)
def test_sentences_of_the_language_are_accepted(tree):
    tokens = tokenize(written(tree))
    check_sentence(tokens)
    assert " ".join(tokens) == written(tree)


@pytest.fixture(scope="module")
def made():
    return list(islice(pairs("0", lambda pair: True), 8000))


def test_generated_pairs_are_right_written_as_published_and_never_repeated(made):
    assert len({pair for _, pair in made}) == len(made)
    for _, pair in made:
        for sentence in pair:
            text = " ".join(sentence)
            assert written(read(text)) == text
            assert "( not ( not" not in text
    for label, pair in made[::10]:
        left, right = (read(" ".join(sentence)) for sentence in pair)
        assert label == related(left, right)
        assert not constant(left)
        assert not constant(right)


def test_pairs_have_the_statistics_of_the_published_ones(made):
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


def test_every_pair_of_single_variables_is_generated(monkeypatch):
    monkeypatch.setattr("crvnn_tasks.logic.language._ATTEMPTS", 20_000)
    assert len(list(pairs("0", lambda pair: operations(pair) == 0))) == 36
    with pytest.raises(CrvnnError, match="20,000 attempts gave no pair"):
        next(pairs("0", lambda pair: False))
