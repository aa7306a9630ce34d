"""Variants: the same weights under other parts."""

import pytest
import torch
from torch import nn

import small
from crvnn_core import CrvnnError, Decision, SpecError, UnknownNameError
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.inference.trained import load
from crvnn_core.training.trainer import train
from small import variant as small_variant

TEXTS = ["a b c", "c d e f a", "f", "e a c d b b"]


def chances(trained):
    return torch.tensor([list(answer.probabilities.values()) for answer in trained.predict(TEXTS)])


def test_nothing_changed_is_the_model_itself(letters, small_catalog):
    assert exchange_parts(letters, small_catalog, {}, []) is letters
    assert exchange_parts(letters, small_catalog, {"decision": letters.spec.model.decision.name}) is letters


@pytest.mark.parametrize(
    ("parts", "sets"),
    [
        ({"retriever": "log-space"}, []),
        ({"decision": "sigmoid"}, []),
        ({"decision": "tempered"}, ["model.decision.end=0.2"]),
        ({"halting": "fixed-depth"}, ["model.halting.depth=1"]),
        ({}, ["model.encoder.max_steps=1"]),
    ],
)
def test_a_variant_answers_as_a_run_with_that_spec_and_these_weights(letters, small_catalog, parts, sets):
    changed = exchange_parts(letters, small_catalog, parts, sets)
    names = [f"model.{slot}={name}" for slot, name in parts.items()]
    assembled = small_variant(*names, *sets)
    for name, tensor in assembled.model.state_dict().items():
        tensor.copy_(letters.model.state_dict().get(name, torch.ones(())))  # a schedule is at its end
    sequences = [text.split() for text in TEXTS]
    assert chances(changed) == pytest.approx(assembled.model.eval().probabilities(sequences), abs=1e-6)
    assert not torch.allclose(chances(changed), chances(letters), atol=1e-6)


def test_a_variant_shares_the_weights_and_leaves_the_model_as_it_was(letters, small_catalog):
    before = chances(letters)
    sets = ["model.decision.end=0.01"]
    changed = exchange_parts(letters, small_catalog, {"decision": "tempered"}, sets)
    pointers = {tensor.data_ptr() for tensor in letters.model.parameters()}
    assert {tensor.data_ptr() for tensor in changed.model.parameters()} == pointers
    assert float(changed.model.encoder.decision.temperature) == pytest.approx(
        0.01
    )  # a schedule is at its end
    changed.predict(TEXTS)
    assert torch.equal(chances(letters), before)


def test_a_variant_of_a_variant_forgets_nothing(letters, small_catalog):
    once = exchange_parts(letters, small_catalog, {"retriever": "log-space"})
    twice = exchange_parts(once, small_catalog, {"decision": "sigmoid"})
    assert (
        twice.spec
        == exchange_parts(letters, small_catalog, {"retriever": "log-space", "decision": "sigmoid"}).spec
    )
    assert (
        exchange_parts(twice, small_catalog, {"retriever": "adhoc", "decision": "modulated"}).spec
        == letters.spec
    )


def test_changing_the_settings_of_a_scheduled_part_keeps_its_place_in_the_schedule(tmp_path):
    assembly = small_variant("model.decision=tempered", "training.steps=2")
    train(assembly, tmp_path / "run")
    catalog = small.catalog_with()
    trained = load(tmp_path / "run", catalog)
    progress = float(trained.model.encoder.decision.progress)
    changed = exchange_parts(trained, catalog, {}, ["model.decision.end=0.1"])
    assert float(changed.model.encoder.decision.progress) == progress


@pytest.mark.parametrize("slot", ["cell", "encoder", "decisions"])
def test_only_parts_without_weights_can_be_exchanged(letters, small_catalog, slot):
    with pytest.raises(UnknownNameError, match=f"'{slot}' cannot be exchanged.*retriever, decision, halting"):
        exchange_parts(letters, small_catalog, {slot: "gated"})


@pytest.mark.parametrize(
    "text", ["model.width=4", "model.cell.hidden=3", "task.rows=3", "seed=1", "model.encoder=lstm", "model=3"]
)
def test_only_settings_of_these_parts_and_the_encoder_can_change(letters, small_catalog, text):
    with pytest.raises(SpecError, match=r"cannot change under trained weights; what can: model.retriever"):
        exchange_parts(letters, small_catalog, {}, [text])


@pytest.mark.parametrize(
    ("parts", "sets", "message"),
    [
        (
            {"decision": "sigmoit"},
            [],
            r"--decision sigmoit: no decision is called 'sigmoit'. Did you mean 'sigmoid'",
        ),
        (
            {"decision": "tempered"},
            ["model.decision.end=0"],
            r"--set model\.decision\.end=0: must be above 0, not 0",
        ),
        (
            {},
            ["model.encoder.boundaries=false"],
            r"do not fit these settings:\n  start: \[8\] in the run, absent here",
        ),
    ],
)
def test_parts_values_and_settings_that_do_not_fit_are_told_with_their_place(
    letters, small_catalog, parts, sets, message
):
    with pytest.raises(CrvnnError, match=message):
        exchange_parts(letters, small_catalog, parts, sets)


def test_every_wrong_setting_is_told_at_once(letters, small_catalog):
    sets = ["model.decision.warmth=1", "model.encoder.max_steps=often", "model.halting.epsilon"]
    with pytest.raises(SpecError) as caught:
        exchange_parts(letters, small_catalog, {}, sets)
    assert len(caught.value.problems) == 3
    assert "no parameter 'warmth'" in str(caught.value)


class Biased(Decision):
    """Has a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, scores, near, eligible, exists):
        return torch.sigmoid(scores + self.bias) * eligible


def test_a_part_with_weights_that_were_never_trained_is_refused(letters_run):
    catalog = small.catalog_with(decision=Biased)
    trained = load(letters_run, catalog)
    with pytest.raises(CrvnnError, match=r"decision 'mine' has weights of its own \(decision.bias\)"):
        exchange_parts(trained, catalog, {"decision": "mine"})
