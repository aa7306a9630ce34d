"""Fuzzing of the explorer's HTTP interface: every request gets an answer, none of them a fault of the server."""

import json
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crvnn_explorer.models import Explorer
from exploring import asking, serving
from fuzzing import as_bytes, contents, many, texts, trees_of_values
from malformed_requests import MALFORMED, connected, send
from malformed_requests import answer as received

pytestmark = pytest.mark.fuzz

#: Answers to what is well or badly formed, too long, unknown, too much at once; 500 would be a bug.
ANSWERS = {200, 400, 403, 404, 405, 411, 413, 415, 431, 503}
_KEYS = [
    "model",
    "texts",
    "parts",
    "settings",
    "hard",
    "decision",
    "halting",
    "encoder",
    "retriever",
    "k",
    "form",
]
_JSON = trees_of_values(_KEYS)
_PARTS = st.dictionaries(
    st.sampled_from(_KEYS[5:]), _JSON | st.sampled_from(["sigmoid", "windowed"]), max_size=3
)


@pytest.fixture(scope="module")
def run(letters_run):
    """The name that the run has in the explorer."""
    return str(letters_run)


@pytest.fixture(scope="module")
def port(run, small_catalog):
    """The port of an explorer of the run."""
    with serving(Explorer.load([run], small_catalog)) as port:
        yield port


def check(found):
    """An answer that is no fault of the server, with a reason where the request is refused."""
    status, body = found
    assert status in ANSWERS, found
    if status != 200 and isinstance(body, dict):
        assert body["error"]
        assert "Traceback" not in body["error"]


@pytest.mark.parametrize("path", ["/api/inspect", "/api/neighbours"])
@many(4)
@given(
    change=st.one_of(
        st.fixed_dictionaries({}, optional=dict.fromkeys(_KEYS[:5], _JSON)),
        st.fixed_dictionaries({"texts": st.lists(texts, max_size=2)}),
        st.fixed_dictionaries(
            {"parts": _PARTS, "settings": st.dictionaries(st.sampled_from(_KEYS[5:]), _PARTS)}
        ),
        st.dictionaries(st.text(max_size=5), _JSON, max_size=2),
    )
)
def test_questions(port, run, path, change):
    question = {"model": run, "texts": ["a b c"], **change}
    check(asking(port)(path, json.dumps(question), {"Content-Type": "application/json"}))


@pytest.mark.parametrize("path", ["/api/inspect", "/api/neighbours"])
@many(4)
@given(body=st.one_of(contents, _JSON.map(json.dumps).map(as_bytes)))
@example(body=b"[" * 5000)
def test_bodies(port, path, body):
    check(asking(port)(path, body, {"Content-Type": "application/json"}))


@many(4)
@given(path=texts, query=st.dictionaries(st.sampled_from(["model", "number", "a"]), texts, max_size=3))
def test_addresses(port, path, query):
    said = "&".join(f"{name}={quote(as_bytes(value))[:2000]}" for name, value in query.items())
    for place in ("/", "/static/", "/api/", "/api/example?", f"/api/example?{said}&x="):
        check(asking(port)(place + quote(as_bytes(path))[:2000]))


@many(4)
@given(
    start=st.sampled_from([*MALFORMED, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"]),
    rest=contents,
    where=st.floats(0, 1),
)
def test_bytes(port, start, rest, where):
    place = int(where * len(start))
    send(port, start[:place] + rest + start[place:])
    with connected(port) as client:
        client.sendall(b"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert received(client).startswith(b"HTTP/1.1 200 ")
