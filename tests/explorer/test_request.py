"""Requests that the explorer refuses, and the reasons that it gives."""

from urllib.parse import quote

import pytest

from crvnn_explorer.models import MOST_TOKENS

BAD = {
    "an empty text": ({"texts": [" "]}, "the text is empty: type something"),
    "no text": ({"texts": []}, "asks for one text, not for 0"),
    "two texts for one": ({"texts": ["a", "b"]}, "asks for one text, not for 2"),
    "too many tokens": ({"texts": ["a " * (MOST_TOKENS + 1)]}, "has 201 tokens; the explorer takes up to 200"),
    "texts that are no list": ({"texts": "a"}, '"texts" must be a list'),
    "texts of numbers": ({"texts": [1]}, '"texts" must be a list of texts'),
    "an unknown run": ({"model": "lettres"}, "no run 'lettres' is explored here"),
    "no run": ({"model": None}, '"model" must be a name'),
    "an unknown part": ({"parts": {"decision": "sigmoit"}}, "Did you mean 'sigmoid'"),
    "a part with weights": ({"parts": {"cell": "lstm"}}, "'cell' cannot be exchanged"),
    "parts that are no table": ({"parts": ["sigmoid"]}, '"parts" must be a table'),
    "a part that is no name": ({"parts": {"decision": 3}}, "the name of a component"),
    "an unknown setting": ({"settings": {"decision": {"warmth": 1}}}, "no parameter 'warmth'"),
    "a value out of range": ({"settings": {"halting": {"epsilon": 2}}}, "must be at least 0 and below 1, not 2"),
    "a value of the wrong kind": ({"settings": {"encoder": {"max_steps": 1.5}}}, "must be an integer"),
    "none of the choices": ({"settings": {"decision": {"form": "😀"}}}, "'reference', not '😀'"),
    "endless steps": ({"settings": {"encoder": {"extra_steps": 10**9}}}, "may be 1,000,000,001 steps"),
    "a huge window": (
        {"parts": {"retriever": "windowed"}, "settings": {"retriever": {"k": 10**9}}},
        "retriever.k: the explorer takes whole numbers up to 400, not 1,000,000,000",
    ),
    "a setting that training has fixed": (
        {"parts": {"decision": "tempered"}, "settings": {"decision": {"start": 2.0}}},
        "'start' of decision 'tempered' cannot change after training; those that can: end, modulation",
    ),
    "a list for a value": ({"settings": {"encoder": {"max_steps": [1]}}}, "encoder.max_steps must be a number"),
    "settings that are no table": ({"settings": {"encoder": 3}}, '"encoder" must be a table'),
    "a setting of the task": ({"settings": {"task": {"rows": 3}}}, "cannot change under trained weights"),
    "hard that is no truth value": ({"hard": "yes"}, '"hard" true or false'),
    "an unknown key": ({"colour": 1}, "nothing is called 'colour' here"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_request_is_refused_with_a_reason(ask, letters, name):
    change, message = BAD[name]
    status, found = ask("/api/inspect", {"model": letters, "texts": ["a b"], **change})
    assert status == 400
    assert message in found["error"]
    assert "Traceback" not in found["error"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[1]",
        '"a"',
        '{"texts": NaN}',
        "[" * 5000,
        b"\xff\xfe",
        '{"model": "\\ud800", "texts": ["a"]}',
    ],
)
def test_what_is_not_json_is_refused(ask, body):
    status, found = ask("/api/inspect", body)
    assert status == 400
    assert "JSON" in found["error"]


def test_the_missing_text_of_a_pair_is_named(ask, pairs_run):
    status, found = ask("/api/inspect", {"model": str(pairs_run), "texts": ["a", ""]})
    assert status == 400
    assert found["error"].startswith("the second text is empty")


def test_hard_inference_is_refused_where_the_encoder_has_none(ask, explorer):
    status, found = ask("/api/inspect", {"model": list(explorer.runs)[2], "texts": ["a"], "hard": True})
    assert status == 400
    assert "offers no hard inference" in found["error"]


@pytest.mark.parametrize(
    ("sequence", "step"), [(1, 0), (-1, 0), (0, 99), (0, -1), (0, True), ("a", 0), (0, None)]
)
def test_steps_out_of_range_are_refused(ask, letters, sequence, step):
    question = {"model": letters, "texts": ["a b"], "sequence": sequence, "step": step}
    assert ask("/api/neighbours", question)[0] == 400


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 12, "²"])
def test_the_index_of_an_example_must_be_a_whole_number(ask, letters, number):
    assert ask(f"/api/example?model={letters}&number={quote(number)}")[0] == 400
