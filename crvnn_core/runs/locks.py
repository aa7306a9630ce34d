"""Lock files that processes of several machines share, and that outlive neither their owner nor a kill.

A lock is a series of files ``NAME.1``, ``NAME.2``, ...: the last one holds it. Its content says who the owner is, its
modification time is the owner's last heartbeat. A lock whose owner is dead is taken over by creating the next file,
which succeeds for one process only.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import signal
import socket
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crvnn_core.errors import CrvnnError

#: Seconds between two heartbeats, and without one until an owner whose process cannot be looked at counts as dead.
BEAT, GRACE = 10.0, 180.0


class LockFile:
    """A lock of a directory that processes share.

    :param path: without the number; its directory must exist.
    :param beat: seconds between two heartbeats.
    :param grace: seconds without a heartbeat after which the lock may be taken over.
    """

    def __init__(self, path: Path, beat: float = BEAT, grace: float = GRACE) -> None:
        self.path, self.beat, self.grace = path, beat, grace
        self.number = 0  # of the file that this process holds
        #: Whether another process has taken over, because no heartbeat was seen for too long.
        self.lost = False

    def acquire(self) -> bool:
        """Take the lock unless a living process has it; whether that was done."""
        last = self._last()
        dead = self._read(last) if last else {}
        if last and self._is_alive(last):
            return False
        if not self._create(last + 1):
            return False
        self.number, self.lost = last + 1, False
        if last and self._read(last) != dead:  # released, and perhaps taken anew, since it was looked at
            self._file(self.number).unlink(missing_ok=True)
            self.number = 0
        return bool(self.number)

    def _create(self, number: int) -> bool:
        """Create a file with its content, unless it exists; whether that was done."""
        content = json.dumps(_myself()).encode()
        new = self.path.with_name(f"{self.path.name}.new-{uuid.uuid4().hex}")
        try:
            new.write_bytes(content)
            try:
                os.link(
                    new, self._file(number)
                )  # unlike opening it for writing, never seen without its content
            except (FileExistsError, FileNotFoundError):  # the latter: the owner has tidied up
                return False
            except OSError:  # a file system without links
                with self._file(number).open("xb") as file:
                    file.write(content)
        except FileExistsError:
            return False
        except OSError as error:
            raise CrvnnError(f"{self.path.parent} cannot be used: {error}") from error
        finally:
            new.unlink(missing_ok=True)
        return True

    def release(self) -> None:
        """Give the lock back; the files of dead owners go first, so that they never seem to be the last."""
        for left in self.path.parent.glob(f"{self.path.name}.new-*"):  # of a process that was killed
            left.unlink(missing_ok=True)
        for number in sorted(self._numbers()):
            if number <= self.number:
                self._file(number).unlink(missing_ok=True)
        self.number = 0

    @contextlib.contextmanager
    def held(self, each: Callable[[], None] | None = None) -> Iterator[None]:
        """Keep the acquired lock by heartbeats, and release it at the end.

        If another process has taken over nevertheless, the main thread is interrupted as by Ctrl-C, and ``lost`` is
        true.

        :param each: is called at every heartbeat, in a thread.
        """
        done = threading.Event()

        def beating() -> None:
            while not done.wait(self.beat):
                if self._last() != self.number and not done.wait(1.0) and self._last() != self.number:
                    self.lost = True
                    _interrupt_main()
                    return
                with contextlib.suppress(OSError):  # the next time, perhaps
                    os.utime(self._file(self.number))
                if each is not None:
                    each()

        thread = threading.Thread(target=beating, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            if not self.lost:
                self.release()

    @property
    def owner(self) -> str:
        """``host:process`` of the living owner; empty if there is none."""
        last = self._last()
        if not last or not self._is_alive(last):
            return ""
        known = self._read(last)
        return f"{known.get('host', '?')}:{known.get('process', '?')}"

    def _file(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _numbers(self) -> list[int]:
        found = (file.name.rpartition(".")[2] for file in self.path.parent.glob(f"{self.path.name}.*"))
        return [int(number) for number in found if number.isdecimal()]

    def _last(self) -> int:
        return max(self._numbers(), default=0)

    def _read(self, number: int) -> dict[str, Any]:
        """Who owns a file; empty while its content is being written."""
        try:
            found = json.loads(self._file(number).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _is_alive(self, number: int) -> bool:
        known, me = self._read(number), _myself()
        if known and all(known.get(key) == me[key] for key in ("host", "system")):
            process = known.get("process")
            if (
                not isinstance(process, int)
                or not is_running(process)
                or started(process) != known.get("start")
            ):
                return False
            if known[
                "start"
            ]:  # it is the very process, whatever a clock that has jumped makes of its heartbeat
                return True
        try:
            silent = self._now() - self._file(number).stat().st_mtime
        except FileNotFoundError:  # released in the meantime; whoever tries again will see
            return True
        return silent < self.grace

    def _now(self) -> float:
        """The time of the file system, which machines with other clocks share."""
        with tempfile.TemporaryFile(dir=self.path.parent) as file:
            return os.fstat(file.fileno()).st_mtime


def _interrupt_main() -> None:
    """Interrupt the main thread as by Ctrl-C; where that is ignored, as in a shell's background, as by SIGTERM."""
    handled = signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.SIG_DFL, None)
    _thread.interrupt_main(signal.SIGINT if handled else signal.SIGTERM)


def is_running(process: int) -> bool:
    """Whether a process of this machine exists and has not ended; of another user's it is enough that it exists."""
    if os.name == "nt":  # where signal 0 would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _status(process)[:1] != ["Z"]  # ended, and only its parent has not noticed


def _myself() -> dict[str, Any]:
    process = os.getpid()
    return {
        "host": socket.gethostname(),
        "process": process,
        "start": started(process),
        "system": _system(),
        "token": uuid.uuid4().hex,
    }


def _system() -> str:
    """The boot and the name space that a process number belongs to; empty where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def started(process: int) -> str:
    """When a process began, which tells it from a later one of the same number; empty where that cannot be told."""
    return next(iter(_status(process)[19:20]), "")


def _status(process: int) -> list[str]:
    """The fields of ``/proc/N/stat`` behind the name; empty where there are none."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
