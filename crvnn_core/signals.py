"""SIGINT and SIGTERM: they end a program in order, training after its step, and work outside Python too."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator

#: Seconds that a second SIGINT or SIGTERM leaves for closing files and telling observers.
GRACE = 5.0


class TerminatedError(KeyboardInterrupt):
    """SIGTERM was received: handled as Ctrl-C is, so that temporary files are removed."""


class Interruption:
    """Whether SIGINT or SIGTERM has asked training to stop."""

    def __init__(self) -> None:
        self.requested = False

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Within this context the first SIGINT or SIGTERM only sets ``requested``; the second raises KeyboardInterrupt.

        If the context has not been left ``GRACE`` seconds later, because the step hangs outside Python or catches
        everything, the process ends.
        """

        def request(number: int, frame: object) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True
            print("\ncrvnn: stopping after this step; once more stops at once", file=sys.stderr)

        with _handled(request, signal.SIGINT, signal.SIGTERM), ended_by_signal(2):
            yield


@contextlib.contextmanager
def raising_on_sigterm() -> Iterator[None]:
    """Within this context SIGTERM raises ``TerminatedError``, unless it is handled or ignored already."""

    def terminate(number: int, frame: object) -> None:
        raise TerminatedError

    free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with _handled(terminate, signal.SIGTERM) if free else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _handled(handler: Callable[[int, object], None], *numbers: int) -> Iterator[None]:
    """Handle signals within this context. Outside the main thread, where Python delivers none, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def ended_by_signal(number: int, clean_up: Callable[[], None] = lambda: None) -> Iterator[None]:
    """End the process if this context lasts ``GRACE`` seconds after so many signals SIGINT or SIGTERM.

    A thread counts the signals, which Python writes to a socket even while the main thread runs no Python code. Outside
    the main thread, where Python delivers no signals, nothing changes.

    :param clean_up: called before the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left = threading.Event()
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)

    def count() -> None:
        received = 0
        while numbers := reading.recv(1):
            received += numbers[0] in (signal.SIGINT, signal.SIGTERM)
            if received == number and not left.wait(GRACE):
                print("crvnn: this cannot be interrupted, so the process ends", file=sys.stderr, flush=True)
                clean_up()
                os._exit(128 + numbers[0])

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(before)
        writing.close()  # ends the thread
        thread.join()
        reading.close()
