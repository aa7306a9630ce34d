"""A study in PostgreSQL, shared by two workers that have no common directory."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from small import PLUGIN, begin
from sweeps import BASE, needs_optuna, write

needs_optuna()
pytest.importorskip("psycopg2", reason="the driver psycopg2 is not installed")

pytestmark = pytest.mark.slow
SPACE = """
[sweep.space]
"model.cell" = ["gated", "lstm", "gru", "rnn"]
"model.decision" = ["sigmoid", "modulated", "stretched"]
"""


def _programs():
    """Where the server's programs are: on the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def directory():
    """A directory that another user can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="crvnn-postgresql-") as path:
        yield Path(path)


@pytest.fixture
def url(directory):
    """The address of a server that runs for one test, as a user who is not root: it refuses root."""
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    as_user = []
    if os.geteuid() == 0:
        if subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode:
            pytest.skip("PostgreSQL refuses to run as root, and there is no user 'postgres'")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(directory, "postgres")
    port = _free_port()

    def call(program, *args):
        command = [*as_user, str(programs / program), *args]
        subprocess.run(command, check=True, cwd=directory, stdout=subprocess.DEVNULL, timeout=120)

    call("initdb", "-D", str(directory / "data"), "-U", "me", "--auth=trust")
    options = f"-p {port} -k {directory} -c listen_addresses=127.0.0.1 -c fsync=off"
    call("pg_ctl", "-D", str(directory / "data"), "-w", "-l", str(directory / "log"), "-o", options, "start")
    try:
        yield f"postgresql+psycopg2://me@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "-D", str(directory / "data"), "-m", "immediate", "stop")


def test_two_workers_without_a_common_directory_share_a_study(url, tmp_path):
    """They begin at the same time, create one study, and train each of its trials once."""
    workers = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        spec = write(tmp_path / name, SPACE, BASE)
        command = (
            "sweep",
            "--plugin",
            PLUGIN,
            spec,
            "--storage",
            url,
            "--study",
            "shared",
            "--out",
            "s",
            "--json",
        )
        workers.append(begin(*command, cwd=tmp_path / name))
    results = [worker.communicate(timeout=600) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], results
    trained = [
        sorted(path.name for path in (tmp_path / name / "s").glob("trials/0*/")) for name in ("here", "there")
    ]
    assert sorted(trained[0] + trained[1]) == [f"{number:04}" for number in range(1, 13)]
    assert all(trained), "one worker did everything"
    last = subprocess.run(
        [sys.executable, str(PLUGIN), "sweep", "--plugin", str(PLUGIN), "--show", "s", "--json"],
        cwd=tmp_path / "here",
        capture_output=True,
        check=True,
        text=True,
    )
    assert json.loads(last.stdout)["counts"] == {"complete": 12}
