"""A command ``crvnn`` that starts at once: copies of one process that has torch and crvnn imported.

A start of Python with torch takes seconds, and the pages of the documentation have a hundred commands. Everything else
is as in a process of its own: arguments, directory, environment, streams and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

_CLIENT = """#!{python} -IS
import json, os, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
server.sendall(call)
sys.exit(server.recv(1)[0])
"""


@contextlib.contextmanager
def warm_command() -> Iterator[str]:
    """A directory for PATH, in which the command is, while its server runs."""
    directory = tempfile.mkdtemp(prefix="crvnn")  # the address of a socket has to be short
    address, client = f"{directory}/socket", Path(directory, "bin", "crvnn")
    client.parent.mkdir()
    client.write_text(_CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
    client.chmod(0o755)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, __file__, address], env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield str(client.parent)
    finally:
        server.terminate()
        server.communicate()
        shutil.rmtree(directory)


def _serve(address: str) -> None:
    from click.testing import CliRunner

    from crvnn_core.cli import main

    assert CliRunner().invoke(main, ["assemble"]).exit_code == 0  # imports torch and what most commands use
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    parent = os.getppid()
    listening.settimeout(2)
    while os.getppid() == parent:  # ends when the tests were killed
        try:
            caller, _ = listening.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(caller)
        caller.close()


def _answer(caller: socket.socket) -> None:
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
        sys.argv = ["crvnn", *arguments]
        os._exit(_run())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        caller.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def _run() -> int:
    """The exit code of the command, as Python would give it."""
    from crvnn_core.cli import main

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
    _serve(sys.argv[1])
