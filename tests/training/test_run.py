"""Writing a run directory: what is there before training, and checkpoints that are never half written."""

import errno
import json
import os
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from crvnn_core import CrvnnError, Observer
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint, trainer
from crvnn_core.training.trainer import train
from files import contents
from small import Letters, variant, weights
from training_runs import trained


@pytest.fixture
def run(letters_run, tmp_path):
    """A copy of a run, to be changed."""
    return RunDirectory(shutil.copytree(letters_run, tmp_path / "run"))


def test_a_run_is_not_overwritten(run):
    before = contents(run.path)
    with pytest.raises(CrvnnError) as caught:
        train(variant(), run.path)
    assert str(caught.value) == (
        f"{run.path} holds a run already. Resume it with 'crvnn train --resume {run.path}', or choose another --out."
    )
    assert contents(run.path) == before


def test_a_directory_that_holds_other_things_may_become_a_run(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    train(variant("training.steps=1"), tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "spec.toml").exists()


def test_a_new_run_is_locked_before_anything_is_written_into_it(tmp_path, monkeypatch):
    run, create = RunDirectory(tmp_path / "run"), trainer.create_run

    def checked(*args):
        assert [path.name for path in run.path.iterdir()] == [".lock"]
        with pytest.raises(CrvnnError, match="another process is training in"):
            train(variant("training.steps=1"), run.path)
        create(*args)

    monkeypatch.setattr(trainer, "create_run", checked)
    assert train(variant("training.steps=2"), run.path).step == 2


def test_the_environment_of_a_run_names_versions_and_the_threads_that_took_part(letters_run):
    found = json.loads((letters_run / "environment.json").read_text())
    assert found["packages"]["torch"] == version("torch")
    assert f"crvnn {version('crvnn')}" in found["components"]
    assert found["python"].count(".") == 2
    assert found["threads"] == torch.get_num_threads()


def test_a_run_directory_that_is_deleted_during_training_is_not_made_again(tmp_path):
    class Deleting(Observer):
        def stepped(self, step, metrics):
            shutil.rmtree(tmp_path / "run", ignore_errors=True)

    assembly = variant()
    assembly.observers.append(Deleting())
    with pytest.raises(CrvnnError, match="the run directory was deleted or moved during training"):
        train(assembly, tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Full:
    """A disk that is full once ``fill`` is called: one of the ways to write then fails."""

    def __init__(self, monkeypatch, way):
        self.monkeypatch, self.way = monkeypatch, way

    def fill(self):
        def fail(*args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def open_full(path, mode="r", *args, opened=Path.open, **kwargs):
            return fail() if mode == "wb" else opened(path, mode, *args, **kwargs)

        where, name, how = {
            "writing": (Path, "open", open_full),
            "syncing": (os, "fsync", fail),
            "renaming": (Path, "replace", fail),
        }[self.way]
        self.monkeypatch.setattr(where, name, how)


@pytest.mark.parametrize(
    ("way", "step"),  # before a checkpoint, and before an evaluation that would be the best
    [("writing", 3), ("writing", 4), ("syncing", 3), ("renaming", 4)],
)
def test_a_full_disk_is_a_clear_error_and_the_old_checkpoint_is_still_there(way, step, tmp_path, monkeypatch):
    run = RunDirectory(tmp_path / "run")
    assembly = variant("training.evaluate_every=5", "training.save_every=1")
    with monkeypatch.context() as patch:
        disk = Full(patch, way)

        class Filling(Observer):
            def stepped(self, number, metrics):
                if number == step:
                    disk.fill()

        assembly.observers.append(Filling())
        with pytest.raises(CrvnnError, match=r"cannot be written: .*No space left on device") as caught:
            train(assembly, run.path)
    assert "the file is unchanged" in str(caught.value)
    assert checkpoint.load(run.last)["position"]["step"] == step - 1
    assert list(run.path.rglob(".*")) == []
    again = variant("training.evaluate_every=5", "training.save_every=1")
    assert train(again, run.path, resume=True).step == 6


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run whose weights another may start from."""
    path = tmp_path_factory.mktemp("first") / "first"
    trained(out=path)
    return path


def test_training_may_start_from_the_weights_of_another_run(first):
    learnt = checkpoint.load(RunDirectory(first).weights)["model"]
    slow = ("training.optimizer.learning_rate=1e-7", "training.steps=7")  # the optimizer looks ahead after 5
    second = variant(f"training.start={first}", "seed=9", *slow)
    fresh = weights(second)
    train(second, evaluate_splits=[])
    torch.testing.assert_close(weights(second), learnt, atol=1e-4, rtol=0)
    assert max((fresh[name] - tensor).abs().max() for name, tensor in learnt.items()) > 0.5


class Strange(Letters):
    vocabulary = tuple("abcdeg")


@pytest.mark.parametrize(
    ("change", "components", "fault"),
    [
        ((), {"task": Strange}, r"\[training\.start\]: the vocabulary of .*first differs"),
        (
            ("model.width=9",),
            {},
            r"first/weights\.safetensors: .* do not fit the model:\n .*wrong shape: \S+ is \[",
        ),
    ],
)
def test_weights_of_another_vocabulary_or_shape_are_refused_as_a_start(change, components, fault, first):
    with pytest.raises(CrvnnError, match=fault):
        train(variant(f"training.start={first}", *change, **components))


def test_a_start_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(CrvnnError, match=r"\[training\.start\]: .*nowhere: there is no such directory"):
        train(variant(f"training.start={tmp_path / 'nowhere'}"))


def test_a_resumed_run_no_longer_needs_its_start(first, tmp_path):
    start = shutil.copytree(first, tmp_path / "first")
    sets = (f"training.start={start}", "training.steps=3")
    trained(*sets, out=tmp_path / "second")
    shutil.rmtree(start)
    assert train(variant(*sets, "training.steps=5"), tmp_path / "second", resume=True).step == 5
