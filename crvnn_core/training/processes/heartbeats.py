"""Heartbeats between the processes of one training: when a rank fails, dies or hangs, the others end with a message.

Every process has a thread with a connection of its own to the store of the process group. That of rank 0 counts the
heartbeats of all ranks, the others those of rank 0. Whoever knows why training cannot go on writes it to the store
once, as the verdict, which all others read. A second thread ends the process if its main thread cannot.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch.distributed

from crvnn_core.errors import LostProcessError
from crvnn_core.training.processes.devices import Fabric

#: Seconds between two heartbeats.
BEAT = 1.0
#: Seconds without a heartbeat after which a rank is lost.
SILENCE = 18.0
#: The same, once a connection to some rank was closed.
SUSPICIOUS_SILENCE = 4.0
#: Seconds in which a process ends by itself once the verdict is known; then it is ended.
GRACE = 2.0
#: Seconds that a store may take to answer.
_ANSWER = 15.0

_numbers = itertools.count()  # of such contexts: every process enters the same ones
_beating: weakref.WeakSet[Fabric] = weakref.WeakSet()


@contextlib.contextmanager
def heartbeats(fabric: Fabric, directory: Path | None = None) -> Iterator[None]:
    """Within this context the processes notice when one of them fails, dies or hangs, and end with a message.

    A process that waits for the lost one is ended from outside its main thread, with exit code 2. Within another
    such context it does nothing.

    :param directory: that of the run or runs, which can be resumed then.
    """
    if fabric in _beating:
        yield
        return
    beats = Heartbeats(fabric, _advice(directory))
    _beating.add(fabric)
    try:
        yield
        fabric.barrier()  # rank 0, which may hold the store, leaves with the others
    except BaseException as error:
        beats.fail(error)
        raise
    finally:
        _beating.discard(fabric)
        beats.stop()


class Heartbeats:
    """The heartbeats of this process, and what is known of the others."""

    def __init__(self, fabric: Fabric, advice: str) -> None:
        self.rank, self.ranks, self.advice = fabric.global_rank, fabric.world_size, advice
        #: The processes that this one has started.
        self.children: list[Any] = list(getattr(fabric.strategy.launcher, "procs", ()))
        _disable_observer()
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._prefix = f"crvnn/{restart}/{next(_numbers)}"
        self._store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            timeout=timedelta(seconds=_ANSWER),
            wait_for_workers=False,
        )
        self._lock = threading.Lock()  # of the verdict
        self._verdict = ""
        self._readers = self.ranks - 1  # who will read the verdict: all but the lost rank
        self._known = threading.Event()  # the verdict is known
        self._left = threading.Event()  # the context is left ...
        self._stopped = threading.Event()  # ... and nothing remains to be done
        self._store.set(self._key(f"name/{self.rank}"), f"{socket.gethostname()}, pid {os.getpid()}")
        self._answered = time.monotonic()  # when the store last answered
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._beat, self._watch)]
        for thread in self._threads:
            thread.start()

    # In the main thread.

    def fail(self, error: BaseException) -> None:
        """Tell the others that this process ends with ``error``; raise what happened elsewhere if that is the cause."""
        if _is_lost_connection(error):
            self._raise_verdict(error)
        if self._known.is_set():  # this error follows from that of another process
            return
        what = str(error) or type(error).__name__
        self._readers = self.ranks
        self._judge(f"{self._name(self.rank)} has ended with the message: {what}")

    def stop(self) -> None:
        """End the threads; and, if training has failed, the processes that this one has started."""
        self._left.set()
        self._threads[0].join(_ANSWER)
        if self._known.is_set():
            deadline = (
                time.monotonic() + GRACE
            )  # this process may hold the store: it stays until all have read
            with contextlib.suppress(RuntimeError):
                while self._count("readers") < self._readers and time.monotonic() < deadline:
                    time.sleep(0.05)
            self._end_children()
        self._stopped.set()
        self._threads[1].join()

    def _raise_verdict(self, error: BaseException) -> NoReturn:
        """Raise why a connection was lost, as soon as that is known."""
        try:
            self._count("suspicion", 1)
        except RuntimeError:
            self._settle(f"{self._no_store()}. {self.advice}".rstrip())
        if not self._known.wait(SUSPICIOUS_SILENCE + 3 * BEAT):
            reason = (
                f"{self._name(self.rank)} timed out waiting for another rank: {error!s:.200}{self._places()}"
            )
            self._judge(f"{reason}. {self.advice}".rstrip())
        raise LostProcessError(self._verdict) from error

    # In both threads.

    def _judge(self, verdict: str) -> None:
        """Write why training cannot go on, unless another process has done so before."""
        if self._known.is_set():
            return
        with contextlib.suppress(RuntimeError):  # the store is gone, and with it the process that holds it
            if self._count("verdicts", 1) == 1:
                self._store.set(self._key("verdict"), verdict)
            else:
                verdict = self._read("verdict")
        self._settle(verdict)

    def _settle(self, verdict: str) -> None:
        """Take this for the reason, if none is known."""
        with self._lock:
            self._verdict = self._verdict or verdict
            self._known.set()

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _count(self, name: str, more: int = 0) -> int:
        """A counter in the store, increased by ``more``; this never waits for another process."""
        return int(self._store.add(self._key(name), more))

    def _read(self, name: str) -> str:
        return str(self._store.get(self._key(name)).decode(errors="replace"))

    def _places(self) -> str:
        """Where the main thread of every rank is, as far as they say."""
        found = []
        with contextlib.suppress(RuntimeError):
            for rank in range(self.ranks):
                if self._store.check([self._key(f"place/{rank}")]):
                    found.append(f"\n  rank {rank} is at {self._read(f'place/{rank}')}")
        return "".join(found)

    def _name(self, rank: int) -> str:
        place = ""
        with contextlib.suppress(RuntimeError):
            if self._store.check([self._key(f"name/{rank}")]):
                place = f" ({self._read(f'name/{rank}')})"
        return f"rank {rank} of {self.ranks} processes{place}"

    # In threads of their own.

    def _beat(self) -> None:
        """Send heartbeats and count those of the others, until the verdict is known or the context is left."""
        others = range(1, self.ranks) if self.rank == 0 else (0,)
        counts = dict.fromkeys(others, -1)
        heard = dict.fromkeys(others, time.monotonic())
        while not self._left.wait(BEAT) and not self._known.is_set():
            try:
                self._count(f"beat/{self.rank}", 1)
                now = time.monotonic()
                if now - self._answered > SUSPICIOUS_SILENCE:  # this process was stopped, or the store
                    heard = dict.fromkeys(others, now)
                self._answered = now
                for rank in others:
                    if (count := self._count(f"beat/{rank}")) != counts[rank]:
                        counts[rank], heard[rank] = count, now
                if suspicion := self._count("suspicion"):
                    self._store.set(self._key(f"place/{self.rank}"), _place())
                reason = self._child_that_ended() or self._silent(heard, now, bool(suspicion))
                if reason or self._count("verdicts"):
                    self._judge(f"{reason}. {self.advice}".rstrip())
            except RuntimeError:
                if not self._left.wait(GRACE):  # else all have ended
                    self._settle(f"{self._no_store()}. {self.advice}".rstrip())
                return
        if self._known.is_set():
            with contextlib.suppress(RuntimeError):
                self._count("readers", 1)

    def _watch(self) -> None:
        """End this process if its main thread does not do so once the verdict is known, or the store hangs."""
        before = time.monotonic()
        while not self._stopped.wait(BEAT / 2) and not self._known.is_set():
            now = time.monotonic()
            if now - before > SUSPICIOUS_SILENCE:  # this process itself was stopped for a while
                self._answered = now
            before = now
            if now - self._answered > SILENCE:
                self._settle(f"{self._no_store()}. {self.advice}".rstrip())
        if self._stopped.is_set() or (self._left.wait(GRACE) and self._stopped.wait(4 * GRACE)):
            return
        print(f"crvnn: {self._verdict}", file=sys.stderr, flush=True)
        self._end_children()
        os._exit(2)

    def _child_that_ended(self) -> str:
        """Which of the processes that this one has started has ended, and how."""
        for rank, child in enumerate(self.children, 1):
            if code := child.poll():
                how = f"has ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
                with contextlib.suppress(ValueError):
                    how = f"was ended by {signal.Signals(-code).name}"
                return f"{self._name(rank)} {how}"
        return ""

    def _silent(self, heard: dict[int, float], now: float, suspicion: bool) -> str:
        rank = min(heard, key=lambda rank: heard[rank])
        silence = now - heard[rank]
        if silence > SILENCE:
            what = (
                f"has sent no heartbeat for {SILENCE:.0f} s: it was stopped or killed, or cannot be reached"
            )
            return f"{self._name(rank)} {what}"
        if silence > SUSPICIOUS_SILENCE and suspicion:
            return (
                f"{self._name(rank)} has ended without a message: it was killed, perhaps for lack of memory"
            )
        return ""

    def _no_store(self) -> str:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        return (
            f"rank {self.rank} of {self.ranks} processes gets no answer from the store at {where}, which rank 0 or its "
            "launcher holds: that process was stopped or killed, or cannot be reached"
        )

    def _end_children(self) -> None:
        """Kill the processes that this one has started: one that is stopped would stay for ever."""
        deadline = time.monotonic() + GRACE
        for child in self.children:
            with contextlib.suppress(Exception):
                child.wait(max(0.0, deadline - time.monotonic()))
            if child.poll() is None:
                child.kill()


def _disable_observer() -> None:
    """Disable Fabric's thread that kills all processes without a message as soon as one has ended."""
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            thread._child_processes = []  # type: ignore[attr-defined]


def _is_lost_connection(error: BaseException) -> bool:
    """Whether an error comes from the communication between processes: of NCCL, or of Gloo, which has no class."""
    words = ("gloo", "Connection closed", "Connection reset", "Broken pipe", "Timed out waiting", "NCCL")
    return isinstance(error, torch.distributed.DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


def _advice(directory: Path | None) -> str:
    if directory is None:
        return ""
    return (
        f"'crvnn train --resume {directory}' goes on from the last checkpoint, with any number of processes."
    )


def _place() -> str:
    """The line that the main thread is at."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame else "its end"
