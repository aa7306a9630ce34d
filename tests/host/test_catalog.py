"""The catalog: what the plug-ins offer by name, their defaults, and what is said when two of them clash."""

import click
import pytest

from crvnn_core import (
    Component,
    LazyCommand,
    PluginError,
    Preset,
    UnknownNameError,
    create_plugin_manager,
    hookimpl,
    read_catalog,
)
from crvnn_core.engine.operations import ENGINE
from crvnn_core.errors import CrvnnWarning
from crvnn_core.host.catalog import read_commands, read_libraries
from crvnn_core.kernels import Library
from stub_plugins import CELL, plugin


@pytest.mark.parametrize(
    ("hook", "record", "kind"),
    [("crvnn_cells", "tiny", "Component"), ("crvnn_commands", CELL, "Command or LazyCommand")],
)
def test_a_hook_that_returns_other_records_is_an_error_that_says_what_is_wanted(hook, record, kind):
    manager = create_plugin_manager(plugin(**{hook: [record]}), entry_points=False)
    with pytest.raises(
        PluginError, match=rf"{hook} of plug-in 'mine' .*must return an iterable of {kind} records"
    ):
        read_commands(manager, ()) if hook == "crvnn_commands" else read_catalog(manager)


def catalog_of(*plugins):
    return read_catalog(create_plugin_manager(*plugins, entry_points=False))


SMALL, DEFAULT = Component("small", dict, default=True), Component("tiny", dict, default=True)


@pytest.mark.parametrize(
    ("hook", "first", "second", "what"),
    [
        ("crvnn_cells", CELL, CELL, "a cell called 'tiny': 'two' (second-package 2.2) and 'one'"),
        ("crvnn_commands", click.Command("tiny"), click.Command("tiny"), "a command called 'tiny': 'two'"),
        (
            "crvnn_cells",
            DEFAULT,
            SMALL,
            "one default cell, but 'small' of plug-in 'two' (second-package 2.2)",
        ),
        (
            "crvnn_presets",
            Preset("tiny", {}, default=True),
            Preset("small", {}, default=True),
            "one default preset, but 'small' of plug-in 'two' (second-package 2.2) and 'tiny' of plug-in 'one'",
        ),
    ],
)
def test_two_plug_ins_that_clash_are_both_named_and_left_out(install, hook, first, second, what):
    install("one", plugin("first_module", **{hook: [first]}), "first-package", "1.1")
    install("two", plugin("second_module", **{hook: [second]}), "second-package", "2.2")
    install("other", plugin("other_module", crvnn_scorers=[CELL]), "other-package")
    manager = create_plugin_manager()
    with pytest.warns(CrvnnWarning) as caught:
        read_commands(manager, ()) if hook == "crvnn_commands" else read_catalog(manager)
    messages = [str(warning.message) for warning in caught]
    for message in messages:
        assert what in message
        assert "'one' (first-package 1.1)" in message
        assert "'two' (second-package 2.2)" in message
    assert [message.rpartition("pip uninstall ")[2] for message in messages] == [
        f"{package}-package'." for package in ("second", "first")
    ]
    catalog = read_catalog(manager)
    assert "tiny" in catalog.components["scorer"]
    assert [broken.source.plugin for broken in catalog.broken] == ["two", "one"]


def failing():
    raise RuntimeError("out of luck")


def wrapping():
    yield
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    "hook",
    [
        failing,
        hookimpl(wrapper=True)(wrapping),
        lambda: 3,
        lambda: ["no component"],
        lambda: [CELL, CELL],
        lambda: exit(0),
    ],
    ids=["raises", "raises in a wrapper", "returns no list", "returns no records", "offers twice", "exits"],
)
def test_an_installed_plug_in_whose_hook_fails_is_left_out_and_named_where_it_is_missed(install, hook):
    install("bad", plugin("bad_module", crvnn_cells=hook), "bad-package", "0.3")
    install("good", plugin("good_module", crvnn_cells=[Component("mine", dict)]), "good-package")
    with pytest.warns(
        CrvnnWarning, match=r"(?s)'bad' of bad-package 0.3 is left out: .*pip uninstall bad-pa"
    ):
        catalog = read_catalog(create_plugin_manager())
    assert list(catalog.components["cell"]) == ["mine"]
    with pytest.raises(UnknownNameError, match=r"Left out, because of an error: 'bad' \(bad-package 0.3\)\."):
        catalog.find("cell", "tiny")


