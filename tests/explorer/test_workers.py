"""Small requests beside heavy ones, requests that nobody waits for, and limits on number and time."""

import itertools
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from crvnn_explorer import server, workers
from exploring import asking, serving

HEAVY_TOKENS = 40
fresh = itertools.count()


@pytest.fixture
def heavy(letters):
    """Makes questions that have not been asked before, are estimated to be heavy, and wait at the gate."""

    def question():
        text = "c " * (HEAVY_TOKENS - 1) + str(next(fresh))
        return {"model": letters, "texts": [text], "parts": {"halting": "mine"}}

    return question


def until(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_small_requests_are_answered_while_ten_heavy_ones_wait(ask, heavy, letters, gated):
    with ThreadPoolExecutor(10) as pool:
        answers = [pool.submit(ask, "/api/inspect", heavy()) for _ in range(10)]
        for number in range(5):
            assert ask("/api/inspect", {"model": letters, "texts": [f"a b {'c ' * number}"]})[0] == 200
        assert ask("/api/models")[0] == 200
        assert not any(answer.done() for answer in answers)
        gated.gate.set()
        assert [answer.result()[0] for answer in answers] == [200] * 10
    assert gated.steps == 10 * (HEAVY_TOKENS - 1)


def test_what_nobody_waits_for_is_not_begun(port, ask, heavy, gated):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asking(port), "/api/inspect", heavy())
        until(lambda: gated.steps)
        body = json.dumps(heavy()).encode()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            headers = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            client.sendall(f"POST /api/inspect HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body)
            time.sleep(0.3)  # until it waits
        time.sleep(0.3)  # until the server has seen that the client is gone
        gated.gate.set()
        assert running.result()[0] == 200
    assert ask("/api/inspect", heavy())[0] == 200
    assert gated.steps == 2 * (HEAVY_TOKENS - 1)


def test_more_heavy_requests_than_can_wait_are_told_to_come_back(
    explorer, heavy, letters, gated, monkeypatch
):
    monkeypatch.setattr(workers, "MOST_HEAVY", 3)
    with serving(explorer) as port, ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(asking(port), "/api/inspect", heavy()) for _ in range(6)]
        until(lambda: sum(answer.done() for answer in answers) == 3)  # one runs, two wait
        ask = asking(port)
        status, found = ask("/api/inspect", heavy())
        assert (status, found["error"]) == (
            503,
            "too many long texts wait for their answers; try again later",
        )
        assert ask.headers["retry-after"] == "5"
        assert ask("/api/inspect", {"model": letters, "texts": ["a b"]})[0] == 200
        gated.gate.set()
        assert sorted(answer.result()[0] for answer in answers) == [200] * 3 + [503] * 3


def test_a_request_that_waits_too_long_is_told_so(ask, heavy, gated, monkeypatch):
    monkeypatch.setattr(server, "MOST_ANSWERING", 0.3)
    status, found = ask("/api/inspect", heavy())
    assert status == 503
    assert "not been answered within 0.3 seconds" in found["error"]
    gated.gate.set()
    monkeypatch.undo()
    assert ask("/api/inspect", heavy())[0] == 200


def test_a_plug_in_that_exits_ends_one_request_alone(ask, letters, gated, capfd):
    question = {"model": letters, "texts": ["a b"], "parts": {"halting": "mine"}}
    status, _ = ask("/api/inspect", {**question, "settings": {"halting": {"leave": True}}})
    assert status == 500
    assert "SystemExit" in capfd.readouterr().err
    assert ask("/api/inspect", {"model": letters, "texts": ["a b"]})[0] == 200
