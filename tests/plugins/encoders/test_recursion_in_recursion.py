"""Recursion in recursion against recursion written plainly, with inner encoders that show what they did."""

import pytest
import torch

import small
from crvnn_core import CrvnnError, Encoder, Encoding, Recursion, SpecError, Trained
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.testing.parts import BracketingCell, PlainEncoder, plain_parts
from crvnn_core.trees import trees_of
from crvnn_parts.encoders.recursion_in_recursion import RecursionInRecursion
from crvnn_parts.encoders.sequences.lstm import LSTMEncoder
from crvnn_parts.encoders.sequences.universal_transformer import UniversalTransformer

WIDTH = 6
LENGTHS = [10, 1, 3, 29, 4, 9]


def batch_of(lengths=LENGTHS, dtype=torch.float64):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.randn(*mask.shape, WIDTH, dtype=dtype), mask


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
    inputs, mask = batch_of()
    inputs.requires_grad_()
    got = encoder(inputs, mask)
    found = [slow(encoder.inner, chunk, row[:n]) for row, n in zip(inputs, LENGTHS, strict=True)]
    vector, penalty = (torch.stack(each) for each in list(zip(*found, strict=True))[:2])
    torch.testing.assert_close(got.vector, vector)
    torch.testing.assert_close(got.penalty, penalty)
    assert got.steps.tolist() == [steps for _, _, steps in found]
    weights = torch.randn_like(vector)
    ours, theirs = (
        torch.autograd.grad((v * weights).sum() + p.sum(), [inputs, *encoder.parameters()], allow_unused=True)
        for v, p in ((got.vector, got.penalty), (vector, penalty))
    )
    for one, two in zip(ours, theirs, strict=True):
        assert (one is None) is (two is None)
        if one is not None:
            torch.testing.assert_close(one, two)


def test_a_sequence_of_one_chunk_is_the_inner_encoder_s():
    encoder, batch = RecursionInRecursion(WIDTH, PlainEncoder(WIDTH), 29).double(), batch_of()
    assert torch.equal(encoder(*batch).vector, encoder.inner(*batch).vector)


def test_the_tree_is_that_of_the_chunks_and_of_what_they_become():
    encoder = RecursionInRecursion(WIDTH, PlainEncoder(WIDTH), 3)
    lengths = [8, 2, 1, 10]
    encoding = encoder(*batch_of(lengths, torch.float32), trace=True)
    assert [str(tree) for tree in trees_of(encoding, [tuple("abcdefghij"[:n]) for n in lengths])] == [
        "((((a b) c) ((d e) f)) (g h))",
        "(a b)",
        "a",
        "(((((a b) c) ((d e) f)) ((g h) i)) j)",
    ]


def test_the_tree_of_an_inner_trace_is_the_one_composed_along():
    parts = plain_parts(WIDTH) | {"cell": BracketingCell(WIDTH, ["a", "b", "c", "d", "e", "f", "g"])}
    encoder = RecursionInRecursion(WIDTH, Recursion(WIDTH, **parts, boundaries=False), 3).eval()
    inputs = torch.zeros(1, 7, WIDTH)
    inputs[0, :, 0] = torch.arange(7)
    encoding = encoder(inputs, torch.ones(1, 7, dtype=torch.bool), trace=True, hard=True)
    assert str(trees_of(encoding, [tuple("abcdefg")])[0]) == parts["cell"].name(encoding.vector[0])


def test_hard_inference_and_trees_are_offered_as_the_inner_encoder_offers_them():
    assert RecursionInRecursion(WIDTH, PlainEncoder(WIDTH)).hard_inference
    plain = RecursionInRecursion(WIDTH, LSTMEncoder(WIDTH), 3)
    assert not plain.hard_inference
    assert plain(*batch_of(dtype=torch.float32), trace=True).joins is None


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
    encoder, batch = RecursionInRecursion(WIDTH, Sampling(WIDTH), 3).double(), batch_of()
    encoding = encoder(*batch)
    assert bool((encoding.log_probability < 0).all())
    assert encoder.training
    assert torch.equal(encoding.baseline, encoder.eval()(*batch).vector)
    assert encoder.relative_cost(torch.ones(2), None).tolist() == [2.0, 2.0]


class Wide(Encoder):
    def forward(self, inputs, mask, *, trace=False):
        return Encoding(inputs.sum(1).repeat(1, 2), inputs.new_zeros(len(inputs)), mask.sum(1))


def test_an_inner_encoder_of_another_width_is_refused():
    with pytest.raises(ValueError, match="inner must give vectors as wide as its tokens, which are 6 wide"):
        RecursionInRecursion(WIDTH, Wide(2 * WIDTH))


def test_an_inner_encoder_along_given_trees_is_refused():
    inner = PlainEncoder(WIDTH)
    inner.needs_trees = True
    with pytest.raises(
        ValueError, match="inner must find its own structure: PlainEncoder composes along given"
    ):
        RecursionInRecursion(WIDTH, inner)


def test_a_chunk_of_one_token_is_refused():
    with pytest.raises(ValueError, match="chunk must be at least 2, not 1"):
        RecursionInRecursion(WIDTH, PlainEncoder(WIDTH), 1)


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
