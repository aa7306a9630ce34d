"""The command line: what it prints, where, and with which exit code."""

import json
import os
import re
import resource
import statistics
import subprocess
import sys

import pytest
from click.testing import CliRunner

from calling import run
from crvnn_core import SLOTS
from crvnn_core.cli import _COMMANDS, main

QUICK = ["--set", "model.width=8", "--set", "task.max_tokens=12"]


def crvnn(*args, cwd, **variables):
    """Run the command line in a process of its own."""
    command = [
        sys.executable,
        "-c",
        "from crvnn_core.cli import main; main(prog_name='crvnn')",
        *map(str, args),
    ]
    env = {**os.environ, **variables}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


CELLS = """
from crvnn_core import Cell, Component, hookimpl


class Forgetful(Cell):
    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        return left


@hookimpl
def crvnn_cells():
    return [Component("forgetful", Forgetful, summary="keeps the left child only")]
"""


@pytest.fixture
def plugin_file(tmp_path):
    path = tmp_path / "cells.py"
    path.write_text(CELLS)
    return path


@pytest.mark.parametrize("command", [*_COMMANDS, "demo"])
def test_every_command_has_help_with_an_example(command):
    text = run(command, "--help").stdout
    assert re.search(r"Examples?:\n +crvnn ", text)
    assert f"crvnn {command} " in text
    assert "--help" in text
    assert run(command, "-h").stdout == text


def test_every_option_of_every_command_is_explained():
    for name in [*_COMMANDS, "demo"]:
        command = main.get_command(main.make_context("crvnn", ["list"]), name)
        unexplained = [p.name for p in command.params if p.param_type_name == "option" and not p.help]
        assert unexplained == [], name


def test_the_help_lists_the_commands_of_core_and_plug_ins():
    text = run("--help").stdout
    for command in [*_COMMANDS, "demo"]:
        assert re.search(rf"^  {command} ", text, re.MULTILINE)


def test_the_version_is_printed():
    from importlib.metadata import version

    assert version("crvnn") in run("--version").stdout


def test_an_unknown_command_is_an_error_that_knows_the_nearest():
    result = run("assembel", code=2)
    assert "No such command 'assembel'" in result.stderr
    assert "assemble" in result.stderr.replace("'assembel'", "")


def test_an_unknown_option_is_an_error():
    assert "No such option" in run("list", "--jsn", code=2).stderr


def test_assemble_shows_a_table_of_slots():
    text = run("assemble", "--cell", "lstm", *QUICK).stdout
    header, *rows = text.splitlines()
    assert header.split()[:4] == ["slot", "component", "from", "parameters"]
    table = {row.split()[0]: row.split()[1] for row in rows[:8]}
    assert table == {
        "task": "listops",
        "embedding": "random",
        "retriever": "adhoc",
        "scorer": "window",
        "decision": "modulated",
        "cell": "lstm",
        "halting": "threshold",
        "encoder": "crvnn",
    }
    assert "parameters in all. A batch of 16 sequences" in text
    assert "steps on average" in text


def test_assemble_prints_json_for_machines():
    facts = json.loads(run("assemble", "--json", *QUICK).stdout)
    assert {row["slot"]: row["component"] for row in facts["rows"]}["cell"] == "gated"
    assert facts["parameters"] > 0
    assert facts["spec"] is None


def test_assemble_writes_a_spec_that_assemble_reads_again(tmp_path):
    out = tmp_path / "runs" / "first"
    args = ["--retriever", "log-space", "--set", "seed=4", *QUICK]
    first = json.loads(run("assemble", *args, "--json", "--out", out).stdout)
    path = out / "spec.toml"
    assert first["spec"] == str(path)
    assert path.read_text().startswith("# resolved by crvnn\n# components from crvnn ")
    again = json.loads(run("assemble", path, "--json").stdout)
    for key in ("rows", "parameters", "loss", "gradient_norm", "mean_steps"):
        assert again[key] == first[key]
    assert f"The resolved spec is in {path}." in run("assemble", path, "--out", out).stdout
    assert list(out.iterdir()) == [path]


def test_assemble_takes_a_preset():
    facts = json.loads(run("assemble", "--preset", "simplified-2023", "--json", *QUICK).stdout)
    scorer = next(row for row in facts["rows"] if row["slot"] == "scorer")
    assert scorer["parameters"] == (5 * 8 + 1) * 8 + 8 + 1  # no transition features


