"""Requests that the explorer refuses, and the reasons that it gives."""

import json

import pytest

from crvnn_explorer.models import MOST_TOKENS

BAD = {
    "an empty text": ({"texts": [" "]}, "the text is empty: type something"),
    "no text": ({"texts": []}, "asks for one text, not for 0"),
    "two texts for one": ({"texts": ["a", "b"]}, "asks for one text, not for 2"),
    "too many tokens": ({"texts": ["a " * (MOST_TOKENS + 1)]}, "has 201 tokens; the explorer takes up to 200"),
    "an unknown run": ({"model": "lettres"}, "no run 'lettres' is explored here"),
    "an unknown part": ({"parts": {"decision": "sigmoit"}}, "Did you mean 'sigmoid'"),
    "a part with weights": ({"parts": {"cell": "lstm"}}, "'cell' cannot be exchanged"),
    "an unknown setting": ({"settings": {"decision": {"warmth": 1}}}, "no parameter 'warmth'"),
    "a value out of range": ({"settings": {"halting": {"epsilon": 2}}}, "must be at least 0 and below 1, not 2"),
    "a value of the wrong kind": ({"settings": {"encoder": {"max_steps": 1.5}}}, "must be an integer"),
    "none of the choices": ({"settings": {"decision": {"form": "😀"}}}, "'reference', not '😀'"),
    "endless steps": ({"settings": {"encoder": {"extra_steps": 10**9}}}, "may be 1,000,000,001 steps"),
    "a huge window": (
        {"parts": {"retriever": "windowed"}, "settings": {"retriever": {"k": 10**9}}},
        "retriever.k: the explorer takes integers up to 400, not 1,000,000,000",
    ),
    "a setting that training has fixed": (
        {"parts": {"decision": "tempered"}, "settings": {"decision": {"start": 2.0}}},
        "'start' of decision 'tempered' cannot change after training; those that can: end, modulation",
    ),
    "a setting of the task": ({"settings": {"task": {"rows": 3}}}, "cannot change under trained weights"),
    "texts of numbers": ({"texts": [1]}, "'texts' must be <class 'str'>"),
    "no run": ({"model": None}, "'model' must be <class 'str'>"),
    "parts that are no table": ({"parts": ["sigmoid"]}, "this is not a question as the page sends it"),
    "a part that is no name": ({"parts": {"decision": 3}}, "'parts' must be <class 'str'>"),
    "a list for a value": ({"settings": {"encoder": {"max_steps": [1]}}}, "'settings' must be"),
    "hard that is no truth value": ({"hard": "yes"}, "'hard' must be <class 'bool'>"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_request_is_refused_with_a_reason(ask, letters, name):
    change, message = BAD[name]
    status, found = ask("/api/inspect", {"model": letters, "texts": ["a b"], **change})
    assert status == 400
    assert message in found["error"]


@pytest.mark.parametrize("body", ["", "{", "[1]", "[" * 5000, b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(ask, body):
    status, found = ask("/api/inspect", body)
    assert status == 400
    assert "JSON" in found["error"]


def test_half_a_character_is_an_unknown_token(ask, letters):
    status, found = ask("/api/inspect", json.dumps({"model": letters, "texts": ["a \ud800"]}))
    assert status == 200
    assert found["sequences"][0]["tokens"] == ["a", "\ud800"]


def test_the_missing_text_of_a_pair_is_named(ask, pairs_run):
    status, found = ask("/api/inspect", {"model": str(pairs_run), "texts": ["a", ""]})
    assert status == 400
    assert found["error"].startswith("the second text is empty")


@pytest.mark.parametrize(("place", "status"), [("1/0", 400), ("0/99", 400), ("0/-1", 404), ("a/0", 404)])
def test_steps_out_of_range_are_refused(ask, letters, place, status):
    assert ask(f"/api/neighbours/{place}", {"model": letters, "texts": ["a b"]})[0] == status
