"""A command ``crvnn`` that starts at once: copies of one process that has torch and crvnn imported.

A start of Python with torch takes seconds, and the pages of the documentation have a hundred commands. Everything else
is as in a process of its own: arguments, directory, environment, streams, signals and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import signal
import site
import socket
import socketserver
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO

#: The environment variable with a directory whose packages the command finds besides those of the tests.
PACKAGES = "CRVNN_TEST_PACKAGES"
#: The environment variable with Python code that the process runs before the command.
CODE = "CRVNN_TEST_CODE"

_CLIENT = """#!{python} -IS
import json, os, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
server.sendall(call)
server.recv(4)
sys.exit(server.recv(1)[0])
"""


@contextlib.contextmanager
def warm_command() -> Iterator[str]:
    """A directory for PATH, in which the command is, while its server runs."""
    with tempfile.TemporaryDirectory(prefix="crvnn") as directory:  # the address of a socket has to be short
        address, client = f"{directory}/socket", Path(directory, "bin", "crvnn")
        client.parent.mkdir()
        client.write_text(_CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
        client.chmod(0o755)
        server = subprocess.Popen(
            [sys.executable, __file__, address],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield str(client.parent)
        finally:
            server.terminate()
            server.communicate()


class WarmProcess:
    """A command that was begun: its process number, and what it has printed.

    :param code: Python that its process runs before the command.
    """

    def __init__(self, command: str, *args: object, cwd: Path, code: str = "") -> None:
        call = json.dumps([list(map(str, args)), str(cwd), os.environ | {CODE: code}]).encode()
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed by end
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(f"{Path(command).parent}/socket")
        with open(os.devnull, "rb") as nothing:
            streams = [stream.fileno() for stream in (nothing, self._out, self._err)]
            socket.send_fds(self._socket, [len(call).to_bytes(8, "big")], streams)
        self._socket.sendall(call)
        self.began = time.monotonic()
        self.number = int.from_bytes(self._socket.recv(4), "big")
        self.seconds = 0.0
        self.code: int | None = None

    def send(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.number, number)

    def wait(self, timeout: float = 300.0) -> int | None:
        """The exit code, 128 more than the number of the signal that has ended it; ``None`` if it has not ended."""
        if self.code is None:
            self._socket.settimeout(timeout)
            with contextlib.suppress(TimeoutError):
                self.code = self._socket.recv(1)[0]
                self.seconds = time.monotonic() - self.began
                self._socket.close()
        return self.code

    @property
    def out(self) -> str:
        """What it has printed to standard output so far."""
        return _content(self._out)

    @property
    def err(self) -> str:
        """What it has printed to standard error so far."""
        return _content(self._err)

    def end(self) -> None:
        """Kill it if it has not ended, and close what was opened for it."""
        if self.code is None:
            self.send(signal.SIGKILL)
            self.wait()
        self._out.close()
        self._err.close()


def _content(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), 1 << 20, 0).decode()


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    max_children = 1000
    request_queue_size = 100
    parent = os.getppid()

    def service_actions(self) -> None:
        super().service_actions()
        if os.getppid() != self.parent:  # the tests were killed
            os._exit(1)


class _Call(socketserver.BaseRequestHandler):
    """A process of its own, which starts the command's, says its number and then its exit code."""

    def handle(self) -> None:
        caller: socket.socket = self.request
        size, streams, _, _ = socket.recv_fds(caller, 8, 3)
        with caller.makefile("rb") as file:
            arguments, directory, environment = json.loads(file.read(int.from_bytes(size, "big")))
        pid = os.fork()
        if pid == 0:
            caller.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
            os._exit(_run(arguments))
        caller.sendall(pid.to_bytes(4, "big"))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            caller.sendall(bytes([code if code >= 0 else 128 - code]))


def _run(arguments: list[str]) -> int:
    """The exit code of the command, as Python would give it."""
    from crvnn_core.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # even where the tests ignore it
    sys.argv = ["crvnn", *arguments]
    if packages := os.environ.pop(PACKAGES, ""):
        site.addsitedir(packages)
        importlib.invalidate_caches()
    exec(os.environ.pop(CODE, ""), {})
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    from click.testing import CliRunner

    from crvnn_core.cli import main

    assert CliRunner().invoke(main, ["assemble"]).exit_code == 0  # imports torch and what most commands use
    with _Server(sys.argv[1], _Call) as server:
        print("ready", flush=True)
        server.serve_forever()
