"""Built-in parts in all combinations of three: a batch gives what each sequence gives alone."""

import itertools

import pytest
import torch

from crvnn_core import create_plugin_manager, read_catalog
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from engines import batch

LENGTHS = (7, 1, 4, 2)
#: Settings with which a halting has something to do on sequences as short as these.
SOON = {"fixed-depth": ["model.halting.depth=3"], "threshold": ["model.halting.epsilon=0.3"]}


def names(slot):
    offers = read_catalog(create_plugin_manager()).components[slot]
    return [name for name, offer in offers.items() if offer.source.package == "crvnn"]


def combinations(decision):
    """The parts that go with a decision: a third of all, among which every two of them meet."""
    others = [enumerate(names(slot)) for slot in ("retriever", "cell", "halting")]
    for (i, retriever), (j, cell), (k, halting) in itertools.product(*others):
        if (i + j + k) % 3 == 0:
            yield {"retriever": retriever, "decision": decision, "cell": cell, "halting": halting}


@pytest.mark.parametrize("decision", names("decision"))
def test_a_batch_gives_what_each_sequence_gives_alone(catalog, decision):
    early = {halting: [] for halting in names("halting")}
    for parts in combinations(decision):
        halting = parts["halting"]
        for modulation in _modulations(decision):
            sets = ["model.width=8", *modulation, *SOON.get(halting, [])]
            encoder = assemble(read_spec(catalog, parts=parts, sets=sets), catalog).model.encoder.eval()
            with torch.no_grad():  # eager scores, so that sequences halt, and at different times
                encoder.scorer.score.weight.mul_(3)
                encoder.scorer.score.bias.fill_(4)
            early[halting].append(_same_alone(encoder, f"{parts} {modulation}"))
    assert any(early["threshold"])
    assert all(early["fixed-depth"])
    assert not any(early["never"])


def _modulations(decision):
    if decision == "sigmoid":
        return [[]]
    key = "form" if decision == "modulated" else "modulation"
    forms = {"sparsemax": ("none", "paper"), "modulated": ("paper", "bounded", "reference")}.get(
        decision, ("paper", "bounded")
    )
    return [[f'model.decision.{key}="{form}"'] for form in forms]


@torch.no_grad()
def _same_alone(encoder, title):
    """Assert it, and tell whether a sequence stopped before it had to."""
    inputs, mask = batch(LENGTHS, 8, 7, torch.float32)
    together = encoder(inputs, mask)
    assert together.vector.isfinite().all(), title
    for row, n in enumerate(LENGTHS):
        alone = encoder(inputs[row : row + 1, :n], mask[row : row + 1, :n])
        assert (together.vector[row] - alone.vector[0]).abs().max() <= 1e-5, f"{title}, sequence {row}"
        assert (together.penalty[row] - alone.penalty[0]).abs() <= 1e-5, f"{title}, sequence {row}"
        assert together.steps[row] == alone.steps[0], f"{title}, sequence {row}"
    return bool((together.steps < mask.sum(1) - 1).any())
