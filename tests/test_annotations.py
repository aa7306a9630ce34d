"""Ranges and paths in the annotations of parameters: in specs, in Python, and in descriptions."""

import inspect
import math
from typing import Annotated

import pytest

from crvnn_core import Component, Range, check_ranges, create_plugin_manager, read_catalog
from crvnn_core.annotations import Count, FilePath, Probability, bare, check_value, described, ranges
from crvnn_core.spec.description import describe
from crvnn_core.spec.reader import settings_of
from spec_problems import problems_of
from stub_plugins import plugin


@pytest.mark.parametrize(
    ("limits", "text", "within", "without"),
    [
        (Range(gt=0), "above 0", [1e-9, 5], [0, -1]),
        (Range(ge=0, le=1), "at least 0 and at most 1", [0, 0.5, 1], [-1e-9, 1.1]),
        (Range(ge=0, lt=1), "at least 0 and below 1", [0, 0.99], [1]),
        (Range(), "finite", [-5, 1e300], []),
    ],
    ids=str,
)
def test_a_range_knows_its_numbers_and_its_words(limits, text, within, without):
    assert str(limits) == text
    assert all(number in limits for number in within)
    assert not any(number in limits for number in (*without, math.nan, math.inf, -math.inf))


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Probability, 3, "must be at least 0 and at most 1, not 3"),
        (Count, 1.5, r"must be an integer, not 1\.5"),
        (list[Count], [1, 0], "must be at least 1, not 0"),
        (list[int], ["a"], "must be an integer, not 'a'"),
        (list[str], "ab", "must be a list, not 'ab'"),
        (list[str] | str, 3, "must be a list or a string, not 3"),
        (list[str] | str, [1], "must be a list or a string, not"),
        (int | None, "a", "must be an integer, not 'a'"),
    ],
)
def test_a_value_that_does_not_fit_its_annotation_is_an_error(annotation, value, message):
    with pytest.raises(ValueError, match=message):
        check_value(value, annotation)


def test_a_value_is_never_converted_but_an_integer_to_a_float():
    for annotation, value in (
        (list[int], [1, 2]),
        (list[str], ["a"]),
        (list[str] | str, "ab"),
        (list[str] | str, ["a"]),
        (int | None, None),
        (inspect.Parameter.empty, [1, "a"]),
        (bool, True),
    ):
        assert check_value(value, annotation) == value
    for annotation in (float, Probability):
        assert (check_value(1, annotation), type(check_value(1, annotation))) == (1.0, float)


def test_annotations_are_described_in_words():
    assert described(Probability) == "a number, at least 0 and at most 1"
    assert described(FilePath) == "a path"
    assert (bare(Count), bare(int)) == (int, int)


def test_a_function_with_checked_ranges_keeps_its_signature_and_its_errors():
    @check_ranges
    def build(width: int, depth: Annotated[int, Range(ge=2)] = 8, *, dropout: Probability = 0.0) -> int:
        return width

    assert list(inspect.signature(build).parameters) == ["width", "depth", "dropout"]
    assert build(3, 2, dropout=1) == 3
    with pytest.raises(ValueError, match="depth must be at least 2, not 1"):
        build(3, 1)
    with pytest.raises(ValueError, match="dropout must be finite, not nan"):
        build(3, dropout=math.nan)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'width'"):
        build()


def test_all_values_of_a_plug_in_out_of_range_are_reported_at_once():
    def build(width: int, dropout: Probability = 0.1, depth: Annotated[int, Range(ge=2)] = 8):
        """A cell."""

    catalog = read_catalog(create_plugin_manager(plugin(crvnn_cells=[Component("own", build)])))
    sets = ["model.cell=own", "model.cell.dropout=1.7", "model.cell.depth=1", "model.width=-4"]
    assert problems_of(
        catalog, sets=[*sets, "model.halting.epsilon=3", "training.optimizer.learning_rate=0"]
    ) == [
        "--set model.width=-4: must be at least 1, not -4",
        "--set model.cell.dropout=1.7: must be at least 0 and at most 1, not 1.7",
        "--set model.cell.depth=1: must be at least 2, not 1",
        "--set model.halting.epsilon=3: must be at least 0 and below 1, not 3",
        "--set training.optimizer.learning_rate=0: must be above 0, not 0",
    ]
    facts = describe(catalog, "cell", "own")["parameters"]
    assert [(p["name"], p["limits"]) for p in facts] == [
        ("dropout", "at least 0 and at most 1"),
        ("depth", "at least 2"),
    ]


def numbers(catalog):
    """Every number that a spec can set of a component, and every list of numbers."""
    for slot, offers in catalog.components.items():
        for name, offer in offers.items():
            for key, parameter in settings_of(offer).items():
                kind = parameter.annotation
                if bare(kind) in (int, float):
                    yield f"{slot} {name}: {key}", kind, parameter.default


def test_every_number_of_the_built_in_components_has_a_range_and_its_default_is_within(catalog):
    found = list(numbers(catalog))
    assert len(found) > 60
    assert [place for place, kind, _ in found if not list(ranges(kind))] == []
    for place, kind, default in found:
        if default is not inspect.Parameter.empty:
            assert all(default in each for each in ranges(kind)), place