def test_a_misspelt_component_is_one_message_and_exit_code_2(tmp_path):
    result = crvnn("assemble", "--retriever", "adhok", "--out", "made", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(
        "crvnn: --retriever adhok: no retriever is called 'adhok'. Did you mean 'adhoc'?\n"
    )
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "args",
    [
        ["--set", "model.scorer.window=4"],
        ["--set", "model.widht=4"],
        ["--preset", "papre"],
        ["absent.toml"],
    ],
    ids=" ".join,
)
def test_nothing_is_written_on_an_error(args, tmp_path):
    result = run("assemble", *args, "--out", tmp_path / "made", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("crvnn: ")
    assert not (tmp_path / "made").exists()


def test_every_problem_of_a_spec_is_printed(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('[model]\nwidht = 3\ncell = "gatde"\n')
    text = run("assemble", path, code=2).stderr
    assert f"{path}:2 [model.widht]: [model] has no 'widht'. Did you mean 'width'?" in text
    assert '3 | cell = "gatde"' in text


def test_an_output_that_cannot_be_written_is_one_message(tmp_path):
    (tmp_path / "file").write_text("mine")
    result = run("assemble", *QUICK, "--out", tmp_path / "file", code=2)
    assert "cannot be written" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_list_shows_every_component_and_where_it_comes_from(catalog):
    text = run("list").stdout
    for slot, offers in catalog.components.items():
        for name, offer in offers.items():
            assert re.search(
                rf"^{slot} +{name} +.*{re.escape(offer.component.summary)} +{offer.source}",
                text,
                re.MULTILINE,
            )
    for name in catalog.presets:
        assert re.search(rf"^preset +{name} ", text, re.MULTILINE)


@pytest.mark.parametrize("slot", SLOTS)
def test_list_takes_a_slot_in_singular_and_plural(slot, catalog):
    facts = json.loads(run("list", slot, "--json").stdout)
    assert facts == json.loads(run("list", f"{slot}s".upper(), "--json").stdout)
    assert [c["name"] for c in facts["components"]] == list(catalog.components[slot])
    assert {c["slot"] for c in facts["components"]} == {slot}
    assert facts["broken"] == []


@pytest.mark.parametrize(
    "command", [["list"], ["describe", "x"], ["check", "x"], ["new", "x"]], ids=lambda c: c[0]
)
def test_an_unknown_slot_is_an_error_that_knows_the_nearest(command):
    name, *rest = command
    result = run(name, "retreiver", *rest, code=2)
    assert result.stderr.startswith(
        "crvnn: no slot is called 'retreiver'. Did you mean 'retriever'?\nSlots: retriever,"
    )


def test_describe_explains_parameters_contract_and_origin():
    text = run("describe", "cells", "gated").stdout
    assert "cell gated: the paper's gated recursive cell" in text
    assert re.search(r"from crvnn \S+, built by crvnn_plugins.cells.gated.GatedCell", text)
    assert re.search(r"^hidden +a whole number +0 +units between", text, re.MULTILINE)
    assert "crvnn fills in: width" in text
    assert "'crvnn check cell gated' runs it" in text
    assert "  - The parent depends on its left child and on its right child." in text


def test_describe_says_when_there_are_no_parameters():
    assert "It has no parameters." in run("describe", "halting", "never").stdout


def test_describe_prints_json_for_machines(catalog):
    for slot, offers in catalog.components.items():
        for name in offers:
            facts = json.loads(run("describe", slot, name, "--json").stdout)
            assert (facts["slot"], facts["name"]) == (slot, name)
            assert all(p["text"] for p in facts["parameters"]), f"{slot} {name}: a parameter is not explained"
            assert facts["contract"]


@pytest.mark.parametrize("command", ["describe", "check"])
def test_an_unknown_component_is_an_error_that_knows_the_nearest(command):
    result = run(command, "cell", "gatde", code=2)
    assert result.stderr.startswith(
        "crvnn: no cell is called 'gatde'. Did you mean 'gated'?\nInstalled: gated,"
    )


def test_check_prints_a_line_a_promise():
    text = run("check", "halting", "threshold").stdout
    assert "kept    The answer is one bool for each sequence." in text
    assert re.search(r"halting threshold \(crvnn \S+\): 9 of 9 promises kept\n$", text)
    assert "BROKEN" not in text


def test_check_prints_json_for_machines():
    said = json.loads(run("check", "halting", "never", "--json").stdout)
    outcomes = said["results"]
    assert (said["slot"], said["name"], said["package"].split()[0]) == ("halting", "never", "crvnn")
    assert len(outcomes) == 9
    assert all(outcome["kept"] and outcome["reason"] == "" for outcome in outcomes)


def test_check_takes_parameters():
    assert "kept" in run("check", "halting", "fixed-depth", "--set", "depth=2").stdout
    text = run("check", "halting", "fixed-depth", "--set", "depht=2", "--set", "depth=deep", code=2).stderr
    assert "--set depht=2: halting 'fixed-depth' has no parameter 'depht'. Did you mean 'depth'?" in text
    assert "--set depth=deep: must be a whole number, not 'deep'" in text


def test_check_says_which_promise_is_broken_and_exits_with_1(plugin_file, tmp_path):
    result = crvnn("--plugin", plugin_file, "check", "cell", "forgetful", cwd=tmp_path)
    assert result.returncode == 1
    assert "BROKEN  The parent depends on its left child and on its right child." in result.stdout
    assert "        the parent does not depend on its right child" in result.stdout
    assert "kept    In evaluation the same input gives the same bits twice." in result.stdout
    assert re.search(r"cell forgetful \(.+\.py\): \d+ of 10 promises kept", result.stdout)
    assert "Traceback" not in result.stderr


def test_check_exits_with_1_for_machines_too(plugin_file):
    outcomes = json.loads(run("check", "cell", "forgetful", "--json", "--plugin", plugin_file, code=1).stdout)
    broken = {outcome["check"]: outcome["reason"] for outcome in outcomes["results"] if not outcome["kept"]}
    assert "check_cell_sees_both_children" in broken
    assert all(broken.values())


def test_new_makes_a_package_and_says_what_to_do_next(tmp_path):
    text = run("new", "cells", "my-cell", "--out", tmp_path / "somewhere").stdout
    assert f"pip install -e {tmp_path / 'somewhere'}\n  crvnn check cell my-cell" in text
    assert (tmp_path / "somewhere" / "my_cell" / "cell.py").is_file()


def test_new_puts_the_package_beside_where_you_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("new", "cell", "my-cell")
    assert (tmp_path / "my-cell" / "pyproject.toml").is_file()


def test_new_refuses_a_bad_name(tmp_path):
    assert (
        "'My_Cell' is not a component's name"
        in run("new", "cell", "My_Cell", "--out", tmp_path / "x", code=2).stderr
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("before", [True, False])
def test_a_plug_in_file_may_stand_before_or_after_the_command(plugin_file, before):
    option = ["--plugin", plugin_file]
    args = [*option, "list", "cells"] if before else ["list", "cells", *option]
    text = run(*args).stdout
    assert re.search(r"^cell +forgetful +keeps the left child only +.*cells.py", text, re.MULTILINE)


def test_a_plug_in_file_given_twice_is_loaded_once(plugin_file):
    assert (
        run("--plugin", plugin_file, "list", "cells", "--plugin", plugin_file).stdout.count("forgetful") == 1
    )


def test_plug_in_files_can_be_repeated(plugin_file, tmp_path):
    other = tmp_path / "other.py"
    other.write_text(CELLS.replace('"forgetful"', '"other"'))
    text = run("--plugin", plugin_file, "list", "cells", "--plugin", other).stdout
    assert "forgetful" in text
    assert "other" in text


def test_a_plug_in_file_can_be_assembled(plugin_file):
    facts = json.loads(
        run("assemble", "--plugin", plugin_file, "--cell", "forgetful", "--json", *QUICK).stdout
    )
    assert next(row["source"] for row in facts["rows"] if row["slot"] == "cell") == str(plugin_file)


def test_a_plug_in_file_may_offer_a_command(tmp_path):
    path = tmp_path / "hello.py"
    path.write_text(
        "import click\nfrom crvnn_core import hookimpl\n\n\n"
        "@hookimpl\ndef crvnn_commands():\n    return [click.Command('hello', callback=lambda: click.echo('hello'))]\n"
    )
    assert run("--plugin", path, "hello").stdout == "hello\n"
    assert "hello" in run("--plugin", path, "--help").stdout


def test_a_plug_in_command_that_hides_one_of_the_core_is_an_error(tmp_path):
    path = tmp_path / "hiding.py"
    path.write_text(
        "import click\nfrom crvnn_core import hookimpl\n\n\n"
        "@hookimpl\ndef crvnn_commands():\n    return [click.Command('list')]\n"
    )
    assert "two plug-ins offer a command called 'list'" in run("--plugin", path, "--help", code=2).stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no such file"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('out of luck')\n", "RuntimeError: out of luck"),
    ],
)
def test_a_broken_plug_in_file_is_one_message(tmp_path, text, reason):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    for args in (["--plugin", path, "list"], ["list", "--plugin", path]):
        result = crvnn(*args, cwd=tmp_path)
        assert result.returncode == 2
        assert result.stderr.startswith(f"crvnn: --plugin {path}: ")
        assert reason in result.stderr
        assert "Traceback" not in result.stderr


