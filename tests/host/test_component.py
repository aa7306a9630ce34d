"""Components: names, lazy building, and what a spec can set."""

import sys
from functools import partial

import pytest

from crvnn_core import Component, LazyCommand, Preset


class Thing:
    def __init__(self, width: int, size: "int" = 3, *, cell: object = None, loud: bool = False):
        self.width, self.size, self.cell, self.loud = width, size, cell, loud


@pytest.mark.parametrize("name", ["a", "gated", "log-space-dense", "simplified-2023", "x2"])
def test_names_are_small_words_joined_by_hyphens(name):
    assert Component(name, Thing).name == Preset(name, {}).name == name


@pytest.mark.parametrize("name", ["", "Gated", "two words", "a_b", "-a", "a-", "a--b", "2a", "é"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="name"):
        Component(name, Thing)
    with pytest.raises(ValueError, match="name"):
        Preset(name, {})


@pytest.mark.parametrize("build", [None, 3, "no_colon", "two:colons:here"])
def test_what_cannot_build_is_refused(build):
    with pytest.raises(ValueError, match=r"build must be a callable or 'package.module:Name'"):
        Component("thing", build)


def test_a_named_class_is_imported_only_when_it_is_used(tmp_path, monkeypatch):
    (tmp_path / "lazy_module_of_a_test.py").write_text("class Lazy:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    component = Component("lazy", "lazy_module_of_a_test:Lazy", summary="lazy")
    assert "lazy_module_of_a_test" not in sys.modules
    assert component.load().__name__ == "Lazy"
    monkeypatch.delitem(sys.modules, "lazy_module_of_a_test")


def test_parameters_have_real_types_even_when_annotated_with_texts():
    parameters = Component("thing", Thing).parameters()
    assert list(parameters) == ["width", "size", "cell", "loud"]
    assert parameters["size"].annotation is int


def test_settings_leave_out_what_assemble_fills_in():
    assert list(Component("thing", Thing).settings("encoder")) == ["size", "loud"]


def test_catch_all_parameters_are_not_settings():
    def build(width: int, *rest: int, size: int = 1, **more: int):
        return width, size

    component = Component("thing", build)
    assert list(component.settings("encoder")) == ["size"]
    assert component.make({"width": 2}) == (2, 1)


def test_making_it_fills_in_only_what_it_asks_for():
    thing = Component("thing", Thing).make({"width": 8, "cell": "a cell", "scorer": "a scorer"}, loud=True)
    assert (thing.width, thing.size, thing.cell, thing.loud) == (8, 3, "a cell", True)


def test_settings_go_before_what_is_filled_in():
    assert Component("thing", Thing).make({"width": 8}, width=2).width == 2


def test_a_partial_can_build():
    component = Component("thing", partial(Thing, size=5))
    assert component.make({"width": 1}).size == 5
    assert component.settings("encoder")["size"].default == 5


@pytest.mark.parametrize("command", [print, "crvnn_core.cli", "crvnn_core.cli:main:more"])
def test_a_lazy_command_names_a_module_and_what_is_in_it(command):
    with pytest.raises(ValueError, match=r"command must be 'package.module:name', not "):
        LazyCommand("mine", command, summary="Mine.")
