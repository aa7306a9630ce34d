"""ListOps: values of expressions, their tokens and parentheses, and errors in them."""

import re

import pytest
from hypothesis import given

from crvnn_core import InputError
from crvnn_tasks.listops.language import bracketed, tokenize
from crvnn_tasks.listops.task import ListOps, evaluate
from listops_reference import TREES, answer, written


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


UNFIT = "token {}, '{}', does not fit: {}\n  {}"
PART = "this is not one whole expression: {}\n  {}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[MUX 1 2]",
            UNFIT.format(
                1,
                "[MUX",
                "[MUX 1 2 ]",
                "The tokens are [MIN [MAX [MED [SM ] and the digits. Did you mean '[MAX'?",
            ),
        ),
        ("[MAX 1 two ]", UNFIT.format(3, "TWO", "[MAX 1 TWO ]", "The tokens are [MIN [MAX [MED [SM ]")),
        ("[MAX 1 29 ]", UNFIT.format(3, "29", "[MAX 1 29 ]", "Numbers have one digit each, as in '2 9'.")),
        ("[MAX 1 [MIN ] ]", UNFIT.format(4, "]", "[MAX 1 [MIN ] ]", "The list '[MIN ]' is empty.")),
        ("[MAX 1 2 ] ]", UNFIT.format(5, "]", "[MAX 1 2 ] ]", "There is no list that it could close.")),
        ("]", UNFIT.format(1, "]", "]", "There is no list that it could close.")),
        (" ( ) ", PART.format("", "It is empty.")),
        ("1 2", PART.format("1 2", "There are 2 of them.")),
        ("[MAX 1 2 ] 3", PART.format("[MAX 1 2 ] 3", "There are 2 of them.")),
        ("[MAX 1 2", PART.format("[MAX 1 2", "'[MAX' is still open: ']' is missing at the end.")),
        ("[MAX 1 [MIN 2", PART.format("[MAX 1 [MIN 2", "'[MIN' is still open: '] ]' is missing at the end.")),
    ],
)
def test_a_users_mistake_is_named_with_its_place_and_advice(text, message):
    with pytest.raises(InputError) as caught:
        ListOps().tokenize(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("text", "meant"), [("[MIM 1 2]", "[MIN"), ("(MED 1 2)", "[MED")])
def test_the_nearest_operator_is_named(text, meant):
    with pytest.raises(InputError, match=re.escape(f"Did you mean '{meant}'?")):
        ListOps().tokenize(text)


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
