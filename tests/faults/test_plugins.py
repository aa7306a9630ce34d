"""A plug-in that raises, exits, prints, hangs or returns garbage in any of its hooks."""

import json
import signal
import sys
import types
import warnings
from importlib.metadata import EntryPoint

import pytest
from click.testing import CliRunner

from crvnn_core.cli import main
from crvnn_core.host import hooks, manager
from disturbed import assert_told, until

HOOKS = sorted(name for name in vars(hooks) if name.startswith("crvnn_"))
#: The command that calls each hook; all others are called for the catalog.
COMMANDS = {"crvnn_kernels": ["doctor", "--build"], "crvnn_commands": ["--help"]}
FEW = ("crvnn_cells", *COMMANDS)  # of the default tests; 'make test-faults' takes all
CASES = [pytest.param(hook, marks=() if hook in FEW else pytest.mark.slow) for hook in HOOKS]
DEEDS = {
    "raises": "raise RuntimeError('broken')",
    "exits": "import sys; sys.exit(0)",
    "prints": "print('zzz-noise'); return []",
    "returns garbage": "return 12",
    "returns garbage in a list": "return [12, None]",
}
FILE = "import time\nfrom crvnn_core import hookimpl\n\n@hookimpl\ndef {hook}():\n    {deed}\n"


class Package:
    """Of an entry point."""

    name, version = "faulty", "1.0"


def called(hook):
    return COMMANDS.get(hook, ["list", "--json"])


def call(*args):
    result = CliRunner().invoke(main, [str(arg) for arg in args], prog_name="crvnn")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("hook", CASES)
def test_a_file_that_was_asked_for_is_named_with_its_hook(hook, deed, tmp_path):
    file = tmp_path / "faulty.py"
    file.write_text(FILE.format(hook=hook, deed=DEEDS[deed]))
    result = call("--plugin", file, *called(hook))
    if deed == "prints":
        assert result.exit_code == 0, result.output
        assert "zzz-noise" not in result.stdout
    else:
        assert result.exit_code == 2, result.output
        assert_told(f"a plug-in file that {deed} in any hook", result.stderr)
        assert hook in result.stderr


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("hook", CASES)
def test_an_installed_one_is_left_out_and_the_others_work(hook, deed, monkeypatch):
    module = types.ModuleType("faulty_plugin")
    exec(FILE.format(hook=hook, deed=DEEDS[deed]), module.__dict__)
    monkeypatch.setitem(sys.modules, "faulty_plugin", module)
    everyone = manager._installed()
    faulty = EntryPoint("faulty", "faulty_plugin", "crvnn")._for(Package())
    monkeypatch.setattr(manager, "_installed", lambda: [*everyone, faulty])
    with warnings.catch_warnings():  # which are errors in tests, and printed in a process of its own
        warnings.simplefilter("always")
        result = call(*called(hook))
    assert result.exit_code in (0, 1) if hook == "crvnn_kernels" else result.exit_code == 0, result.output
    if called(hook)[0] == "list":
        assert json.loads(result.stdout)
    if deed != "prints":
        assert_told("an installed plug-in that fails in any hook", result.stderr)
        assert hook in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "hook",
    [pytest.param(hook, marks=() if hook == "crvnn_commands" else pytest.mark.slow) for hook in HOOKS],
)
def test_one_that_hangs_is_named_and_a_signal_ends_it(hook, number, crvnn, tmp_path):
    (tmp_path / "faulty.py").write_text(FILE.format(hook=hook, deed="time.sleep(600)"))
    impatient = "from crvnn_core import delays; delays.PATIENCE = 0.2"
    process = crvnn("--plugin", "faulty.py", *called(hook), code=impatient)
    assert until(lambda: "still waiting" in process.err)
    process.send(number)
    assert process.wait(60) == 128 + number
    assert_told("a plug-in that hangs in any hook", process.err)
    assert "crvnn: interrupted" in process.err or "crvnn: ended by SIGTERM" in process.err
    assert hook in process.err
