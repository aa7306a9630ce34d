"""SIGINT and SIGTERM while training: the first ends it after its step, and work outside Python ends too."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import torch

from crvnn_core.training.processes.fabric import Fabric, summed

#: Seconds that a second SIGINT or SIGTERM leaves for closing files and telling observers.
GRACE = 5.0


class Interruption:
    """Whether SIGINT or SIGTERM has asked training to stop."""

    def __init__(self) -> None:
        self.requested = False

    def in_any_process(self, fabric: Fabric) -> bool:
        """Whether any of the processes was interrupted: all of them must take the same number of steps."""
        if fabric.world_size > 1:
            requests = summed(fabric, torch.tensor(float(self.requested), device=fabric.device))
            self.requested = bool(requests > 0)
        return self.requested

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Within this context the first SIGINT or SIGTERM only sets ``requested``; the second raises KeyboardInterrupt.

        If the context has not been left ``GRACE`` seconds later, because the step hangs outside Python or catches
        everything, the process ends. Outside the main thread, where Python delivers no signals, nothing changes.
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
            with ended_by_signal(2):
                yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)


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
