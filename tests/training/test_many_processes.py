"""What docs/how-to/many-processes.md promises: ``make test-processes`` runs this and prints the figures."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from crvnn_core.training import checkpoint
from processes import (
    PATIENCE,
    children,
    ended,
    free_port,
    is_running,
    kill_all,
    srun,
    start,
    torchrun,
    wait_until,
)
from small import PLUGIN, begin, metrics_of, options, variant

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

#: Within so many seconds after a rank has died or hangs the others have ended.
LIMIT = 30

#: 100 steps each, and batches that 2 and 3 processes share unevenly; the last one of an epoch has 1 example.
CURVES = {
    "batch": ("task.rows=289", "training.batch=32"),
    "tokens": ("task.rows=289", "training.batch=32", "training.tokens=100"),
    "pairs": ("task=pairs", "task.rows=289", "training.batch=32", "training.tokens=150"),
    "short-to-long": ("task.rows=289", "training.batch=32", "training.order=short-to-long"),
}
COMMON = (
    "task.longest=12",
    "model.width=32",
    "training.steps=100",
    "training.evaluate_every=50",
    "training.optimizer.learning_rate=0.002",
)

#: Trains every case, and writes the examples that this process has computed, epoch by epoch.
SCRIPT = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from crvnn_core.training.trainer import Trainer, train
from small import variant

seen, share = [], Trainer._share
def recorded(self, examples):
    mine = share(self, examples)
    seen.append([self.position.epoch, [[e.sequences, e.label] for e in mine]])
    return mine
Trainer._share = recorded

for name, sets in json.loads(sys.argv[3]).items():
    seen.clear()
    train(variant(*sets), Path(sys.argv[2]) / name)
    Path(sys.argv[2], f"{name}-{os.environ.get('RANK', 0)}.json").write_text(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The directories in which one, two and three processes have trained every case."""
    path = tmp_path_factory.mktemp("processes")
    (path / "train.py").write_text(SCRIPT)
    cases = json.dumps({name: [*COMMON, *sets] for name, sets in CURVES.items()})
    for processes in (1, 2, 3):
        (path / str(processes)).mkdir()
        ended(torchrun(processes, "train.py", PLUGIN.parent, processes, cases, cwd=path))
    return path


def curve(run):
    """The loss of every step and evaluation."""
    return [row["loss"] for row in metrics_of(run)]


@pytest.mark.parametrize("name", CURVES)
def test_one_two_and_three_processes_have_the_same_loss_curve(trained, name):
    one = curve(trained / "1" / name)
    assert len(one) == 102
    assert one[-1] < one[0] - 0.01  # it has learnt something
    for processes in ("2", "3"):
        other = curve(trained / processes / name)
        apart = max(abs(a - b) for a, b in zip(one, other, strict=True))
        print(
            f"\n{name}: the losses of 1 and {processes} processes differ by at most {apart:.1e} in 100 steps"
        )
        assert apart < 1e-5


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("name", CURVES)
def test_every_row_is_seen_once_in_an_epoch(trained, name, processes):
    epochs = {}
    for rank in range(processes):
        for epoch, rows in json.loads((trained / str(processes) / f"{name}-{rank}.json").read_text()):
            epochs.setdefault(epoch, Counter()).update(map(json.dumps, rows))
    task = variant(*COMMON, *CURVES[name]).task
    whole = [json.dumps([example.sequences, example.label]) for example in task.epoch(0, 0)]
    assert len(whole) == 289
    assert list(epochs) == list(range(10))  # 10 batches each
    assert all(found == Counter(whole) for found in epochs.values())


ENDLESS = ("training.steps=1000000", "training.save_every=5", "training.evaluate_every=1000000")


