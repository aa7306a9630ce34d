"""What takes long is named on standard error, and a signal ends it."""

import contextlib
import signal
import sys
import threading

import pytest

from crvnn_core.delays import telling_of_delay
from processes import free_port, start
from small import options


def test_what_takes_long_is_named_once_with_its_seconds(capsys, monkeypatch):
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)
    told = threading.Event()

    def what():
        told.set()
        return "a slow thing"

    with telling_of_delay(what, 0.01):
        assert told.wait(10)
        with contextlib.suppress(StopIteration):
            next(thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)).join(10)
    assert capsys.readouterr().err == "crvnn: still waiting for a slow thing after 0.01 s; Ctrl-C ends it\n"


def test_what_is_quick_is_not_named(capsys, monkeypatch):
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)
    with telling_of_delay(lambda: "a quick thing"):
        pass
    assert capsys.readouterr().err == ""


#: ``crvnn`` that names what it waits for at once, and does not wait long for it after a signal.
IMPATIENT = """
import sys
from crvnn_core import signals
from crvnn_core.training import devices
devices._STARTING, signals.GRACE = 0.1, 0.2
from crvnn_core.cli import main
main(prog_name="crvnn")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_process_that_waits_for_others_says_so_and_is_ended_by_a_signal(number, tmp_path):
    alone = {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "RANK": 0, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, "-c", IMPATIENT, "train", *options(), "--out", "run"]
    process = start(*command, cwd=tmp_path, MASTER_PORT=free_port(), **alone)
    try:
        while "still waiting for all 2 processes to start" not in (line := process.stderr.readline()):
            assert line, "it has ended"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number
    assert "crvnn: this cannot be interrupted, so the process ends" in errors
    assert "Traceback" not in errors
