"""``crvnn explore``: its address, its errors, and how it ends."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys

import pytest

import small
from calling import run
from crvnn_explorer import command


def test_a_port_in_use_is_an_error_that_names_a_free_one():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        said = run("explore", "listops", "--port", number, "--no-open", code=2).stderr
    assert f"port {number} cannot be used" in said
    proposed = int(said.rsplit("--port ", 1)[1])
    with command.listening("127.0.0.1", proposed):
        pass


def test_the_socket_is_one_on_which_asyncio_sets_tcp_nodelay():
    """asyncio sets TCP_NODELAY, without which every answer takes 40 ms, on sockets whose protocol is TCP."""
    with command.listening("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:80/"),
        ("::1", "http://[::1]:80/"),
        ("0.0.0.0", "http://127.0.0.1:80/"),
        ("machine.example", "http://machine.example:80/"),
    ],
)
def test_the_address_that_is_printed_can_be_opened_on_this_machine(host, address):
    assert command.page_address(host, 80) == address


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("lisstops", "--port", 0), "there is no such run directory"),
        (
            ("listops", "--host", "no.such.host.invalid"),
            "--host no.such.host.invalid: there is no such address",
        ),
    ],
)
def test_a_mistake_is_an_error_before_the_server_starts(args, message):
    assert message in run("explore", *args, "--no-open", code=2).stderr


def test_without_the_extra_the_command_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert "pip install 'crvnn[explore]'" in run("explore", "listops", "--no-open", code=2).stderr


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    """In its own process, as a user runs it."""
    process = small.begin("explore", "listops", "--port", "0", "--no-open", cwd=tmp_path)
    try:
        line = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/api/models")
        assert json.loads(connection.getresponse().read())["models"][0]["name"] == "listops"
        connection.close()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in errors
    assert process.returncode == 0


def test_help_needs_neither_torch_nor_the_extra():
    code = (
        "import sys\nsys.modules.update(torch=None, starlette=None, uvicorn=None)\n"
        "from crvnn_core.cli import main\nmain(['explore', '--help'], prog_name='crvnn')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--port" in done.stdout


def test_of_several_seeds_the_best_is_explored_and_named(seeds_run, monkeypatch):
    monkeypatch.setattr(command, "_serve", lambda *_: None)
    result = run("explore", seeds_run, "--plugin", small.PLUGIN, "--port", 0)
    assert f"crvnn: {seeds_run}: using seed-" in result.stderr
    assert "the best of 3 seeds on 'dev'" in result.stderr
