"""Heartbeats between the processes of one training: when a rank fails, dies or hangs, the others end with a message.

Every process has a thread with a connection of its own to the store of the process group. That of rank 0 counts the
heartbeats of all ranks, the others those of rank 0. Whoever first knows why training cannot go on writes it to the
store, as the verdict, which all others read. A second thread ends the process if its main thread cannot.
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
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import torch.distributed

from crvnn_core.errors import LostProcessError
from crvnn_core.training.devices import end_children

if TYPE_CHECKING:
    from lightning_fabric import Fabric

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


class Heartbeats:
    """The heartbeats of this process, and what is known of the others."""

    def __init__(self, fabric: Fabric, directory: Path | None) -> None:
        self.fabric, self.rank, self.ranks = fabric, fabric.global_rank, fabric.world_size
        self.advice = directory and (
            f"'crvnn train --resume {directory}' resumes from the last checkpoint, with any number of processes."
        )
        # Fabric's own thread kills all processes as soon as one has ended, without a message.
        for thread in threading.enumerate():
            if thread.name == "child-process-observer":
                thread._child_processes = []  # type: ignore[attr-defined]
        store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            timeout=timedelta(seconds=_ANSWER),
            wait_for_workers=False,
        )
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = torch.distributed.PrefixStore(f"crvnn/{restart}/{next(_numbers)}", store)  # type: ignore[attr-defined]
        self._verdict = ""
        self._readers = self.ranks - 1  # who will read the verdict: all but the lost rank
        self._known = threading.Event()  # the verdict is known
        self._left = threading.Event()  # the context is left ...
        self._stopped = threading.Event()  # ... and nothing remains to be done
        self._store.set(f"name/{self.rank}", f"{socket.gethostname()}, pid {os.getpid()}")
        self._answered = time.monotonic()  # when the store last answered
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._beat, self._watch)]
        for thread in self._threads:
            thread.start()

    # In the main thread.

    def fail(self, error: BaseException) -> None:
        """Tell the others that this process ends with ``error``; raise what happened elsewhere if that is the cause."""
        if _is_lost_connection(error):
            self._raise_verdict(error)
        if not self._known.is_set():  # else this error follows from that of another process
            self._readers = self.ranks
            what = str(error) or type(error).__name__
            self._judge(f"{self._name(self.rank)} has ended with the message: {what}")

    def stop(self) -> None:
        """End the threads; and, if training has failed, the processes that this one has started."""
        self._left.set()
        self._threads[0].join(_ANSWER)
        if self._known.is_set():
            # This process may hold the store: it stays until all have read.
            deadline = time.monotonic() + GRACE
            with contextlib.suppress(RuntimeError):
                while self._store.add("readers", 0) < self._readers and time.monotonic() < deadline:
                    time.sleep(0.05)
            end_children(self.fabric, GRACE)
        self._stopped.set()
        self._threads[1].join()

    def _raise_verdict(self, error: BaseException) -> NoReturn:
        """Raise why a connection was lost, as soon as that is known."""
        try:
            self._store.set("suspicion", "")
        except RuntimeError:
            self._settle(self._no_store())
        if not self._known.wait(SUSPICIOUS_SILENCE + 3 * BEAT):
            what = f"{self._name(self.rank)} timed out waiting for another rank: {error!s:.200}"
            self._judge(self._advising(what + "".join(self._places())))
        raise LostProcessError(self._verdict) from error

    # In all threads.

    def _judge(self, verdict: str) -> None:
        """Write why training cannot go on, unless another process has done so before."""
        with contextlib.suppress(RuntimeError):  # the store is gone, and with it the process that holds it
            verdict = self._store.compare_set("verdict", "", verdict).decode(errors="replace")
        self._settle(verdict)

    def _settle(self, verdict: str) -> None:
        """Take this for the reason, if none is known."""
        self._verdict = self._verdict or verdict
        self._known.set()

    def _advising(self, reason: str) -> str:
        return f"{reason}. {self.advice or ''}".rstrip()

    def _known_of(self, rank: int, what: str) -> str:
        """The ``name`` or the ``place`` of a rank; empty if it has not said."""
        with contextlib.suppress(RuntimeError):
            if self._store.check([f"{what}/{rank}"]):
                return str(self._store.get(f"{what}/{rank}").decode(errors="replace"))
        return ""

    def _places(self) -> Iterator[str]:
        """Where the main thread of every rank is, as far as they say."""
        for rank in range(self.ranks):
            if place := self._known_of(rank, "place"):
                yield f"\n  rank {rank} is at {place}"

    def _name(self, rank: int) -> str:
        known = self._known_of(rank, "name")
        return f"rank {rank} of {self.ranks} processes" + (f" ({known})" if known else "")

    def _no_store(self) -> str:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        return self._advising(
            f"rank {self.rank} of {self.ranks} processes gets no answer from the store at {where}, which rank 0 or its "
            "launcher holds: that process was stopped or killed, or cannot be reached"
        )

    # In threads of their own.

    def _beat(self) -> None:
        """Send heartbeats and count those of the others, until the verdict is known or the context is left."""
        others = range(1, self.ranks) if self.rank == 0 else (0,)
        counts = dict.fromkeys(others, -1)
        heard = dict.fromkeys(others, time.monotonic())
        try:
            while not self._left.wait(BEAT) and not self._known.is_set():
                self._store.add(f"beat/{self.rank}", 1)
                now = time.monotonic()
                if now - self._answered > SUSPICIOUS_SILENCE:  # this process was stopped, or the store
                    heard = dict.fromkeys(others, now)
                self._answered = now
                for rank in others:
                    if (count := self._store.add(f"beat/{rank}", 0)) != counts[rank]:
                        counts[rank], heard[rank] = count, now
                if suspicion := self._store.check(["suspicion"]):
                    self._store.set(f"place/{self.rank}", _place())
                reason = self._child_that_ended() or self._silent(heard, now, suspicion)
                if reason or self._store.check(["verdict"]):
                    self._judge(self._advising(reason))
            if self._known.is_set():
                self._store.add("readers", 1)
        except RuntimeError:
            if not self._left.wait(GRACE):  # else all have ended
                self._settle(self._no_store())

    def _watch(self) -> None:
        """End this process if its main thread does not do so once the verdict is known, or the store hangs."""
        before = time.monotonic()
        while not self._stopped.wait(BEAT / 2) and not self._known.is_set():
            now = time.monotonic()
            if now - before > SUSPICIOUS_SILENCE:  # this process itself was stopped for a while
                self._answered = now
            before = now
            if now - self._answered > SILENCE:
                self._settle(self._no_store())
        if self._stopped.is_set() or (self._left.wait(GRACE) and self._stopped.wait(4 * GRACE)):
            return
        print(f"crvnn: {self._verdict}", file=sys.stderr, flush=True)
        end_children(self.fabric, GRACE)
        os._exit(2)

    def _child_that_ended(self) -> str:
        """Which of the processes that this one has started has ended, and how."""
        for rank, child in enumerate(getattr(self.fabric.strategy.launcher, "procs", ()), 1):
            if code := child.poll():
                how = f"has ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
                with contextlib.suppress(ValueError):
                    how = f"was ended by {signal.Signals(-code).name}"
                return f"{self._name(rank)} {how}"
        return ""

    def _silent(self, heard: dict[int, float], now: float, suspicion: bool) -> str:
        """Which rank is lost, and why that is known; empty if none is."""
        rank = min(heard, key=lambda rank: heard[rank])
        silence = now - heard[rank]
        if silence > SILENCE:
            what = f"sent no heartbeat for {SILENCE:.0f} s: it was stopped or killed, or cannot be reached"
        elif silence > SUSPICIOUS_SILENCE and suspicion:
            what = "ended without a message: it was killed, perhaps for lack of memory"
        else:
            return ""
        return f"{self._name(rank)} has {what}"


def _is_lost_connection(error: BaseException) -> bool:
    """Whether an error comes from the communication between processes: of NCCL, or of Gloo, which has no class."""
    words = ("gloo", "Connection closed", "Connection reset", "Broken pipe", "Timed out waiting", "NCCL")
    return isinstance(error, torch.distributed.DistError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


def _place() -> str:
    """The line that the main thread is at."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame else "its end"
