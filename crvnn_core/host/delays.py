"""Says on standard error which plug-in is being waited for, when one takes long or hangs."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

#: Seconds after which a plug-in that has not answered is named.
PATIENCE = 10.0


@contextlib.contextmanager
def telling_of_delay(what: Callable[[], str]) -> Iterator[None]:
    """Name what is being waited for if this context lasts long.

    :param what: says it, in a few words.
    """

    def tell() -> None:
        print(
            f"crvnn: still waiting for {what()} after {PATIENCE:g} s; Ctrl-C ends it",
            file=sys.__stderr__,
            flush=True,
        )

    timer = threading.Timer(PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
