"""Small sweeps, which take moments."""

from pathlib import Path

import pytest

from crvnn_core.spec import read_spec
from crvnn_core.spec.resolve import spec_layers
from crvnn_experiments.findings import read_findings
from crvnn_experiments.settings import read_sweep
from crvnn_experiments.sweep import start_sweep
from crvnn_experiments.worker import Worker

BASE = """
[task]
name = "letters"

[model]
width = 8
scorer = {name = "window", transition = 4}

[training]
batch = 8
epochs = 0
steps = 4
evaluate_every = 2
threads = 1
accelerator = "cpu"
observers = []
"""
SPACE = """
[sweep.space]
"model.cell" = ["gated", "lstm"]
"model.decision" = ["sigmoid", "modulated"]
"""


def write(directory, text=SPACE, base=BASE):
    """A spec file with a search space."""
    path = Path(directory, "letters.toml")
    path.write_text(base + text, encoding="utf-8")
    return path


def sweep_of(catalog, path, *sets):
    """The sweep of a spec file, checked."""
    return read_sweep(catalog, spec_layers(catalog, path), read_spec(catalog, path), sets)


def started(catalog, directory, text=SPACE, base=BASE, **options):
    """A study in a directory, whose trials wait."""
    return start_sweep(catalog, write(directory, text, base), out=Path(directory, "study"), **options)


def finished(catalog, directory, text=SPACE, base=BASE, **options):
    """A study that one worker has finished, and what it found."""
    study = started(catalog, directory, text, base, **options)
    assert Worker(study, lambda line: None).work()
    return study, read_findings(study)


def needs_optuna():
    """Skips a module of tests without Optuna."""
    pytest.importorskip("optuna", reason="the extra 'sweep' is not installed")
