"""Names of earlier versions still work, with a warning that gives the new one."""

import importlib
import sys

import pytest
import torch
from torch import nn

from crvnn_core import Decision, Halting
from crvnn_core.testing.parts import PlainDecision, PlainHalting


def test_a_decision_that_sets_former_names_works_and_is_told_the_new_ones():
    with pytest.warns(DeprecationWarning, match="is now called") as caught:

        class Old(PlainDecision):
            fades = True
            settles = False

    assert [str(warning.message) for warning in caught] == [
        "Old.fades is now called gradient_vanishes",
        "Old.settles is now called can_saturate",
    ]
    assert {warning.filename for warning in caught} == {__file__}
    assert Old().gradient_vanishes
    assert not Old().can_saturate
    assert not PlainDecision.gradient_vanishes


def test_a_halting_that_sets_the_former_name_works_and_is_told_the_new_one():
    with pytest.warns(DeprecationWarning, match="Old.looks is now called needs_vectors"):

        class Old(PlainHalting):
            looks = False

    assert not Old().needs_vectors
    assert PlainHalting.needs_vectors


def test_a_former_name_may_be_a_property():
    with pytest.warns(DeprecationWarning, match="now called gradient_vanishes"):

        class Old(PlainDecision):
            fades = property(lambda self: self.training)

    assert Old().train().gradient_vanishes
    assert not Old().eval().gradient_vanishes


def test_former_names_can_be_read_and_set_on_a_part():
    decision = PlainDecision()
    with pytest.warns(
        DeprecationWarning, match="PlainDecision.fades is now called gradient_vanishes"
    ) as caught:
        decision.fades = True
    assert caught[0].filename == __file__
    assert decision.gradient_vanishes
    with pytest.warns(DeprecationWarning, match="now called gradient_vanishes") as caught:
        assert decision.fades
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="Halting.looks"):
        assert Halting.looks


def test_new_names_give_no_warning():  # warnings are errors here
    class New(Decision, nn.Module):
        gradient_vanishes = True

        def forward(self, scores, near, eligible, exists):
            return torch.sigmoid(scores) * eligible

    assert New().gradient_vanishes


@pytest.mark.parametrize(
    ("module", "name"),
    [("watching", "watch"), ("watching", "neighbours"), ("variants", "variant"), ("published", "NAMES")],
)
def test_modules_that_documentation_named_are_found_under_their_former_names(module, name):
    sys.modules.pop(f"crvnn_core.{module}", None)
    with pytest.warns(DeprecationWarning, match=f"crvnn_core.{module} is now crvnn_core.inference"):
        found = importlib.import_module(f"crvnn_core.{module}")
    assert getattr(found, name) is not None


def test_a_module_that_never_was_is_still_missing():
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        importlib.import_module("crvnn_core.nonsense")


@pytest.mark.parametrize("package", ["cells", "decisions"])
def test_classes_are_found_in_their_package(package):
    found = importlib.import_module(f"crvnn_parts.{package}")
    for name in found._HOME:
        assert getattr(found, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        found.Nonsense  # noqa: B018