def test_the_whole_traceback_is_there_for_the_asking(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('out of luck')\n")
    asked = crvnn("list", "--plugin", path, cwd=tmp_path, CRVNN_TRACEBACK="1")
    assert asked.returncode == 2
    assert "Traceback (most recent call last)" in asked.stderr
    assert (
        "(CRVNN_TRACEBACK=1 shows the whole traceback.)"
        in crvnn("list", "--plugin", path, cwd=tmp_path).stderr
    )


def test_a_broken_installed_plug_in_is_a_warning_and_the_others_work(monkeypatch):
    from importlib.metadata import EntryPoint

    from crvnn_core.host import manager as host

    installed = [*host._installed(), EntryPoint("absent", "there_is_no_such_module", "crvnn")]
    monkeypatch.setattr(host, "_installed", lambda: installed)
    result = run("list", "cells")
    assert "gated" in result.stdout
    assert "crvnn: warning: plug-in 'absent' of an unknown package could not be imported" in result.stderr
    assert "The other plug-ins work." in result.stderr
    broken = json.loads(run("list", "--json").stdout)["broken"]
    assert [entry["plugin"] for entry in broken] == ["absent"]


@pytest.mark.parametrize(
    "args", [["--help"], ["list"], ["list", "--json"], ["new", "--help"], ["--version"]], ids=" ".join
)
def test_torch_is_not_imported_before_it_is_needed(args, tmp_path):
    code = (
        "import sys\nfrom crvnn_core.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    modules = result.stderr.split()
    assert "crvnn_plugins" in modules or "--version" in args or "new" in args
    assert "torch" not in modules
    assert "numpy" not in modules


def test_help_costs_less_than_three_tenths_of_a_second_beyond_python(tmp_path):
    def seconds(*args):
        """Processor time of a child: other processes on the machine do not count."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *args], capture_output=True, cwd=tmp_path, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = statistics.median(seconds("-c", "pass") for _ in range(5))
    helped = statistics.median(
        seconds("-c", "from crvnn_core.cli import main; main()", "--help") for _ in range(5)
    )
    assert helped - bare < 0.3


def test_presets_can_be_listed_by_themselves():
    listed = json.loads(CliRunner().invoke(main, ["list", "presets", "--json"]).output)
    assert {row["slot"] for row in listed["components"]} == {"preset"}
    assert {"paper", "reference", "simplified-2023"} <= {row["name"] for row in listed["components"]}


def test_new_refuses_a_name_that_the_slot_already_has(tmp_path):
    text = run("new", "cell", "lstm", "--out", tmp_path / "lstm", code=2).stderr
    assert "there is a cell called 'lstm' already, from crvnn" in text
    assert not (tmp_path / "lstm").exists()


def test_assemble_never_overwrites_a_spec_of_the_users_own(tmp_path):
    mine = tmp_path / "spec.toml"
    mine.write_text('# mine\npreset = "paper"\n')
    text = run("assemble", mine, "--out", tmp_path, *QUICK, code=2).stderr
    assert "was not written by crvnn, and would be lost" in text
    assert mine.read_text().startswith("# mine")


def test_assemble_may_write_over_what_it_wrote_itself(tmp_path):
    run("assemble", "--out", tmp_path, *QUICK)
    run("assemble", tmp_path / "spec.toml", "--out", tmp_path)


def test_a_plug_in_that_prints_does_not_spoil_the_json(tmp_path):
    path = tmp_path / "loud.py"
    path.write_text(
        "print('hello')\nfrom crvnn_core import Component, hookimpl\n"
        "@hookimpl\ndef crvnn_cells():\n    return [Component('loud', 'loud:Loud')]\n"
    )
    said = run("list", "cells", "--json", "--plugin", path)
    assert "loud" in [row["name"] for row in json.loads(said.stdout)["components"]]
    assert "hello" in said.stderr


def test_check_tells_refused_settings_from_broken_promises():
    text = run("check", "cell", "gated", "--set", "hidden=-1", code=2).stderr
    assert re.search(r"cell 'gated' \(crvnn \S+\) refuses these settings: hidden cannot be negative", text)


def test_a_spec_that_is_not_even_text_is_not_overwritten(tmp_path):
    (tmp_path / "spec.toml").write_bytes(b"\xff\xfe")
    assert "would be lost" in run("assemble", "--out", tmp_path, *QUICK, code=2).stderr


def test_a_hook_that_prints_does_not_spoil_the_json(tmp_path):
    path = tmp_path / "loud.py"
    path.write_text(
        "from crvnn_core import Component, hookimpl\n"
        "@hookimpl\ndef crvnn_cells():\n    print('hello')\n    return [Component('loud', 'loud:Loud')]\n"
    )
    said = run("list", "cells", "--json", "--plugin", path)
    assert "loud" in [row["name"] for row in json.loads(said.stdout)["components"]]
    assert "hello" in said.stderr


def test_check_reports_a_component_that_cannot_be_built_at_all(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(
        "from crvnn_core import Component, hookimpl\n"
        "def build(width: int, x: int = 1):\n    raise RuntimeError('no luck')\n"
        "@hookimpl\ndef crvnn_cells():\n    return [Component('odd', build)]\n"
    )
    text = run("check", "cell", "odd", "--set", "x=2", "--plugin", path, code=1).stdout
    assert "RuntimeError: no luck" in text
