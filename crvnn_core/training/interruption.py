"""SIGINT and SIGTERM during training."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator


class Interruption:
    """Whether a signal has asked training to stop."""

    def __init__(self) -> None:
        self.requested = False

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Within this context the first SIGINT or SIGTERM only sets ``requested``; the second raises KeyboardInterrupt.

        Outside the main thread, where Python delivers no signals, nothing changes.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def request(number: int, frame: object) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True
            print("\ncrvnn: stopping after this step; once more stops at once", file=sys.stderr)

        before = {which: signal.signal(which, request) for which in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)
