"""The plug-in manager: who is found, who is registered, and what is said when something is wrong."""

import sys
from importlib.metadata import Distribution

import pytest

from crvnn_core import Component, PluginError, create_plugin_manager, hookimpl, read_catalog
from crvnn_core.errors import CrvnnWarning
from crvnn_core.host import manager as host
from stub_plugins import CELL, plugin


def test_the_built_ins_are_found_by_their_entry_points(catalog):
    offer = catalog.find("cell", "gated")
    assert offer.source.plugin == "crvnn-parts"
    assert str(offer.source) == f"crvnn {host.version('crvnn')}"
    assert catalog.find("task", "listops").source.plugin == "crvnn-tasks"
    assert catalog.broken == ()


def test_without_entry_points_nothing_is_offered():
    empty = read_catalog(create_plugin_manager(entry_points=False))
    assert not any(empty.components.values())
    assert not empty.presets


def test_an_installed_plug_in_is_found_with_its_package_and_version(install):
    install("tiny-plugin", plugin("tiny_module", crvnn_cells=[CELL]), "tiny-package", "2.5")
    source = read_catalog(create_plugin_manager()).find("cell", "tiny").source
    assert (source.plugin, source.package, source.version) == ("tiny-plugin", "tiny-package", "2.5")
    assert str(source) == "tiny-package 2.5"


def test_the_metadata_of_a_package_are_not_parsed_for_each_of_its_plug_ins(monkeypatch):
    """They hold the README."""
    entries, parse, parsed = host._installed(), Distribution.metadata.fget, []
    monkeypatch.setattr(host, "_installed", lambda: entries)
    monkeypatch.setattr(
        Distribution, "metadata", property(lambda package: parsed.append(package) or parse(package))
    )
    assert len([source for source in create_plugin_manager().installed if source.package == "crvnn"]) > 5
    assert len(parsed) == 2 * len(set(parsed))  # name and version


def test_a_plug_in_that_cannot_be_imported_is_named_and_the_others_work(install, tmp_path, monkeypatch):
    (tmp_path / "raising_module_of_a_test.py").write_text("\n1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaving_module_of_a_test.py").write_text("raise SystemExit(3)\n")
    install("absent", "there_is_no_such_module", "absent-package", "0.3")
    install("leaving", "leaving_module_of_a_test", "leaving-package", "0.5")
    install("raising", "raising_module_of_a_test", "raising-package", "0.4")
    install("tiny-plugin", plugin("tiny_module", crvnn_cells=[CELL]), "tiny-package")
    with pytest.warns(CrvnnWarning, match="pip uninstall (absent|leaving|raising)-package") as warned:
        catalog = read_catalog(create_plugin_manager())
    assert len(warned) == 3
    assert "tiny" in catalog.components["cell"]
    absent, leaving, raising = map(str, catalog.broken)
    assert "plug-in 'absent' of absent-package 0.3 could not be imported" in absent
    assert "No module named 'there_is_no_such_module'" in absent
    assert leaving.startswith("plug-in 'leaving' of leaving-package 0.5 could not be imported: SystemExit: 3")
    assert "plug-in 'raising' of raising-package 0.4" in raising
    assert "ZeroDivisionError: division by zero" in raising
    assert "raising_module_of_a_test.py:2" in raising


def test_two_packages_may_give_their_plug_ins_one_name(install):
    install("plugin", plugin("first_module", crvnn_cells=[CELL]), "first-package")
    install("plugin", plugin("second_module", crvnn_cells=[Component("small", dict)]), "second-package")
    cells = read_catalog(create_plugin_manager()).components["cell"]
    assert {name: offer.source.package for name, offer in cells.items()} == {
        "small": "second-package",
        "tiny": "first-package",
    }


def test_registering_one_plug_in_twice_is_an_error_that_names_it():
    mine = plugin(crvnn_cells=[CELL])
    with pytest.raises(PluginError, match=r"plug-in 'mine'.*cannot be registered"):
        create_plugin_manager(mine, mine, entry_points=False)


def test_a_misspelt_hook_is_an_error_that_names_the_nearest(install):
    install("tiny-plugin", plugin("tiny_module", crvnn_cels=[CELL]), "tiny-package", "2.5")
    with pytest.warns(CrvnnWarning) as caught:
        create_plugin_manager()
    message = str(caught.pop().message)
    assert "plug-in 'tiny-plugin' (tiny-package 2.5): there is no hook 'crvnn_cels'." in message
    assert "Did you mean 'crvnn_cells'?" in message
    assert "crvnn_presets" in message


