"""Values of a spec: checked against annotations, and never converted into another kind."""

import pytest

from crvnn_core import (
    Component,
)
from crvnn_core.spec.values import check_value


def test_a_whole_number_will_do_for_a_number():
    value = check_value(3, float)
    assert (value, type(value)) == (3.0, float)


def test_a_value_without_annotation_may_be_anything():
    assert check_value([1, "a"], Component("x", lambda thing: thing).parameters()["thing"].annotation) == [
        1,
        "a",
    ]


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (list[int], [1, 2], ["a"]),
        (list[str], ["a"], "ab"),
        (list[str] | str, "ab", 3),
        (list[str] | str, ["a"], [1]),
        (int | None, None, "a"),
    ],
)
def test_other_annotations_are_checked_too(annotation, good, bad):
    assert check_value(good, annotation) == good
    with pytest.raises(ValueError, match="must be"):
        check_value(bad, annotation)
