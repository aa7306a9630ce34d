"""The example packages install and keep their contracts, as a stranger's would."""

import http.client
import json
import re
import shutil
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest

import small
from venvs import throwaway_venv

EXAMPLES = sorted((Path(__file__).parents[2] / "plugins" / "examples").iterdir())


class Installed:
    """A virtual environment into which an example package has been installed."""

    def __init__(self, example, directory, commands):
        self.directory = directory
        self.environment = throwaway_venv(directory / "venv", commands)
        self.package = directory / example.name
        shutil.copytree(example, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.name = tomllib.loads((self.package / "pyproject.toml").read_text())["project"]["name"]
        self.run("pip", "install", "-e", self.package)

    def run(self, *command):
        """What a command prints; it must succeed."""
        done = subprocess.run(
            list(map(str, command)),
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_package_installs_and_keeps_its_contract(example, tmp_path, commands):
    installed = Installed(example, tmp_path, commands)
    slot = installed.name.rpartition("-")[2]
    assert f"{installed.name} 0.1.0" in installed.run("crvnn", "check", slot, installed.name)
    assert f"{installed.name} 0.1.0" in installed.run("crvnn", "assemble", f"--{slot}", installed.name)
    installed.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", installed.package)


ENCODER = "easy-first-encoder"
TEXT = "c d e f a"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, commands):
    """The encoder of the examples, installed, and a run that was trained with it."""
    (example,) = (path for path in EXAMPLES if path.name == ENCODER)
    installed = Installed(example, tmp_path_factory.mktemp("encoder"), commands)
    options = small.options(f"model.encoder={ENCODER}", "training.steps=3")
    installed.run("crvnn", "train", *options, "--out", "run")
    return installed


def test_an_installed_encoder_has_hard_inference_on_the_command_line(encoder):
    predict = ["crvnn", "predict", "run", TEXT, "--plugin", small.PLUGIN, "--json"]
    soft, hard = (json.loads(encoder.run(*predict, *more))[0] for more in ([], ["--hard"]))
    assert soft["probabilities"] != hard["probabilities"]
    assert hard["trees"][0].count("(") == len(TEXT.split()) - 1


def test_an_installed_encoder_is_explored_with_hard_inference_and_neighbours(encoder):
    own = encoder.directory / "venv" / "bin" / "crvnn"  # a process of its own: a signal will end it
    command = [own, "explore", "run", "--port", "0", "--no-open", "--plugin", str(small.PLUGIN)]
    server = subprocess.Popen(
        command, cwd=encoder.directory, env=encoder.environment, stdout=subprocess.PIPE, text=True
    )
    try:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())[1])
        (model,) = _answer(port, "/api/models")["models"]
        query = {"model": "run", "texts": [TEXT], "hard": True}
        (inspected,) = _answer(port, "/api/inspect", query)["sequences"]
        step = len(inspected["compose"]) - 1
        near = _answer(port, "/api/neighbours", {**query, "sequence": 0, "step": step})
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    assert model["hard"]
    assert [setting["name"] for setting in model["encoder"]["settings"]] == ["temperature"]
    assert {value for row in inspected["compose"] + inspected["exists"] for value in row} == {0.0, 1.0}
    first, last = (place for place, exists in enumerate(inspected["exists"][step]) if exists)
    assert near["right"][first] == [[last, 1.0]]
    assert near["left"][last] == [[first, 1.0]]


def _answer(port, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    sent = {"body": json.dumps(body), "headers": {"Content-Type": "application/json"}} if body else {}
    connection.request("POST" if body else "GET", path, **sent)
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    assert response.status == 200, found
    return found


def test_an_installed_encoder_is_measured_soft_and_hard(encoder):
    names = [ENCODER, f"{ENCODER}-hard"]
    chosen = [part for name in names for part in ("--contender", name)]
    size = ["--lengths", "8-12", "--samples", 1, "--repeats", 1, "--width", 8]
    bench = [
        "crvnn",
        "bench",
        "speed",
        "--weights",
        "untrained",
        "--work",
        "forward",
        *chosen,
        *size,
        "--json",
    ]
    entries = json.loads(encoder.run(*bench))["entries"]
    assert [entry["contender"] for entry in entries] == names
    assert all(entry["seconds"] for entry in entries)
