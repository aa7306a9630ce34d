"""Lock files that processes share."""

import json
import os
import signal
import time

import pytest

from crvnn_core.runs.locks import LockFile, is_running
from tables import ended, forked, kill


@pytest.fixture
def lock(tmp_path):
    return LockFile(tmp_path / "a.lock", beat=0.02, grace=60)


def another(lock, **settings):
    return LockFile(lock.path, **settings)


def content(lock, number=1):
    return lock.path.with_name(f"{lock.path.name}.{number}")


def test_one_process_has_it_until_it_is_released(lock, tmp_path):
    assert lock.acquire()
    assert not another(lock).acquire()
    assert another(lock).owner.endswith(f":{os.getpid()}")
    lock.release()
    assert not list(tmp_path.iterdir())
    assert another(lock).owner == ""
    assert another(lock).acquire()


def test_a_killed_owner_loses_it_at_once(lock, tmp_path):
    def hold():
        with_it = another(lock)
        assert with_it.acquire()
        (tmp_path / "held").touch()
        time.sleep(60)

    process = forked(hold)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    assert not lock.acquire()
    assert kill(process)
    assert lock.acquire()
    lock.release()
    assert [path.name for path in tmp_path.iterdir()] == ["held"]  # the dead one's file is gone, too


def test_an_owner_on_another_machine_keeps_it_while_its_heart_beats(lock):
    content(lock).write_text(json.dumps({"host": "elsewhere", "process": 1, "start": "", "system": "x"}))
    assert not lock.acquire()
    long_ago = time.time() - 100
    os.utime(content(lock), (long_ago, long_ago))
    assert lock.acquire()


def test_a_process_that_has_the_number_of_a_dead_owner_is_not_taken_for_it(lock):
    assert lock.acquire()
    known = json.loads(content(lock).read_text())
    content(lock).write_text(json.dumps(known | {"start": "12"}))
    assert another(lock).acquire()


def test_a_living_owner_keeps_it_whatever_a_clock_that_has_jumped_makes_of_its_heartbeat(lock):
    assert lock.acquire()
    os.utime(content(lock), (1, 1))
    assert not another(lock).acquire()


def test_what_a_process_killed_while_taking_it_left_behind_is_removed(lock, tmp_path):
    (tmp_path / "a.lock.new-1").touch()
    assert lock.acquire()
    lock.release()
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_links_will_do(lock, monkeypatch):
    def refused(*paths):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    assert lock.acquire()
    assert not another(lock).acquire()
    lock.release()
    assert another(lock).acquire()


def test_a_file_that_was_never_finished_counts_until_its_heart_has_not_beaten_for_long(lock):
    content(lock).touch()
    assert not lock.acquire()
    assert another(lock, grace=0.0).acquire()


def test_of_many_processes_exactly_one_takes_over(lock, tmp_path):
    content(lock, 3).write_text(json.dumps({"host": "elsewhere", "process": 1}))
    os.utime(content(lock, 3), (1, 1))

    def take():
        while not (tmp_path / "go").exists():
            pass
        return another(lock).acquire()  # and end without a release, as if killed

    processes = [forked(take) for _ in range(6)]
    (tmp_path / "go").touch()
    winners = [ended(process) == 0 for process in processes]
    numbers = sorted(int(path.name.rpartition(".")[2]) for path in tmp_path.glob("a.lock.*"))
    # A winner ends at once, and its lock can be taken over: but never by two.
    assert numbers == list(range(3, 3 + sum(winners) + 1))
    assert sum(winners) >= 1


def test_heartbeats_keep_it_and_call(lock):
    assert lock.acquire()
    os.utime(content(lock), (1, 1))
    calls = []
    with lock.held(lambda: calls.append(1)):
        end = time.monotonic() + 10
        while not calls and time.monotonic() < end:
            time.sleep(0.01)
        assert content(lock).stat().st_mtime > 1
    assert calls
    assert not content(lock).exists()


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN])
def interruptible(request):
    """Ctrl-C as usual, or ignored as in a shell's background; SIGTERM as Ctrl-C."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, request.param),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.default_int_handler),
    }
    yield
    for which, handler in before.items():
        signal.signal(which, handler)


def test_an_owner_that_was_given_up_for_dead_is_interrupted(lock, interruptible):
    assert lock.acquire()
    content(lock, 2).write_text("{}")
    with pytest.raises(KeyboardInterrupt), lock.held():
        time.sleep(20)
    assert lock.lost
    assert content(lock, 2).exists()  # the other's


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    from crvnn_core import CrvnnError

    with pytest.raises(CrvnnError, match="nowhere cannot be used"):
        LockFile(tmp_path / "nowhere" / "a.lock").acquire()


def test_a_process_that_has_ended_is_not_running():
    assert is_running(os.getpid())
    process = forked(lambda: True)
    end = time.monotonic() + 10
    while is_running(process) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(process)  # a zombie: nobody has waited for it
    assert ended(process) == 0
    assert not is_running(process)
