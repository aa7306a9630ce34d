"""Virtual environments that take a second to make, need no network and are thrown away."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
import venv
from pathlib import Path

from warm import PACKAGES

_SCRIPTS = {"crvnn": "from crvnn_core.cli import main", "pip": "from pip._internal.cli.main import main"}


def throwaway_venv(directory: Path, commands: str = "") -> dict[str, str]:
    """Make a virtual environment in ``directory``; the environment variables to run its commands with.

    It sees every package of the running interpreter, crvnn included, but what is installed into it stays
    there. Its pip builds packages with the hatchling that it sees, and asks no index.

    :param commands: a directory with a ``crvnn`` that starts at once (``warm.py``), used in place of its own.
    """
    venv.EnvBuilder(symlinks=os.name != "nt").create(directory)
    paths = {"base": str(directory), "platbase": str(directory)}
    own, seen = (Path(sysconfig.get_path("purelib", vars=where)) for where in (paths, None))
    (own / "visible.pth").write_text(f"import site; site.addsitedir({str(seen)!r})\n", encoding="utf-8")
    programs = Path(sysconfig.get_path("scripts", vars=paths))
    for name, imported in _SCRIPTS.items():
        _write_program(programs / name, imported)
    environment = _environment(directory, programs)
    if commands:
        environment["PATH"] = os.pathsep.join([commands, environment["PATH"]])
        environment[PACKAGES] = str(own)
    return environment


def _write_program(path: Path, imported: str) -> None:
    python = path.parent / "python"
    path.write_text(f"#!{python}\nimport sys\n{imported}\nsys.exit(main())\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _environment(directory: Path, programs: Path) -> dict[str, str]:
    own = ("PYTHONHOME", "PYTHONPATH", "PIP_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    return {
        **kept,
        "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "VIRTUAL_ENV": str(directory),
        "PIP_CONFIG_FILE": os.devnull,  # nor does it matter how pip is set up on this machine
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this as the value of --build-isolation: 0 means none
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
