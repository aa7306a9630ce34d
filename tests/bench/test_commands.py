"""The command group, and the environment of results."""

import subprocess
import sys

from bench_cli import run


def test_every_command_has_an_example():
    for name in ("speed", "encoders", "lengths", "shortcuts", "profile", "plot"):
        assert f"crvnn bench {name}" in run(name, "--help").stdout.partition("Examples:")[2], name


def test_the_command_is_offered_without_importing_torch():
    code = "import sys; import crvnn_bench.commands; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
