"""The example packages install and keep their contracts, as a stranger's would."""

import importlib
import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import small
from crvnn_core import create_plugin_manager, read_catalog
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.training.trainer import train
from crvnn_explorer.models import Explorer
from exploring import asking, serving
from venvs import throwaway_venv

EXAMPLES = Path(__file__).parents[2] / "plugins" / "examples"
ENCODER = "easy-first-encoder"
TEXT = "c d e f a"


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_an_example_package_installs_and_keeps_its_contract(example, tmp_path, commands):
    environment = throwaway_venv(tmp_path / "venv", commands)

    def run(*command):
        """What a command prints; it must succeed."""
        arguments = list(map(str, command))
        done = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    package = tmp_path / example.name
    shutil.copytree(example, package, ignore=shutil.ignore_patterns("__pycache__"))
    name = tomllib.loads((package / "pyproject.toml").read_text())["project"]["name"]
    run("pip", "install", "-e", package)
    slot = name.rpartition("-")[2]
    assert f"{name} 0.1.0" in run("crvnn", "assemble", f"--{slot}", name)
    run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", package)  # with the checks of 'crvnn check'
    if name == ENCODER:
        run("crvnn", "train", *small.options(f"model.encoder={ENCODER}", "training.steps=3"), "--out", "run")
        predict = ["crvnn", "predict", "run", TEXT, "--plugin", small.PLUGIN, "--json"]
        soft, hard = (json.loads(run(*predict, *more))[0] for more in ([], ["--hard"]))
        assert soft["probabilities"] != hard["probabilities"]
        assert hard["trees"][0].count("(") == len(TEXT.split()) - 1


def test_an_encoder_of_a_package_is_explored_with_hard_inference_and_neighbours(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(EXAMPLES / ENCODER)
    catalog = read_catalog(create_plugin_manager(small, importlib.import_module("easy_first_encoder")))
    sets = [
        "task=letters",
        f"model.encoder={ENCODER}",
        "model.width=8",
        "training.steps=3",
        "training.epochs=0",
    ]
    train(assemble(read_spec(catalog, sets=sets), catalog), tmp_path / "run")
    query = {"model": str(tmp_path / "run"), "texts": [TEXT], "hard": True}
    with serving(Explorer.load([query["model"]], catalog)) as port:
        ask = asking(port)
        (model,) = ask("/api/models")[1]["models"]
        (inspected,) = ask("/api/inspect", query)[1]["sequences"]
        step = len(inspected["compose"]) - 1
        near = ask(f"/api/neighbours/0/{step}", query)[1]
    assert model["hard"]
    assert [setting["name"] for setting in model["encoder"]["settings"]] == ["temperature"]
    assert {value for row in inspected["compose"] + inspected["exists"] for value in row} == {0.0, 1.0}
    first, last = (place for place, exists in enumerate(inspected["exists"][step]) if exists)
    assert near["right"][first] == [[last, 1.0]]
    assert near["left"][last] == [[first, 1.0]]
