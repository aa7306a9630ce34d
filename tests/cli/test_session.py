"""What commands share: plug-in files, broken plug-ins, and stdout that holds only JSON."""

import json
import re

import pytest

from calling import run


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


def test_a_plug_in_file_may_offer_commands_and_hide_them(tmp_path):
    path = tmp_path / "hello.py"
    path.write_text(
        "import click\nfrom crvnn_core import hookimpl\n\n\n"
        "@hookimpl\ndef crvnn_commands():\n"
        "    hello = click.Command('hello', callback=lambda: click.echo('hello'))\n"
        "    return [hello, click.Command('secret', hidden=True)]\n"
    )
    assert run("--plugin", path, "hello").stdout == "hello\n"
    text = run("--plugin", path, "--help").stdout
    assert re.search("Others:\n +hello", text)
    assert "secret" not in text


LAZY = """
from crvnn_core import LazyCommand, hookimpl

@hookimpl
def crvnn_commands():
    return [LazyCommand("later", "{module}:command", summary="Said at once.", group="Words")]
"""


def test_a_lazy_command_is_listed_without_its_module_and_called_with_it(tmp_path, monkeypatch):
    path = tmp_path / "lazy.py"
    path.write_text(LAZY.format(module="lazy_words"))
    assert re.search("Words:\n +later +Said at once.", run("--plugin", path, "--help").stdout)
    (tmp_path / "lazy_words.py").write_text(
        "import click\ncommand = click.Command('later', callback=lambda: click.echo('now'))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run("--plugin", path, "later").stdout == "now\n"


def test_a_lazy_command_that_cannot_be_imported_is_one_message_that_names_its_plug_in(tmp_path):
    path = tmp_path / "lazy.py"
    path.write_text(LAZY.format(module="nowhere_to_be_found"))
    message = run("--plugin", path, "later", code=2).stderr
    assert f"the import of the command 'later' of plug-in '{path}'" in message
    assert "ModuleNotFoundError: No module named 'nowhere_to_be_found'" in message


@pytest.fixture
def broken_file(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('out of luck')\n")
    return path


@pytest.mark.parametrize("before", [True, False])
def test_a_broken_plug_in_file_is_one_message(broken_file, before):
    option = ["--plugin", broken_file]
    said = run(*(option if before else []), "list", *([] if before else option), code=2).stderr
    assert said.startswith(f"crvnn: --plugin {broken_file}: ")
    assert "RuntimeError: out of luck" in said
    assert "Traceback" not in said


def test_the_whole_traceback_is_there_for_the_asking(broken_file, monkeypatch):
    said = run("list", "--plugin", broken_file, code=2).stderr
    assert "(CRVNN_TRACEBACK=1 shows the whole traceback.)" in said
    monkeypatch.setenv("CRVNN_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in run("list", "--plugin", broken_file, code=2).stderr


@pytest.mark.filterwarnings("default::crvnn_core.errors.CrvnnWarning")
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


LOUD = """{at_import}
from crvnn_core import Component, hookimpl

@hookimpl
def crvnn_cells():
    {in_hook}
    return [Component('loud', 'loud:Loud')]
"""


@pytest.mark.parametrize("place", ["at_import", "in_hook"])
def test_a_plug_in_that_prints_does_not_spoil_the_json(place, tmp_path):
    path = tmp_path / "loud.py"
    path.write_text(LOUD.format(**{"at_import": "", "in_hook": "", place: "print('hello')"}))
    said = run("list", "cells", "--json", "--plugin", path)
    assert "loud" in [row["name"] for row in json.loads(said.stdout)["components"]]
    assert "hello" in said.stderr
