"""The example packages install and keep their contracts, as a stranger's would."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from venvs import throwaway_venv

EXAMPLES = sorted((Path(__file__).parents[2] / "plugins" / "examples").iterdir())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_package_installs_and_keeps_its_contract(example, tmp_path):
    environment = throwaway_venv(tmp_path / "venv")
    package = tmp_path / example.name
    shutil.copytree(example, package, ignore=shutil.ignore_patterns("__pycache__"))
    name = tomllib.loads((package / "pyproject.toml").read_text())["project"]["name"]
    script = f"pip install -e {package}; crvnn check cell {name}; crvnn assemble --cell {name}"
    script += f"; python -m pytest -q {package}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name} 0.1.0" in done.stdout
