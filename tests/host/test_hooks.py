"""Hooks called through pluggy: wrappers work, and records and errors name their plug-in."""

import types

import attrs
import pytest

from crvnn_core import Component, PluginError, create_plugin_manager, hookimpl, read_catalog
from stub_plugins import CELL, plugin


def wrapping(function, name="wrapper", **options):
    """A plug-in that wraps ``crvnn_cells``."""
    module = types.ModuleType(name)
    module.crvnn_cells = hookimpl(**{"wrapper": True, **options})(function)
    return module


def cells_with(*plugins):
    """The cells that plug-ins offer, and the plug-in that each comes from."""
    cells = read_catalog(create_plugin_manager(*plugins, entry_points=False)).components["cell"]
    return {name: offer.source.plugin for name, offer in cells.items()}


ONE = plugin("one", crvnn_cells=[Component("a", dict), Component("b", dict)])
TWO = plugin("two", crvnn_cells=[Component("c", dict)])


def failing_cells():
    raise RuntimeError("out of luck")


def failing_later():
    yield CELL
    raise RuntimeError("out of luck")


@pytest.mark.parametrize("cells", [failing_cells, failing_later])
def test_a_hook_that_raises_is_named_with_its_plug_in_and_package(install, cells):
    install("tiny-plugin", plugin("tiny_module", crvnn_cells=cells), "tiny-package", "2.5")
    with pytest.raises(PluginError) as caught:
        create_plugin_manager().offers("crvnn_cells")
    title = "crvnn_cells of plug-in 'tiny-plugin' (tiny-package 2.5)"
    assert str(caught.value).startswith(f"{title} raised RuntimeError: out of luck (")
    assert "host/test_hooks.py:" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert [source.plugin for source in caught.value.blamed] == ["tiny-plugin"]


@pytest.mark.parametrize("returned", [None, CELL])
def test_a_hook_that_returns_no_list_is_an_error_that_names_it(returned):
    with pytest.raises(
        PluginError, match=r"crvnn_cells of plug-in 'mine' \(mine\) returned .*, which is no list"
    ):
        cells_with(plugin(crvnn_cells=lambda: returned))


def test_a_wrapper_sees_the_records_as_the_plug_ins_made_them():
    seen = []

    def look():
        seen.append((yield))
        return seen[0]

    def generated():
        yield CELL

    assert cells_with(plugin("lazy", crvnn_cells=generated), wrapping(look)) == {"tiny": "lazy"}
    assert seen == [[[CELL]]]
    assert seen[0][0][0] is CELL


def test_what_a_wrapper_passes_on_keeps_its_source_and_what_it_adds_or_changes_is_its_own():
    def curate():
        two, (a, _b) = yield
        return [[attrs.evolve(a, summary="changed")], two, (Component(name, dict) for name in ("d",))]

    assert cells_with(ONE, wrapping(curate), TWO) == {"a": "wrapper", "c": "two", "d": "wrapper"}


def test_of_two_wrappers_each_owns_what_it_adds():
    def adding(name):
        def add():
            return [*(yield), [Component(name, dict)]]

        return add

    inner, outer = wrapping(adding("x"), "inner"), wrapping(adding("y"), "outer", tryfirst=True)
    assert cells_with(outer, inner, TWO) == {"c": "two", "x": "inner", "y": "outer"}


def test_a_name_that_a_wrapper_adds_twice_is_a_clash_that_names_both():
    def again():
        return [*(yield), [Component("c", dict)]]

    with pytest.raises(PluginError, match=r"a cell called 'c': 'two' \(two\) and 'wrapper' \(wrapper\)"):
        cells_with(TWO, wrapping(again))


def unmade():
    yield
    return None


def flat():
    yield
    return [CELL]


def without_yield():
    return [] if CELL else (yield)


def yielding_twice():
    yield
    return (yield)


@pytest.mark.parametrize(
    ("wrapper", "reason"),
    [
        (unmade, "a wrapper, returned None; it must return a list of lists of records"),
        (flat, "a wrapper, returned [Component("),
        (without_yield, "a wrapper, must yield exactly once"),
        (yielding_twice, "a wrapper, must yield exactly once"),
    ],
)
def test_a_wrapper_that_is_none_is_an_error_that_names_it(wrapper, reason):
    with pytest.raises(PluginError) as caught:
        cells_with(ONE, wrapping(wrapper))
    assert str(caught.value).startswith("crvnn_cells of plug-in 'wrapper' (wrapper), a wrapper, ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("error", [RuntimeError("out of luck"), PluginError("out of luck")], ids=repr)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_wrapper_that_raises_is_named(before, error):
    def failing():
        if before:
            raise error
        yield
        raise error

    named = r"crvnn_cells of plug-in 'wrapper' \(wrapper\) raised \w+: out of luck"
    with pytest.raises(PluginError, match=named) as caught:
        cells_with(ONE, wrapping(failing))
    assert caught.value.__cause__ is error
    assert "host/test_hooks.py:" in str(caught.value)


def test_an_error_inside_a_wrapper_is_still_the_fault_of_the_plug_in_that_raised_it():
    def through():
        return (yield)

    with pytest.raises(
        PluginError, match=r"crvnn_cells of plug-in 'bad' \(bad\) raised RuntimeError"
    ) as caught:
        cells_with(wrapping(through), plugin("bad", crvnn_cells=failing_cells), wrapping(through, "other"))
    assert "wrapper" not in str(caught.value)


def test_a_wrapper_may_recover_from_an_error():
    def forgiving():
        try:
            return (yield)
        except PluginError:
            return [[Component("spare", dict)]]

    assert cells_with(plugin("bad", crvnn_cells=failing_cells), wrapping(forgiving)) == {"spare": "wrapper"}


def test_an_old_style_wrapper_is_told_the_new_style():
    def old():
        yield

    with pytest.raises(
        PluginError, match=r"plug-in 'old'.*'crvnn_cells' is an old-style wrapper; .*wrapper=True"
    ):
        cells_with(wrapping(old, "old", wrapper=False, hookwrapper=True))