@pytest.mark.parametrize(
    ("launcher", "processes", "rank", "number", "busy"),
    [
        ("devices", 3, 1, signal.SIGKILL, 0),
        ("devices", 2, 0, signal.SIGKILL, 0),
        ("devices", 3, 1, signal.SIGKILL, 8),
        ("devices", 2, 0, signal.SIGKILL, 8),
        ("devices", 3, 2, signal.SIGSTOP, 0),
        ("devices", 2, 0, signal.SIGSTOP, 0),
        ("torchrun", 3, 1, signal.SIGKILL, 0),
        ("torchrun", 3, 0, signal.SIGSTOP, 0),
    ],
)
def test_a_rank_that_dies_or_is_stopped_ends_the_others_with_a_message(
    tmp_path, launcher, processes, rank, number, busy
):
    """Beside so many other programs, which keep the cores busy."""
    if launcher == "torchrun":
        process = torchrun(processes, PLUGIN, "train", *options(*ENDLESS), "--out", "run", cwd=tmp_path)
    else:
        args = options(*ENDLESS, f"training.devices={processes}")
        process = begin("train", *args, "--out", "run", cwd=tmp_path)
    ranks, loops = [], []
    try:
        wait_until((tmp_path / "run" / "checkpoints" / "last.safetensors").exists)
        ranks = children(process) if launcher == "torchrun" else [process.pid, *children(process)]
        assert len(ranks) == processes
        lost, others = ranks[rank], [pid for pid in ranks if pid != ranks[rank]]
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        time.sleep(2 if busy else 0)
        os.kill(lost, number)
        if lost == process.pid and number == signal.SIGKILL:
            process.wait()
        seconds = wait_until(lambda: not any(map(is_running, others)), seconds=2 * LIMIT)
        if number == signal.SIGSTOP:
            os.kill(lost, signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        kill_all(process, ranks)
    beside = f", {busy} busy programs" if busy else ""
    print(
        f"\n{launcher}, {processes} processes, rank {rank}, {number.name}{beside}: the others ended in {seconds:.1f} s"
    )
    assert seconds < LIMIT
    assert process.returncode != 0
    assert f"{lost}" in errors or "gets no answer from the store" in errors
    assert not re.search(r'File "[^"]*crvnn_core', errors)  # torchrun has a traceback of its own
    if launcher == "devices":
        assert "'crvnn train --resume run' resumes from the last checkpoint" in errors


def test_after_a_killed_rank_the_run_goes_on_with_another_number_of_processes(tmp_path):
    sets = ("training.save_every=5", "training.evaluate_every=20", "training.steps=40", "task.rows=60")
    ended(begin("train", *options(*sets), "--out", "whole", cwd=tmp_path))
    process = begin("train", *options(*sets, "training.devices=2"), "--out", "run", cwd=tmp_path)
    ranks = []
    try:
        wait_until((tmp_path / "run" / "checkpoints" / "last.safetensors").exists)
        ranks = children(process)
        os.kill(ranks[0], signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
    finally:
        kill_all(process, ranks)
    assert process.returncode == 2
    for processes, steps in ((3, 30), (1, 35), (2, 40)):
        changes = (f"training.devices={processes}", f"training.steps={steps}")
        sets = [part for change in changes for part in ("--set", change)]
        ended(begin("--plugin", PLUGIN, "train", "--resume", "run", *sets, cwd=tmp_path))
    rows = [
        [row for row in metrics_of(tmp_path / name) if row["kind"] == "train"] for name in ("run", "whole")
    ]
    assert [row["step"] for row in rows[0]] == list(range(1, 41))
    assert [row["loss"] for row in rows[0]] == pytest.approx([row["loss"] for row in rows[1]], abs=1e-5)


#: Its first process waits for ever, in Python code.
HANGING = """
import os, threading
from crvnn_core import Component, Observer, hookimpl

class Hanging(Observer):
    def stepped(self, step, metrics):
        if step == 3:
            threading.Event().wait()

@hookimpl
def crvnn_observers():
    return [Component("hanging", Hanging)]
"""


def test_a_rank_that_hangs_in_its_code_ends_the_others_after_the_timeout_and_says_where(tmp_path):
    (tmp_path / "hanging.py").write_text(HANGING)
    args = options("training.devices=2", 'training.observers=["hanging"]')
    process = start(
        sys.executable,
        PLUGIN,
        "--plugin",
        "hanging.py",
        "train",
        *args,
        "--out",
        "run",
        cwd=tmp_path,
        CRVNN_TIMEOUT=30,
    )
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "rank 1 of 2 processes" in errors
    assert "timed out waiting for another rank" in errors
    assert "rank 0 is at" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(("nodes", "tasks"), [(1, 2), (2, 1)])
def test_slurm_starts_the_processes(tmp_path, nodes, tasks):
    ended(*srun(nodes, tasks, "train", *options(), "--out", "run", cwd=tmp_path))
    ended(begin("train", *options(), "--out", "alone", cwd=tmp_path))
    kept, alone = (
        checkpoint.load(tmp_path / name / "weights.safetensors")["model"] for name in ("run", "alone")
    )
    assert all(kept[name].sub(tensor).abs().max() < 1e-5 for name, tensor in alone.items())


def test_torchrun_starts_the_processes_of_two_nodes(tmp_path):
    port = free_port()
    nodes = [
        start(
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--node-rank", node),
            *("--nproc-per-node", 1, "--master-addr", "127.0.0.1", "--master-port", port),
            *(PLUGIN, "train", *options(), "--out", "run"),
            cwd=tmp_path,
        )
        for node in range(2)
    ]
    ended(*nodes)
    steps = [row["step"] for row in metrics_of(tmp_path / "run") if row["kind"] == "train"]
    assert steps == [1, 2, 3, 4, 5, 6]
