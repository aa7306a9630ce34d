"""``crvnn explore`` in a process of its own under load: ``make test-load`` prints the figures."""

import http.client
import json
import re
import signal
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import small
from malformed_requests import damaged, send

SMALL = "[MAX 2 9 [MIN 4 7 ] 0 ]"
HEAVY = f"[MAX {'[MIN 4 7 ] ' * 49}]"


def heavy_question(steps):
    """198 tokens for so many steps, computed at all positions."""
    settings = {"halting": {"depth": steps}, "encoder": {"shortcuts": False}}
    return {"texts": [HEAVY], "parts": {"halting": "fixed-depth"}, "settings": settings}


def asked(port, question):
    """The status of an answer, and the seconds that it took."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = json.dumps({"model": "listops", **question})
    connection.request("POST", "/api/inspect", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, time.perf_counter() - began


def memory(process):
    """The most memory that a process has used, in MB."""
    with open(f"/proc/{process.pid}/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) // 1024


def small_questions(port, until):
    """Statuses and seconds of small questions, each asked for the first time, ten a second at most."""
    found = []
    while not until.is_set():
        text = f"[MAX {len(found) % 10} {len(found) // 10 % 10} [MIN 4 7 ] {len(found) // 100 % 10} ]"
        found.append(asked(port, {"texts": [text]}))
        until.wait(0.1)
    return found


@pytest.mark.slow
def test_small_requests_take_less_than_a_second_beside_ten_heavy_and_a_thousand_malformed_ones(tmp_path):
    process = small.begin("explore", "listops", "--port", "0", "--no-open", cwd=tmp_path)
    try:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())[1])
        assert asked(port, {"texts": [SMALL]})[0] == 200
        before = memory(process)
        alone = [asked(port, {"texts": [f"[MIN {i} 3 ]"]})[1] for i in range(10)]
        finished = threading.Event()
        with ThreadPoolExecutor(11) as pool:
            heavy = [pool.submit(asked, port, heavy_question(197 - number)) for number in range(10)]
            beside = pool.submit(small_questions, port, finished)
            heavy = [each.result() for each in heavy]
            finished.set()
            beside = beside.result()
        for request in damaged(1000):
            send(port, request)
        after = asked(port, {"texts": ["[MAX 1 2 3 ]"]})
        used = memory(process) - before
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    seconds = sorted(each for _, each in beside)
    print(f"\nsmall requests alone: median {statistics.median(alone):.3f} s, slowest {max(alone):.3f} s")
    print(
        f"beside ten heavy ones: {len(seconds)} of them, median {statistics.median(seconds):.3f} s, ", end=""
    )
    print(f"slowest {seconds[-1]:.3f} s")
    print("heavy requests:", ", ".join(f"{each:.1f} s ({status})" for status, each in heavy))
    print(
        f"after 1,000 malformed requests: {after[0]} in {after[1]:.3f} s; {used} MB more memory than at first"
    )
    assert {status for status, _ in beside} == {200}
    assert {status for status, _ in heavy} <= {200, 503}
    assert seconds[-1] < 1
    assert after[0] == 200
    assert used < 300
    assert errors == ""
    assert process.returncode == 0
