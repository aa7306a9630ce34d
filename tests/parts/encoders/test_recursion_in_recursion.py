"""Recursion in recursion against recursion written plainly, with inner encoders that show what they did."""

import pytest
import torch

import small
from crvnn_core import CrvnnError, Recursion, SpecError, Trained
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.testing.parts import PlainEncoder, plain_parts
from crvnn_core.trees import trees_of
from crvnn_parts.encoders.recursion_in_recursion import RecursionInRecursion
from crvnn_parts.encoders.sequences.lstm import LSTMEncoder
from crvnn_parts.encoders.sequences.universal_transformer import UniversalTransformer
from slow_twins import assert_same, padded

WIDTH = 6
LENGTHS = [10, 1, 3, 13, 4, 9]


def slow(inner, chunk, tokens):
    """The vector, penalty and steps of one sequence [n, d]."""
    penalty, steps = 0.0, 0
    while True:
        parts = [tokens[begin : begin + chunk] for begin in range(0, len(tokens), chunk)]
        found = [inner(part[None], torch.ones(1, len(part), dtype=torch.bool)) for part in parts]
        tokens = torch.cat([each.vector for each in found])
        penalty = penalty + sum(each.penalty[0] for each in found)
        steps += max(int(each.steps[0]) for each in found)
        if len(found) == 1:
            return tokens[0], penalty, steps


INNER = {
    "LSTM": lambda: LSTMEncoder(WIDTH),
    "recursion": lambda: Recursion(WIDTH, **plain_parts(WIDTH)),
    "Universal Transformer": lambda: UniversalTransformer(WIDTH, max_steps=3, heads=2, tau=0.1),
}


@pytest.mark.parametrize("inner", list(INNER))
@pytest.mark.parametrize("chunk", [2, 3, 30])
def test_vectors_penalties_steps_and_gradients_are_those_of_plain_recursion(inner, chunk):
    encoder = RecursionInRecursion(WIDTH, INNER[inner](), chunk).double()
    inputs, mask = padded(LENGTHS, WIDTH)
    got = encoder(inputs, mask)
    found = [slow(encoder.inner, chunk, row[:n]) for row, n in zip(inputs, LENGTHS, strict=True)]
    vector, penalty = (torch.stack(each) for each in list(zip(*found, strict=True))[:2])
    assert_same(encoder, inputs, [got.vector, got.penalty], [vector, penalty])
    assert got.steps.tolist() == [steps for _, _, steps in found]


def test_the_tree_is_that_of_the_chunks_and_of_what_they_become():
    encoder = RecursionInRecursion(WIDTH, PlainEncoder(WIDTH), 3)
    lengths = [8, 2, 1, 10]
    encoding = encoder(*padded(lengths, WIDTH, dtype=torch.float32), trace=True)
    assert [str(tree) for tree in trees_of(encoding, [tuple("abcdefghij"[:n]) for n in lengths])] == [
        "((((a b) c) ((d e) f)) (g h))",
        "(a b)",
        "a",
        "(((((a b) c) ((d e) f)) ((g h) i)) j)",
    ]


def test_hard_inference_and_trees_are_offered_as_the_inner_encoder_offers_them():
    assert RecursionInRecursion(WIDTH, PlainEncoder(WIDTH)).hard_inference
    plain = RecursionInRecursion(WIDTH, LSTMEncoder(WIDTH), 3)
    assert not plain.hard_inference
    assert plain(*padded(LENGTHS, WIDTH, dtype=torch.float32), trace=True).joins is None


def test_the_step_limit_is_that_of_all_levels():
    assert RecursionInRecursion(WIDTH, UniversalTransformer(WIDTH, 3, 2), 3).step_limit(27) == 9
    assert RecursionInRecursion(WIDTH, UniversalTransformer(WIDTH, 3, 2), 3).step_limit(28) == 12
    assert RecursionInRecursion(WIDTH, LSTMEncoder(WIDTH), 3).step_limit(9) is None


class Sampling(PlainEncoder):
    """Samples, in training, a sign for each sequence."""

    def forward(self, inputs, mask, *, trace=False, hard=False):
        plain = super().forward(inputs, mask)
        if not self.training:
            return plain
        chance = torch.sigmoid(plain.vector.mean(1))
        sign = torch.where(torch.rand_like(chance) < chance, 1.0, -1.0)
        plain.log_probability = torch.where(sign > 0, chance, 1 - chance).log()
        plain.baseline = plain.vector.detach()
        plain.vector = plain.vector * sign.unsqueeze(1)
        return plain

    def relative_cost(self, cost, baseline):
        return cost * 2


def test_sampled_decisions_are_passed_on_with_their_baseline():
    encoder, batch = RecursionInRecursion(WIDTH, Sampling(WIDTH), 3).double(), padded(LENGTHS, WIDTH)
    encoding = encoder(*batch)
    assert bool((encoding.log_probability < 0).all())
    assert encoder.training
    assert torch.equal(encoding.baseline, encoder.eval()(*batch).vector)
    assert encoder.relative_cost(torch.ones(2), None).tolist() == [2.0, 2.0]


def test_a_bad_setting_of_the_inner_encoder_is_placed_below_its_name():
    with pytest.raises(
        SpecError, match=r"--set model.encoder.inner.heads=3: encoder 'transformer' .*heads must"
    ):
        small.variant(
            "model.encoder=recursion-in-recursion",
            "model.encoder.inner=transformer",
            "model.encoder.inner.heads=3",
        )


def test_it_is_not_exported():
    with pytest.raises(CrvnnError, match="its chunks are made in Python"):
        RecursionInRecursion(WIDTH, PlainEncoder(WIDTH)).traceable()


def test_parts_of_the_inner_encoder_are_exchanged_under_its_weights():
    sets = ("model.encoder=recursion-in-recursion", "model.encoder.chunk=2", "model.decision=tempered")
    assembly = small.variant(*sets)
    trained = Trained(assembly.spec, assembly.task, assembly.model.eval())
    other = exchange_parts(trained, assembly.catalog, {"decision": "sigmoid"})
    assert type(other.model.encoder.inner.decision).__name__ == "Sigmoid"
    longer = exchange_parts(trained, assembly.catalog, sets=["model.encoder.chunk=9"])
    weight = next(longer.model.encoder.parameters())
    assert weight.data_ptr() == next(trained.model.encoder.parameters()).data_ptr()
    assert longer.model.encoder.chunk == 9
