"""Small requests beside heavy ones, requests that nobody waits for, and limits on number and time."""

import asyncio
import contextlib
import itertools
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from crvnn_explorer import lanes, server
from crvnn_explorer.lanes import Lane, Lanes, OverrunError
from exploring import asking, serving

HEAVY_TOKENS = 40
fresh = itertools.count()


@pytest.fixture
def heavy(letters):
    """A question that is estimated to be heavy, and waits at the gate."""
    return {"model": letters, "texts": ["c " * (HEAVY_TOKENS - 1)], "parts": {"halting": "mine"}}


@pytest.fixture
def stops(monkeypatch):
    """Counts the requests whose waiting is over, one way or another."""
    counted, stop = threading.Semaphore(0), Lane._stop

    def counting(self, job):
        stop(self, job)
        counted.release()

    monkeypatch.setattr(Lane, "_stop", counting)
    return counted


def until(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def begin(port, question):
    """Send a question without waiting for the answer."""
    body = json.dumps(question).encode()
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    headers = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    client.sendall(f"POST /api/inspect HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body)
    return client


def variants(question, count):
    """Questions of the same cost that have not been asked before."""
    return [{**question, "texts": [question["texts"][0] + f" {next(fresh)}"]} for _ in range(count)]


def test_small_requests_are_answered_while_ten_heavy_ones_wait(ask, heavy, letters, gated):
    with ThreadPoolExecutor(10) as pool:
        answers = [pool.submit(ask, "/api/inspect", question) for question in variants(heavy, 10)]
        for number in range(5):
            assert ask("/api/inspect", {"model": letters, "texts": [f"a b {'c ' * number}"]})[0] == 200
        assert ask("/api/models")[0] == 200
        assert not any(answer.done() for answer in answers)
        gated.gate.set()
        assert [answer.result()[0] for answer in answers] == [200] * 10
    assert gated.steps == 10 * (HEAVY_TOKENS - 1)


def test_what_nobody_waits_for_is_neither_begun_nor_finished(port, ask, heavy, gated, stops):
    running, waiting, last = variants(heavy, 3)
    clients = [begin(port, question) for question in (running, waiting)]
    for _ in clients:
        assert stops.acquire(timeout=60)  # each has been found to be heavy
    until(lambda: gated.steps)
    for client in clients:
        client.close()
    for _ in clients:
        assert stops.acquire(timeout=60)
    gated.gate.set()
    assert ask("/api/inspect", last)[0] == 200
    assert gated.steps == 1 + HEAVY_TOKENS - 1


def test_more_requests_than_can_wait_are_told_to_come_back(explorer, heavy, gated, monkeypatch):
    monkeypatch.setattr(lanes, "HEAVY_WAITING", 2)
    with serving(explorer) as port, ThreadPoolExecutor(8) as pool:
        ask = asking(port)

        def one(question):
            status, found = asking(port)("/api/inspect", question)
            return status, found.get("error")

        first, *others = variants(heavy, 6)
        answers = [pool.submit(one, first)]
        until(lambda: gated.steps)
        answers += [pool.submit(one, question) for question in others]
        until(lambda: sum(answer.done() for answer in answers) == 3)  # one runs, two wait
        assert {answer.result() for answer in answers if answer.done()} == {
            (503, "too many questions wait to be answered; try again later")
        }
        assert ask("/api/inspect", variants(heavy, 1)[0])[0] == 503
        assert ask.headers["retry-after"] == "21"
        gated.gate.set()
        assert sorted(answer.result()[0] for answer in answers) == [200] * 3 + [503] * 3


def test_a_request_that_waits_too_long_is_told_so_and_ends(ask, heavy, gated, monkeypatch):
    monkeypatch.setattr(server, "MOST_ANSWERING", 0.3)
    status, found = ask("/api/inspect", variants(heavy, 1)[0])
    assert status == 503
    assert "not been answered within 0.3 seconds" in found["error"]
    assert ask.headers["retry-after"] == "1"
    gated.gate.set()
    monkeypatch.undo()
    assert ask("/api/inspect", variants(heavy, 1)[0])[0] == 200


def test_a_request_that_computes_too_long_is_ended(explorer, heavy, gated, monkeypatch):
    monkeypatch.setattr(lanes, "HEAVY_SECONDS", 0.0)
    gated.gate.set()
    with serving(explorer) as port:
        status, found = asking(port)("/api/inspect", variants(heavy, 1)[0])
    assert status == 503
    assert "takes too long here: try a shorter text" in found["error"]
    assert gated.steps == 0


def test_a_request_that_is_heavier_than_estimated_becomes_a_heavy_one(explorer, letters, monkeypatch):
    monkeypatch.setattr(lanes, "SMALL_SECONDS", 0.0)
    with serving(explorer) as port:
        status, found = asking(port)("/api/inspect", {"model": letters, "texts": ["f e f e"]})
    assert status == 200
    assert found["sequences"][0]["tokens"] == list("fefe")


def test_a_plug_in_that_exits_ends_one_request_alone(ask, letters, gated, capfd):
    question = {"model": letters, "texts": ["a b"], "parts": {"halting": "mine"}}
    status, _ = ask("/api/inspect", {**question, "settings": {"halting": {"leave": True}}})
    assert status == 500
    assert "SystemExit" in capfd.readouterr().err
    assert ask("/api/inspect", {"model": letters, "texts": ["a b"]})[0] == 200


def test_cancelled_work_leaves_its_thread_at_the_next_module(explorer, gated):
    """And code that catches every ``Exception`` does not keep it."""
    entered, ended = threading.Event(), threading.Event()

    def work(explorer):
        try:
            entered.set()
            while True:
                with contextlib.suppress(Exception):
                    explorer.runs[next(iter(explorer.runs))].predict(["a b"])
        finally:
            ended.set()

    async def cancelled():
        task = asyncio.ensure_future(both.run(work))
        while not entered.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 60)
        both._heavy.seconds = 0.0
        with pytest.raises(OverrunError):
            await both._heavy.run(work)

    with Lanes(explorer) as both:
        asyncio.run(cancelled())


def test_heavy_work_pauses_while_small_work_is_done(explorer, gated, monkeypatch):
    monkeypatch.setattr(lanes, "_PAUSE", 60)
    paused, done = threading.Event(), []

    def heavy(explorer):
        paused.wait(60)
        explorer.runs[next(iter(explorer.runs))].predict(["a b"])
        done.append("heavy")

    def light(_):
        paused.set()
        time.sleep(0.1)
        done.append("small")

    async def both_at_once():
        await asyncio.gather(both._heavy.run(heavy), both.run(light))

    with Lanes(explorer) as both:
        asyncio.run(both_at_once())
    assert done == ["small", "heavy"]


def test_both_threads_share_weights_but_no_module(explorer):
    twin = explorer.twin()
    for name, trained in explorer.runs.items():
        ours, theirs = trained.model, twin.runs[name].model
        assert not set(map(id, ours.modules())) & set(map(id, theirs.modules()))
        assert [*map(id, ours.parameters())] == [*map(id, theirs.parameters())]
        assert ours.vocabulary is theirs.vocabulary
    assert twin._inspections is explorer._inspections
