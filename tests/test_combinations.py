"""Every combination of built-in parts: a batch gives what each sequence gives alone."""

import itertools

import pytest
import torch

from crvnn_core import assemble, read_spec

SLOTS = ("retriever", "decision", "cell", "halting")
LENGTHS = (9, 1, 4, 2, 7)


def names(slot):
    from crvnn_core import create_plugin_manager, read_catalog

    return [
        name
        for name, offer in read_catalog(create_plugin_manager()).components[slot].items()
        if offer.source.package == "crvnn"
    ]


@pytest.mark.parametrize(
    ("retriever", "decision"), list(itertools.product(names("retriever"), names("decision")))
)
def test_a_batch_gives_what_each_sequence_gives_alone(catalog, retriever, decision):
    for cell, halting in itertools.product(names("cell"), names("halting")):
        parts = dict(zip(SLOTS, (retriever, decision, cell, halting), strict=True))
        for modulation in _modulations(decision):
            sets = ["model.width=8", *modulation]
            encoder = assemble(read_spec(catalog, parts=parts, sets=sets), catalog).model.encoder.eval()
            _same_alone(encoder, f"{parts} {modulation}")


def _modulations(decision):
    if decision == "sigmoid":
        return [[]]
    key = "form" if decision == "modulated" else "modulation"
    return [[f'model.decision.{key}="{form}"'] for form in ("paper", "reference")]


@torch.no_grad()
def _same_alone(encoder, title):
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(len(LENGTHS), max(LENGTHS), 8, generator=generator)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    together = encoder(inputs, mask)
    assert together.vector.isfinite().all(), title
    for row, n in enumerate(LENGTHS):
        alone = encoder(inputs[row : row + 1, :n], mask[row : row + 1, :n])
        assert (together.vector[row] - alone.vector[0]).abs().max() <= 1e-5, f"{title}, sequence {row}"
        assert (together.penalty[row] - alone.penalty[0]).abs() <= 1e-5, f"{title}, sequence {row}"
        assert together.steps[row] == alone.steps[0], f"{title}, sequence {row}"
