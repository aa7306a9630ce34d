"""Says on standard error what is being waited for, when it takes long or hangs: a plug-in, or other processes."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

#: Seconds after which a plug-in that has not answered is named.
PATIENCE = 10.0


@contextlib.contextmanager
def telling_of_delay(what: Callable[[], str], seconds: float | None = None) -> Iterator[None]:
    """Name what is being waited for if this context lasts long.

    :param what: says it, in a few words.
    :param seconds: that it may last; ``PATIENCE`` by default.
    """
    limit = PATIENCE if seconds is None else seconds

    def tell() -> None:
        print(
            f"crvnn: still waiting for {what()} after {limit:g} s; Ctrl-C ends it",
            file=sys.__stderr__,
            flush=True,
        )

    timer = threading.Timer(limit, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
