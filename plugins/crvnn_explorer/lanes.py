"""Two worker threads, one for small requests and one for heavy ones, so that no small one waits for a heavy one.

Each has a queue of its own, with a limit. A request is tried among the small ones. It goes to the heavy ones if its
estimated cost is high, or if it has used more CPU time than a small request may. What nobody waits for any longer is
removed from its queue; what is running ends at the next call of a module, by a hook that torch has for all modules.
There a heavy request also pauses while small ones are computed: two threads would hand Python's lock to and fro.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from attrs import define, field
from torch.nn.modules.module import register_module_forward_pre_hook

from crvnn_explorer.models import Explorer

#: Estimated cost of a small request at most: the square of its tokens.
SMALL_COST = 32**2
#: CPU seconds that a small request, and a heavy one, may take.
SMALL_SECONDS, HEAVY_SECONDS = 0.25, 20.0
#: Requests that may wait for each thread.
SMALL_WAITING, HEAVY_WAITING = 64, 16
_PAUSE = 0.02  # seconds that a heavy request waits for small ones, at most, before it calls the next module

T = TypeVar("T")
_running = threading.local()  # .job, in a worker thread


class BusyError(Exception):
    """So many requests wait that this one cannot.

    :param seconds: after which to try again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class OverrunError(Exception):
    """A request has used all the CPU time that it may."""


class _Interrupt(BaseException):  # no Exception, which code in between might catch
    """Ends the work of a request at the next call of a module."""


@define(eq=False)
class _Job(Generic[T]):
    work: Callable[[Explorer], T]
    seconds: float
    #: While it is not set, others go first.
    turn: threading.Event | None = None
    answer: Future[T] = field(factory=Future)
    stopped: bool = False
    _began: float = 0.0

    def run(self, explorer: Explorer) -> None:
        """Do the work in this thread, with its result or error as the answer."""
        if not self.answer.set_running_or_notify_cancel():
            return
        self._began, _running.job = time.thread_time(), self
        try:
            result = self.work(explorer)
        except Exception as error:
            self.answer.set_exception(error)
        except _Interrupt:
            self.answer.set_exception(OverrunError())
        except BaseException as error:  # a plug-in called sys.exit, say: the page stays
            raised = RuntimeError(f"{type(error).__name__} in the thread of a request")
            raised.__cause__ = error
            self.answer.set_exception(raised)
        else:
            self.answer.set_result(result)
        finally:
            _running.job = None

    def check(self) -> None:
        """End the work if nobody waits for it, or if it has had its time; pause while others go first."""
        if self.turn is not None:
            self.turn.wait(_PAUSE)
        if self.stopped or time.thread_time() - self._began > self.seconds:
            raise _Interrupt


def _check(*_: Any) -> None:
    """Called by torch before every module; it concerns only worker threads."""
    job = getattr(_running, "job", None)
    if job is not None:
        job.check()


class Lane:
    """A thread that works on requests in the order of their arrival.

    :param seconds: of CPU time that a request may take.
    :param most: requests that may wait.
    :param before: the thread that goes first.
    """

    def __init__(self, explorer: Explorer, seconds: float, most: int, before: Lane | None = None) -> None:
        self.explorer, self.seconds, self.most, self._before = explorer, seconds, most, before
        self.idle = threading.Event()
        self._waiting: deque[_Job[Any]] = deque()
        self._current: _Job[Any] | None = None
        self._change = threading.Condition()
        self._closed = False
        # A daemon: code of a plug-in that never returns cannot be stopped, and must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="explorer", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def close(self, patience: float = 2.0) -> None:
        """Stop what runs and forget what waits."""
        with self._change:
            self._closed = True
            for job in (*self._waiting, *([self._current] if self._current else [])):
                job.stopped = True
            self._waiting.clear()
            self._change.notify()
        self._thread.join(patience)

    async def run(self, work: Callable[[Explorer], T]) -> T:
        """The result of some work; where this is cancelled, the work stops."""
        job = _Job(work, self.seconds, None if self._before is None else self._before.idle)
        with self._change:
            if len(self._waiting) >= self.most:
                raise BusyError(1 + int(self.seconds))
            self._waiting.append(job)
            self.idle.clear()
            self._change.notify()
        try:
            return await asyncio.wrap_future(job.answer)
        finally:
            self._stop(job)

    def _stop(self, job: _Job[Any]) -> None:
        with self._change:
            job.stopped = True
            if job in self._waiting:
                self._waiting.remove(job)

    def _work(self) -> None:
        while True:
            with self._change:
                self._current = None
                if not self._waiting:
                    self.idle.set()
                self._change.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                self._current = job = self._waiting.popleft()
            job.run(self.explorer)


class Lanes:
    """The two threads, while they are open: a context manager."""

    def __init__(self, explorer: Explorer) -> None:
        self._small = Lane(explorer, SMALL_SECONDS, SMALL_WAITING)
        self._heavy = Lane(explorer.twin(), HEAVY_SECONDS, HEAVY_WAITING, self._small)

    def __enter__(self) -> Lanes:
        self._hook = register_module_forward_pre_hook(_check)
        for lane in (self._small, self._heavy):
            lane.start()
        return self

    def __exit__(self, *_: object) -> None:
        for lane in (self._small, self._heavy):
            lane.close()
        self._hook.remove()

    async def run(self, work: Callable[[Explorer], T], cost: Callable[[Explorer], int] = lambda _: 0) -> T:
        """The result of some work, done beside the loop that serves the page.

        :param cost: estimates it, as the square of the number of tokens.
        :raises BusyError: if too many requests wait.
        :raises OverrunError: if it takes too long.
        """

        def attempt(explorer: Explorer) -> T:
            if cost(explorer) > SMALL_COST:
                raise OverrunError
            return work(explorer)

        try:
            return await self._small.run(attempt)
        except OverrunError:
            return await self._heavy.run(work)
