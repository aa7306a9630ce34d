"""Runs are read and compared without torch: a comparison starts as quickly as 'crvnn list'."""

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


@pytest.mark.parametrize(
    "code",
    [f"import {', '.join(MODULES)}", COMPARE.format(names=["listops", "listops-guided"])],
    ids=["import", "compare"],
)
def test_runs_are_read_and_compared_without_torch(code, tmp_path):
    assert imported(code, ["torch", "lightning_fabric", "numpy", "scipy"], tmp_path) == "[]"
