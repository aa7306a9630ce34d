"""Training in several processes: the same weights in each, and the same as in one."""

import json

import pytest
import torch

from crvnn_core import CrvnnError
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training.devices import _layout, launched
from crvnn_core.training.trainer import train
from processes import ended, torchrun
from small import PLUGIN, begin, differences, metrics_of, options, variant, weights

#: What is trained, by name. In "alone" the last batch of every epoch has one example, too few for two processes.
CASES = {
    "even": ("training.batch=8",),
    "odd": ("training.batch=7", "training.tokens=9"),
    "pairs": ("task=pairs", "training.batch=5", "training.tokens=20"),
    "dropout": ("training.batch=8", "model.input_dropout=0.3"),
    "reinforced": ("task=pairs", "model.encoder=cooperative", "training.batch=5", "training.tokens=20"),
    "alone": ("training.batch=8", "task.rows=17", "training.epochs=2", "training.evaluate_every=0"),
}

#: Trains every case in the processes that torchrun has started, and keeps what each of them ends with.
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import torch
from crvnn_core.training.trainer import train
from crvnn_core.training import checkpoint
from small import notes_of, variant, weights

for name, sets in json.loads(sys.argv[2]).items():
    assembly = variant(*sets)
    outcome = train(assembly, Path(name))
    rank = torch.distributed.get_rank()
    assert torch.distributed.get_world_size() == 2
    told = notes_of(assembly).kinds
    results = {split: result.plain() for split, result in outcome.results.items()}
    facts = {"step": outcome.step, "best_step": outcome.best_step, "results": results, "told": told}
    Path(f"{name}-{rank}.json").write_text(json.dumps(facts))
    checkpoint.save(Path(f"{name}-{rank}.safetensors"), weights(assembly))
torch.distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """The directory in which two processes have trained every case."""
    path = tmp_path_factory.mktemp("together")
    (path / "train.py").write_text(SCRIPT)
    ended(torchrun(2, "train.py", PLUGIN.parent, json.dumps(CASES), cwd=path))
    return path


def left_by(path, name, rank):
    """The weights that a process ended with, and what it told."""
    facts = json.loads((path / f"{name}-{rank}.json").read_text())
    return checkpoint.load(path / f"{name}-{rank}.safetensors"), facts


@pytest.mark.parametrize("name", CASES)
def test_every_process_ends_with_the_same_weights(together, name):
    (one, first), (two, second) = (left_by(together, name, rank) for rank in (0, 1))
    assert differences(one, two) == []
    for key in ("step", "best_step", "results"):
        assert first[key] == second[key]


@pytest.mark.parametrize("name", ["even", "odd", "pairs"])
def test_two_processes_learn_what_one_does(together, name):
    """And their steps count all examples: loss, accuracy and depth are those of the whole batch."""
    found, facts = left_by(together, name, 0)
    alone = variant(*CASES[name])
    outcome = train(alone, together / f"{name}-in-one")
    assert (facts["step"], facts["best_step"]) == (outcome.step, outcome.best_step)
    for key, tensor in weights(alone).items():
        torch.testing.assert_close(found[key], tensor, atol=1e-5, rtol=0)
    for split, result in outcome.results.items():
        assert facts["results"][split]["total"] == pytest.approx(result.plain()["total"], abs=1e-5)
        assert list(facts["results"][split]["buckets"]) == list(result.buckets)
    one, two = (metrics_of(together / run) for run in (name, f"{name}-in-one"))
    assert [row["kind"] for row in one] == [row["kind"] for row in two]
    for key in ("loss", "accuracy", "depth"):
        assert [row[key] for row in one] == pytest.approx([row[key] for row in two], abs=1e-4)


def test_an_example_alone_in_its_batch_keeps_no_process_waiting(together):
    _, facts = left_by(together, "alone", 0)
    assert facts["step"] == 6  # two whole batches and the one example, in each of two epochs


def test_only_the_first_process_tells_observers_and_writes(together):
    weights, facts = left_by(together, "even", 0)
    assert facts["told"][0] == "started"
    assert left_by(together, "even", 1)[1]["told"] == []
    steps = [row["step"] for row in metrics_of(together / "even")]
    assert steps == sorted(steps)
    assert len(steps) == 8  # six steps and two looks, each once
    kept = checkpoint.load(RunDirectory(together / "even").weights)["model"]
    assert differences(kept, weights) == []


def test_the_command_line_starts_the_processes_itself(tmp_path):
    args = [*options("training.devices=2", "training.steps=3"), "--seeds", "2", "--out", "a", "--json"]
    process = begin("train", *args, cwd=tmp_path)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = json.loads(out)  # of the first process alone
    assert list(found["runs"]) == ["a/seed-0", "a/seed-1"]
    alone = variant("training.steps=3")
    train(alone, tmp_path / "alone")
    kept = checkpoint.load(tmp_path / "a" / "seed-0" / "weights.safetensors")["model"]
    for key, tensor in weights(alone).items():
        torch.testing.assert_close(kept[key], tensor, atol=1e-5, rtol=0)


#: A task whose data cannot be read by the second process, as if a file were missing on its machine.
MISSING = """
import os
from crvnn_core import Component, CrvnnError, hookimpl
from small import Letters

class Missing(Letters):
    def examples(self, split, seed):
        if os.environ.get("LOCAL_RANK") == "1":
            raise CrvnnError("train.tsv is missing")
        return super().examples(split, seed)

@hookimpl
def crvnn_tasks():
    return [Component("missing", Missing)]
"""


def test_the_error_of_one_process_ends_the_others_and_they_name_it(tmp_path):
    (tmp_path / "missing.py").write_text(MISSING)
    args = options("training.devices=2", "task=missing")
    process = begin("--plugin", "missing.py", "train", *args, "--out", "a", cwd=tmp_path)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "crvnn: train.tsv is missing" in errors  # the process itself
    assert "crvnn: rank 1 of 2 processes (" in errors  # the other
    assert "has ended with the message: train.tsv is missing" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (5, 1)),
        ({"LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "6"}, (2, 3)),
        ({"SLURM_NTASKS": "8", "SLURM_NTASKS_PER_NODE": "4", "SLURM_NNODES": "2"}, (4, 2)),
        ({"SLURM_NTASKS": "1", "SLURM_NNODES": "1"}, (5, 1)),  # one task, which starts the processes itself
        ({"SLURM_NTASKS": "8", "SLURM_JOB_NAME": "interactive"}, (5, 1)),
        ({"SLURM_NTASKS": "8", "LOCAL_WORLD_SIZE": "3", "WORLD_SIZE": "3"}, (3, 1)),  # torchrun within a job
    ],
)
def test_the_launcher_says_how_many_processes_there_are_and_where(monkeypatch, variables, expected):
    for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS", "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _layout(variant("training.devices=5").spec.training) == expected


@pytest.mark.parametrize("text", ["x", "0", "-1", "1e3", "1000000"])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(monkeypatch, text):
    monkeypatch.setenv("CRVNN_TIMEOUT", text)
    with pytest.raises(CrvnnError, match=f"CRVNN_TIMEOUT is set to '{text}'.*a number of seconds"):
        launched(variant("training.devices=2").spec.training)