def test_a_plug_in_that_was_refused_halfway_leaves_no_hook_behind(install):
    wrong = plugin("wrong_module", crvnn_cells=[CELL], crvnn_scorers=lambda unwanted: [])
    install("wrong", wrong, "wrong-package")
    with pytest.warns(CrvnnWarning, match=r"(?s)'wrong' of wrong-package 1.0 is left out: .*unwanted"):
        host = create_plugin_manager()
    assert host.get_plugins() == set()
    assert "tiny" not in read_catalog(host).components["cell"]


def test_what_plug_ins_print_while_they_load_goes_to_stderr(install, tmp_path, monkeypatch, capsys):
    (tmp_path / "loud_module_of_a_test.py").write_text(GOOD_FILE + "print('on import')\n")
    monkeypatch.syspath_prepend(tmp_path)
    install("loud", "loud_module_of_a_test", "loud-package")
    path = tmp_path / "loud_file.py"
    path.write_text(GOOD_FILE.replace("return", "print('in a hook'); return").replace("tiny", "other"))
    read_catalog(create_plugin_manager(files=[path]))
    assert capsys.readouterr() == ("", "on import\nin a hook\n")


GOOD_FILE = """
from crvnn_core import Component, hookimpl

@hookimpl
def crvnn_cells():
    return [Component("tiny", dict)]
"""


def test_two_files_of_one_name_do_not_meet(tmp_path):
    for directory, name in (("a", "tiny"), ("b", "small")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "same.py").write_text(GOOD_FILE.replace("tiny", name))
    files = [tmp_path / "a" / "same.py", tmp_path / "b" / "same.py"]
    catalog = read_catalog(create_plugin_manager(entry_points=False, files=files))
    assert list(catalog.components["cell"]) == ["small", "tiny"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("absent.py", None, "there is no such file"),
        ("plugin.txt", GOOD_FILE, "a plug-in file is a Python file and ends in .py"),
        ("empty.py", "x = 1\n", "the file offers nothing; mark its hooks with '@crvnn_core.hookimpl'"),
        ("broken.py", "x = 1\ndef broken(:\n", "SyntaxError: invalid syntax ({path}:2)"),
        ("broken.py", "\n\nraise RuntimeError('out of luck')\n", "RuntimeError: out of luck ({path}:3)"),
        ("broken.py", "import there_is_no_such_module\n", "'there_is_no_such_module' ({path}:1)"),
    ],
)
def test_a_file_that_is_no_plug_in_is_an_error_that_says_why(tmp_path, name, text, reason):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(PluginError) as caught:
        create_plugin_manager(entry_points=False, files=[path])
    assert str(caught.value).startswith(f"--plugin {path}: ")
    assert reason.format(path=path) in str(caught.value)
    if name == "broken.py":
        assert "the file could not be imported" in str(caught.value)
        assert "crvnn_file_broken" not in sys.modules


@pytest.mark.parametrize(
    ("hook", "guess"), [("crvnn_cells", ""), ("crvnn_cell", " Did you mean 'crvnn_cells'?")]
)
def test_a_hook_without_its_marker_is_an_error(tmp_path, hook, guess):
    path = tmp_path / "mine.py"
    path.write_text(f"def {hook}():\n    return []\n")
    with pytest.raises(PluginError) as caught:
        create_plugin_manager(files=[path])
    assert f"'{hook}' lacks its '@crvnn_core.hookimpl', so it would never be called.{guess}" in str(
        caught.value
    )


def test_a_function_of_ones_own_may_begin_like_a_hook(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from crvnn_core import Component, hookimpl\ndef crvnn_layer_norm(x):\n    return x\n"
        "@hookimpl\ndef crvnn_cells():\n    return [Component('mine', int)]\n"
    )
    assert create_plugin_manager(files=[path], entry_points=False)


def test_the_name_of_a_class_is_not_taken_for_the_name_of_a_package():
    class Click:
        @hookimpl
        def crvnn_cells(self):
            return [CELL]

    (source,) = (
        source for source, _ in create_plugin_manager(Click(), entry_points=False).offers("crvnn_cells")
    )
    assert (source.plugin, str(source)) == ("Click", "Click")
