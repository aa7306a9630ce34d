"""Small tables, which take moments, and processes that work on them."""

import os
import signal
from pathlib import Path

from crvnn_core.runs.records import read_metrics
from crvnn_experiments.definition import read_table
from crvnn_experiments.ledger import Entry, Ledger
from crvnn_experiments.plan import Plan
from crvnn_experiments.specs import with_rows
from crvnn_experiments.worker import Worker

TABLE = """
title = "Letters"
source = "a paper about letters"

[experiments.letters]
title = "Letters"
[experiments.letters.laptop]
data = "forty sequences of letters"
seeds = 2
[experiments.letters.laptop.spec]
task = "letters"
model = { width = 8, scorer = { name = "window", transition = 4 } }
[experiments.letters.laptop.spec.training]
batch = 8
epochs = 0
steps = 8
evaluate_every = 4
save_every = 1
threads = 1
accelerator = "cpu"
observers = []
[experiments.letters.paper]
data = "all letters"
needs = { alphabet = "letters" }
spec = { task = "letters" }

[systems.plain]
title = "Plain"
[systems.sigmoid]
title = "- modulation"
model = { decision = "sigmoid" }
[systems.stone]
title = "Stone tablet"
missing = "nobody can read it"
[systems.unheard-of]
title = "Unheard of"
model = { encoder = "unheard-of" }

[[columns]]
name = "accuracy"
experiment = "letters"
[[columns]]
name = "longer"
experiment = "letters"
test = { laptop = { longest = 9 }, paper = { longest = 9 } }

[[rows]]
system = "plain"
published = { accuracy = "99.6 ± 0.3" }
source = "Someone (2020)"
[[rows]]
system = "sigmoid"
published = { accuracy = "90.8" }
[[rows]]
system = "stone"
published = { accuracy = "12" }
[[rows]]
system = "unheard-of"

[[claims]]
says = "Modulation helps"
row = "plain"
better_than = ["sigmoid"]
columns = ["accuracy"]
[[claims]]
says = "The stone tablet is close"
row = "plain"
close_to = "stone"
within = { laptop = 5.0 }
"""

#: A row of a ledger.
ENTRY = Entry(
    experiment="letters",
    system="plain",
    fingerprint="01234567",
    budget="laptop",
    seed=0,
    figures={"test": 0.5},
    hours=0.1,
    cpu_hours=0.1,
    data="letters",
    hardware={"cpu": "a processor"},
    versions={"torch": "2"},
    commit="",
    date="2020-01-01",
)


def write_table(directory, text=TABLE, name="letters.toml"):
    """A table in a file."""
    path = Path(directory, name)
    path.write_text(text, encoding="utf-8")
    return path


def planned(catalog, directory, text=TABLE, *, add=(), only=None, seeds=None, budget="laptop", ledger=None):
    """The plan of a small table in a directory."""
    table = read_table(str(write_table(directory, text)))
    table = with_rows(table.only(only) if only else table, add, catalog)
    return Plan(
        table=table,
        budget=budget,
        seeds=seeds,
        directory=Path(directory, "reproduced"),
        data=Path(directory, "data"),
        catalog=catalog,
        ledger=Ledger(ledger or Path(directory, "reproduced", "ledger.jsonl")),
    )


def worked(plan):
    """What a worker told while it did all of a plan."""
    told = []
    assert Worker(plan, told.append, wait=True).work()
    return told


def forked(function):
    """The number of a process that calls a function and ends."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = int(not function())
        finally:
            os._exit(code)
    return process


def ended(process):
    """The exit code of a process when it has ended; negative if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def kill(process):
    """Kill a process; whether it was still there."""
    os.kill(process, signal.SIGKILL)
    return ended(process) == -signal.SIGKILL


def steps_of(run):
    """The training steps that a run has recorded, in order."""
    return [row["step"] for row in read_metrics(run.directory / "metrics.jsonl") if row["kind"] == "train"]


def figures(plan):
    """All figures of a plan's ledger, by key."""
    return {key: entry.figures for key, entry in plan.ledger.entries.items()}
