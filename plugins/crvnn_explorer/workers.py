"""Two worker threads, one for small requests and one for heavy ones, so that no small one waits for a heavy one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

#: Estimated cost of a small request at most: the square of its tokens.
SMALL_COST = 32**2
#: Heavy requests at once: one is computed, the others wait.
MOST_HEAVY = 16

T = TypeVar("T")


class BusyError(Exception):
    """So many heavy requests wait that this one cannot."""


class Workers:
    """The two threads. What is cancelled while it waits is not begun."""

    def __init__(self) -> None:
        self._small, self._heavy = ThreadPoolExecutor(1, "small"), ThreadPoolExecutor(1, "heavy")
        self._heavy_requests = 0

    async def run(self, work: Callable[[], T], cost: Callable[[], int] = lambda: 0) -> T:
        """The result of some work, done beside the loop that serves the page.

        :param cost: estimates it, as the square of the number of tokens.
        :raises BusyError: if it is heavy and too many others wait.
        """
        if await _run_in(self._small, cost) <= SMALL_COST:
            return await _run_in(self._small, work)
        if self._heavy_requests >= MOST_HEAVY:
            raise BusyError
        self._heavy_requests += 1
        try:
            return await _run_in(self._heavy, work)
        finally:
            self._heavy_requests -= 1

    def close(self) -> None:
        """Forget what waits; what is being computed ends by itself, since requests are limited."""
        for executor in (self._small, self._heavy):
            executor.shutdown(wait=False, cancel_futures=True)


async def _run_in(executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    def shielded() -> T:
        try:
            return work()
        except Exception:
            raise
        except BaseException as error:  # a plug-in called sys.exit, say: the page stays
            raise RuntimeError(f"{type(error).__name__} in the thread of a request") from error

    return await asyncio.get_running_loop().run_in_executor(executor, shielded)
