"""Runs are read and compared without torch: a comparison starts as quickly as 'crvnn list'."""

import json
import pkgutil
import subprocess
import sys

import pytest

import crvnn_core.runs

MODULES = [f"crvnn_core.runs.{module.name}" for module in pkgutil.iter_modules(crvnn_core.runs.__path__)]
COMPARE = "from crvnn_core.cli import main; main(['compare', *{names}], standalone_mode=False)"


def imported(code, names, cwd):
    """Which of these modules have been imported after the code has run in a Python of its own."""
    ask = f"import sys\n{code}\nprint([name for name in {names} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, cwd=cwd)
    return done.stderr.strip()


def make_run(path, seed, width, accuracy):
    path.mkdir(parents=True)
    spec = f'seed = {seed}\ntask = "letters"\n[model]\nwidth = {width}\n'
    (path / "spec.toml").write_text(f"# resolved by crvnn\n{spec}# end\n")
    score = {"examples": 20, "accuracy": accuracy, "loss": 0.5, "depth": 2.0}
    splits = {"test": {"total": score, "buckets": {"3": score}}}
    (path / "results.json").write_text(json.dumps({"seed": seed, "step": 1, "splits": splits}))
    return str(path)


@pytest.mark.parametrize(
    "code",
    [f"import {', '.join(MODULES)}", COMPARE.format(names=["listops", "listops-guided"])],
    ids=["import", "compare"],
)
def test_runs_are_read_and_compared_without_torch(code, tmp_path):
    assert imported(code, ["torch", "lightning_fabric", "numpy", "scipy"], tmp_path) == "[]"


def test_confidence_intervals_import_only_what_they_need_of_scipy(tmp_path):
    names = [
        make_run(tmp_path / f"{width}-{seed}", seed, width, 0.5 + width / 50 + seed / 100)
        for width in (8, 16)
        for seed in (0, 1)
    ]
    found = imported(COMPARE.format(names=names), ["torch", "scipy.stats", "scipy.special"], tmp_path)
    assert found == "['scipy.special']"
