"""Packing a run: all that is needed to use it, and nothing else."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from crvnn_core import CrvnnError
from crvnn_core.cli import main
from crvnn_core.files import sha256_of
from crvnn_core.inference.trained import load
from crvnn_core.runs.directory import RunDirectory
from crvnn_export.contents import contents

NEEDED = {"README.md", "config.json", "environment.json", "results.json", "spec.toml", "vocabulary.json"}
NEEDED |= {"weights.safetensors"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CRVNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(letters_run, tmp_path):
    """A copy of a run, to be changed."""
    return RunDirectory(shutil.copytree(letters_run, tmp_path / "letters"))


def crvnn(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_packed_run_is_loaded_again(run, small_catalog):
    done = crvnn("share", "pack", run.path)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("letters.zip: 7 files, ")
    assert f"sha256 {sha256_of(Path('letters.zip'))}\n" in done.output
    again = load("letters.zip", small_catalog).predict(["a b c"])[0]
    assert again.probabilities == load(run.path, small_catalog).predict(["a b c"])[0].probabilities
    assert set(zipfile.ZipFile("letters.zip").namelist()) == {f"letters/{name}" for name in NEEDED}
    done = crvnn("share", "pack", "letters.zip", "--out", "again.zip")
    assert done.exit_code == 0, done.output
    assert Path("again.zip").read_bytes() == Path("letters.zip").read_bytes()


def test_metrics_checkpoints_and_plug_in_files_are_packed_when_asked_for_or_there(run):
    assert set(contents(run, "x", metrics=True)) == NEEDED | {"metrics.jsonl"}
    states = {"metrics.jsonl", "checkpoints/last.safetensors"}
    assert set(contents(run, "x", checkpoints=True)) == NEEDED | states
    (run.path / "plugins").mkdir()
    (run.path / "plugins" / "mine.py").write_text("# a cell\n")
    assert "plugins/mine.py" in contents(run, "x")
    run.last.unlink()
    with pytest.raises(CrvnnError, match=r"checkpoints/last\.safetensors is missing"):
        contents(run, "x", checkpoints=True)


def test_packing_twice_gives_the_same_bytes(run):
    crvnn("share", "pack", run.path, "--out", "one.zip")
    shutil.copytree(run.path, "elsewhere/letters")
    done = crvnn("share", "pack", "elsewhere/letters", "--out", "two.zip", "--json")
    assert Path("one.zip").read_bytes() == Path("two.zip").read_bytes()
    facts = json.loads(done.stdout)
    assert facts["sha256"] == sha256_of(Path("one.zip"))
    assert set(facts["files"]) == NEEDED


def test_an_installed_model_is_packed_under_its_name():
    done = crvnn("share", "pack", "listops")
    assert done.exit_code == 0, done.output
    with zipfile.ZipFile("listops.zip") as archive:
        card = archive.read("listops/README.md").decode()
        config = json.loads(archive.read("listops/config.json"))
    assert "# The ListOps model" in card  # what its makers wrote
    assert config["id2label"]["9"] == "9"
    assert config["model"]["width"] == 64


def test_several_seeds_are_packed_together(run, tmp_path):
    group = tmp_path / "group"
    for seed in (0, 1):
        shutil.copytree(run.path, group / f"seed-{seed}")
    (group / "seed-1" / "weights.safetensors").unlink()
    (group / "seeds.toml").write_text("# resolved by crvnn\n# end\n")
    (group / "summary.json").write_text("{}")
    files = contents(RunDirectory(group), "group")
    assert set(files) == {"seeds.toml", "summary.json"} | {f"seed-0/{name}" for name in NEEDED}
    done = crvnn("share", "pack", group)
    assert done.exit_code == 0, done.output
    assert "1 run of the task 'letters'" in crvnn("compare", "group.zip").output


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("weights.safetensors", "is incomplete: weights.safetensors is missing"),
        ("vocabulary.json", "is incomplete: vocabulary.json is missing"),
        ("spec.toml", "it has no spec.toml"),
    ],
)
def test_an_incomplete_run_is_not_packed(run, missing, message):
    (run.path / missing).unlink()
    done = crvnn("share", "pack", run.path)
    assert done.exit_code == 2
    assert message in done.output
    assert not Path("letters.zip").exists()


def test_a_run_without_results_is_packed_without_them(run):
    run.results.unlink()
    assert set(contents(run, "x")) == NEEDED - {"results.json"}
    assert "## Results" not in contents(run, "x")["README.md"]
