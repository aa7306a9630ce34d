"""The command line as a whole: help, version, unknown commands, and a quick start."""

import os
import re
import subprocess
import sys
from unittest.mock import Mock

import click
import pytest

from calling import run
from crvnn_core.cli import _COMMANDS, main
from crvnn_core.cli.session import Session
from crvnn_core.errors import LostProcessError
from crvnn_core.host.manager import Host
from small import options


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


def test_plug_ins_are_asked_once_for_their_commands(monkeypatch):
    asked, ask = [], Host.offers
    monkeypatch.setattr(Host, "offers", lambda host, hook: asked.append(hook) or ask(host, hook))
    assert "explore" in run("--help").stdout
    assert asked == ["crvnn_commands"]


def test_the_version_is_printed():
    from importlib.metadata import version

    assert version("crvnn") in run("--version").stdout


def test_an_unknown_command_is_an_error_that_knows_the_nearest():
    result = run("assembel", code=2)
    assert "No such command 'assembel'" in result.stderr
    assert "assemble" in result.stderr.replace("'assembel'", "")


def test_an_unknown_option_is_an_error():
    assert "No such option" in run("list", "--jsn", code=2).stderr


@pytest.mark.parametrize(
    "args",
    ["--help", "list", "list --json", "new --help", "--version", "compare listops listops-guided"],
)
def test_quick_commands_import_nothing_that_they_can_do_without(args, tmp_path):
    code = (
        "import sys\nfrom crvnn_core.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *args.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    modules = set(done.stderr.split())
    assert "crvnn_parts" in modules or args in ("--version", "new --help")
    assert not {"torch", "numpy", "rich", "difflib", "jinja2"} & modules
    assert not {"crvnn_bench.commands", "crvnn_tasks.demo", "crvnn_core.cli.train"} & modules


def test_every_line_of_help_fits_in_80_columns_and_no_summary_is_cut():
    for path, command, ctx in every_command():
        ctx.terminal_width = ctx.max_content_width = 80
        for line in command.get_help(ctx).splitlines():
            assert len(line) <= 80, f"{path}: {line}"
            assert line.startswith("Usage:") or not line.endswith("..."), f"{path}: {line}"


def test_every_set_has_the_same_spelling():
    found = {}
    for path, command, ctx in every_command():
        for option in command.get_params(ctx):
            if "--set" in option.opts:
                found[path] = (option.metavar, option.help, option.multiple, option.name)
    assert {"crvnn assemble", "crvnn train", "crvnn check", "crvnn eval", "crvnn data check"} <= found.keys()
    assert len(set(found.values())) == 1, found


def every_command():
    """Every command with the words that call it."""
    waiting = [("crvnn", main, click.Context(main, info_name="crvnn", obj=Session()))]
    for path, command, ctx in waiting:
        yield path, command, ctx
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                inner = command.get_command(ctx, name)
                waiting.append((f"{path} {name}", inner, click.Context(inner, info_name=name, parent=ctx)))


def test_after_a_lost_process_the_command_ends_at_once(monkeypatch):
    """In order it would take torch many seconds on busy cores."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(
        "crvnn_core.training.seeds.train_all", Mock(side_effect=LostProcessError("rank 1 was lost"))
    )
    result = run("train", *options(), "--out", "a", code=2)
    assert ended == [2]
    assert result.stderr == "crvnn: rank 1 was lost\n"


@pytest.mark.parametrize(
    ("command", "redirections"),
    [("list cells", ">&-"), ("list cells --json", "2>&-"), ("list cells --json", "<&- >&- 2>&-")],
)
def test_closed_streams_are_no_traceback(command, redirections):
    program = f'"{sys.executable}" -c "from crvnn_core.cli import main; main()" {command} {redirections}'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (redirections == "2>&-")