def test_a_plug_in_that_takes_a_name_or_the_default_of_the_core_is_left_out(install):
    own = Component("tiny", dict, default=True)
    install("z-builtin", plugin("builtin_module", crvnn_tasks=[own]), "crvnn")
    install("a-name", plugin("name_module", crvnn_tasks=[Component("tiny", list)]), "name-package")
    other = Component("other", dict, default=True)
    install("default", plugin("default_module", crvnn_tasks=[other]), "default-package")
    with pytest.warns(CrvnnWarning, match=r"pip uninstall (name|default)-package"):
        catalog = read_catalog(create_plugin_manager())
    assert [offer.component for offer in catalog.components["task"].values()] == [own]


def test_a_file_that_clashes_with_an_installed_plug_in_is_an_error(install, tmp_path):
    install("one", plugin("first_module", crvnn_cells=[CELL]), "first-package", "1.1")
    path = tmp_path / "mine.py"
    path.write_text(
        "from crvnn_core import Component, hookimpl\n@hookimpl\ndef crvnn_cells():\n"
        "    return [Component('tiny', dict)]\n"
    )
    host = create_plugin_manager(files=[path])
    with pytest.raises(PluginError, match=r"a cell called 'tiny': .*mine.py.*first-package 1.1"):
        read_catalog(host)
    assert host.broken == []


def test_a_command_cannot_hide_one_of_the_core():
    manager = create_plugin_manager(plugin(crvnn_commands=[click.Command("list")]), entry_points=False)
    with pytest.raises(PluginError, match=r"a command called 'list': 'crvnn' \(crvnn .*\) and 'mine'"):
        read_commands(manager, ["list"])


def test_libraries_of_kernels_follow_that_of_the_engine_and_cannot_hide_it():
    mine, other = Library("mine", "my_package.native"), Library("another", "other.native")
    host = create_plugin_manager(plugin(crvnn_kernels=[mine, other]), entry_points=False)
    assert read_libraries(host) == [ENGINE, other, mine]
    hiding = plugin(crvnn_kernels=[Library(ENGINE.name, "my_package.native")])
    with pytest.raises(PluginError, match=r"a library of kernels called .*: 'crvnn' \(crvnn .*\) and 'mine'"):
        read_libraries(create_plugin_manager(hiding, entry_points=False))


def test_commands_are_found_by_name_with_their_source():
    command, lazy = click.Command("tiny"), LazyCommand("later", "package.module:command", summary="Later.")
    manager = create_plugin_manager(plugin(crvnn_commands=[command, lazy]), entry_points=False)
    found = read_commands(manager, ["list"])
    assert {name: record for name, (record, _) in found.items()} == {"later": lazy, "tiny": command}
    assert {source.plugin for _, source in found.values()} == {"mine"}


def test_one_plug_in_offering_a_name_twice_is_not_called_two():
    with pytest.raises(PluginError, match=r"plug-in 'twice' .* offers the cell 'same' twice"):
        catalog_of(plugin("twice", crvnn_cells=[Component("same", int), Component("same", int)]))


def test_records_of_several_plug_ins_are_in_alphabetical_order():
    one = plugin("one", crvnn_presets=[Preset("b", {}), Preset("c", {})], crvnn_cells=[CELL])
    two = plugin("two", crvnn_presets=[Preset("a", {})], crvnn_cells=[Component("small", dict)])
    for plugins in ((one, two), (two, one)):
        found = catalog_of(*plugins)
        assert list(found.presets) == ["a", "b", "c"]
        assert list(found.components["cell"]) == ["small", "tiny"]
