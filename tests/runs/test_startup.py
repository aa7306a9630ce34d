"""Records are read and compared without torch: a comparison starts as quickly as 'crvnn list'."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
{action}
slow = [name for name in ("torch", "lightning_fabric", "numpy", "scipy") if name in sys.modules]
assert not slow, f"imported: {{slow}}"
"""
COMMAND = (
    "from crvnn_core.cli import main; main(['compare', 'listops', 'listops-guided'], standalone_mode=False)"
)


def modules():
    import pkgutil

    import crvnn_core.runs

    return [f"crvnn_core.runs.{module.name}" for module in pkgutil.iter_modules(crvnn_core.runs.__path__)]


@pytest.mark.parametrize("action", [f"import {', '.join(modules())}", COMMAND], ids=["import", "compare"])
def test_runs_are_read_and_compared_without_torch(action):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(action=action)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
