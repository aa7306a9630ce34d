"""Recursions as one graph: the same vectors as the engine's, whatever the parts, lengths and settings."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engines
from crvnn_core import Recursion
from crvnn_core.engine import traceable
from crvnn_core.engine.traceable import TraceableHard, TraceableSoft
from engines import loop_in_python


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The loop without torch's graph, which tests/export makes."""
    monkeypatch.setattr(traceable, "while_loop", loop_in_python)


def recursion(catalog, width=6, **chosen):
    """A recursion of installed components, by slot; other settings are the encoder's."""
    torch.manual_seed(1)
    names = {
        "retriever": "adhoc",
        "scorer": "window",
        "decision": "stretched",
        "cell": "gated",
        "halting": "threshold",
    }
    parts = {
        slot: catalog.find(slot, chosen.pop(slot, name)).component.make({"width": width})
        for slot, name in names.items()
    }
    return Recursion(width, **parts, **chosen).eval()


def batch(lengths, width=6):
    return engines.batch(lengths, width, 2, torch.float32)


def assert_same(engine, lengths=(7, 1, 2, 12, 5)):
    inputs, mask = batch(lengths)
    with torch.no_grad():
        for hard in (False, True):
            wanted, found = engine(inputs, mask, hard=hard).vector, engine.traceable(hard=hard)(inputs, mask)
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


SLOTS = ("retriever", "scorer", "decision", "cell", "halting")


@pytest.mark.parametrize("slot", SLOTS)
def test_every_installed_part_gives_the_same_vectors(slot, catalog):
    for name in catalog.components[slot]:
        assert_same(recursion(catalog, **{slot: name}))


@pytest.mark.parametrize(
    "settings",
    [
        {"boundaries": False},
        {"max_steps": 3},
        {"extra_steps": 4},
        {"shortcuts": False},
        {"max_steps": 2, "boundaries": False, "cell": "lstm"},
    ],
    ids=str,
)
def test_settings_of_the_encoder_hold(settings, catalog):
    assert_same(recursion(catalog, **settings))


@settings(max_examples=15)
@given(
    lengths=st.lists(st.integers(1, 14), min_size=1, max_size=4),
    decision=st.sampled_from(["modulated", "stretched"]),
)
def test_batches_of_all_lengths_give_the_same_vectors(lengths, decision, catalog):
    assert_same(recursion(catalog, decision=decision), lengths)


def test_more_padding_changes_nothing(catalog):
    engine = recursion(catalog)
    inputs, mask = batch([3, 6])
    wider, longer = (
        torch.nn.functional.pad(inputs, (0, 0, 0, 5), value=9.0),
        torch.nn.functional.pad(mask, (0, 5)),
    )
    with torch.no_grad():
        for form in (engine.traceable(), engine.traceable(hard=True)):
            torch.testing.assert_close(form(wider, longer), form(inputs, mask), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("depth", [1, 3, 20])
def test_an_unrolled_loop_is_a_limit_of_steps(depth, catalog):
    inputs, mask = batch([7, 1, 2, 12, 5])
    with torch.no_grad():
        found = recursion(catalog).traceable(depth=depth)(inputs, mask)
        wanted = recursion(catalog, max_steps=depth)(inputs, mask).vector
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_the_weights_are_the_engines_own(catalog):
    engine = recursion(catalog)
    for form in (TraceableSoft(engine), TraceableHard(engine)):
        assert set(map(id, form.parameters())) == set(map(id, engine.parameters()))


def test_gradients_are_the_engines(catalog):
    engine = recursion(catalog, decision="modulated", retriever="log-space")
    inputs, mask = batch([5, 3])
    weights = list(engine.cell.parameters())
    wanted = torch.autograd.grad(engine(inputs, mask).vector.square().sum(), weights)
    found = torch.autograd.grad(engine.traceable(depth=4)(inputs, mask).square().sum(), weights)
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-3)
