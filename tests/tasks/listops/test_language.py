"""ListOps: values of expressions, their tokens and parentheses, and errors in them."""

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
