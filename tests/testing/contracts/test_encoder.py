"""The contract of encoders: built-in encoders satisfy it, and each check fails for an encoder that violates it."""

import pytest
import torch
from torch import nn

from contract_cases import contract_tests, failures
from crvnn_core import Encoder, Encoding, Recursion, checked_lengths
from crvnn_core.engine.trace import Trace

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    ("crvnn", ("halt_penalty=0.0",)),
    ("crvnn", ("extra_steps=2",)),
    ("crvnn", ("boundaries=false", "penalise=unhalted", "extra_steps=1", "mirrored=true")),
]


class MeanEncoder(Encoder):
    """The mean of what a linear map makes of the tokens: it satisfies the contract."""

    def __init__(self, width: int):
        super().__init__(width)
        self.map = nn.Linear(width, width)

    def forward(self, inputs, mask, *, trace=False):
        lengths = mask.sum(1)
        checked_lengths(inputs, mask)
        return self.encoding(inputs.masked_fill(~mask.unsqueeze(-1), 0), mask, lengths, trace)

    def encoding(self, inputs, mask, lengths, trace):
        tokens = torch.tanh(self.map(inputs)) * mask.unsqueeze(-1)
        vector = tokens.sum(1) / lengths.unsqueeze(1)
        return Encoding(vector, vector.new_zeros(len(vector)), lengths)


def encoding(alter, kind=MeanEncoder):
    """An encoder whose encodings are altered in place, given the inputs, the mask and whether a trace is wanted."""

    class Faulty(kind):
        def encoding(self, inputs, mask, lengths, trace):
            plain = super().encoding(inputs, mask, lengths, trace)
            alter(plain, inputs, mask, trace)
            return plain

    return Faulty


def encoder(alter):
    return encoding(lambda plain, x, *_: setattr(plain, "vector", alter(plain.vector, x)))


class UncheckedEncoder(MeanEncoder):
    def forward(self, inputs, mask, *, trace=False):
        return self.encoding(inputs.masked_fill(~mask.unsqueeze(-1), 0), mask, mask.sum(1), trace)


class PaddedEncoder(MeanEncoder):
    def forward(self, inputs, mask, *, trace=False):
        checked_lengths(inputs, mask)
        return self.encoding(inputs, mask, mask.sum(1), trace)


def one_penalty(plain, inputs, mask, trace):
    plain.penalty = plain.penalty.sum()


def changed_by_tracing(plain, inputs, mask, trace):
    plain.vector = plain.vector + trace


def improbable_trace(plain, inputs, mask, trace):
    if trace:
        once = torch.ones_like(plain.steps)
        plain.trace = Trace(2.0 * mask.unsqueeze(0), torch.stack([mask, mask]).float(), mask, once)


def joining(joins):
    """An encoder that returns the joins of its own trees, made from the lengths of a batch."""

    def alter(plain, inputs, mask, trace):
        plain.joins = joins(mask.sum(1).tolist()) if trace else None

    return encoding(alter)


class GreedyEncoder(MeanEncoder):
    """Hard inference and neighbours of its own, which satisfy the contract: joins go from left to right."""

    hard_inference = True

    def forward(self, inputs, mask, *, trace=False, hard=False):
        encoding = super().forward(inputs, mask, trace=trace)
        return self.hardened(encoding, inputs, mask, trace) if hard else encoding

    def hardened(self, encoding, inputs, mask, trace):
        encoding.joins = [range(n - 1) for n in mask.sum(1).tolist()] if trace else None
        return encoding

    def neighbours(self, exists, *, hard=False):
        return adjacent_weights(exists)

    def step_limit(self, length):
        return length


def adjacent_weights(exists):
    """Each token's neighbours are the adjacent tokens, as far as they exist."""
    left = torch.diag(torch.ones(len(exists) - 1), -1)
    return left * exists, left.T * exists


def with_neighbours(alter):
    class Faulty(GreedyEncoder):
        def neighbours(self, exists, *, hard=False):
            return alter(*adjacent_weights(exists))

    return Faulty


class HardOverTheBatch(GreedyEncoder):
    def hardened(self, encoding, inputs, mask, trace):
        encoding.vector = encoding.vector - encoding.vector.mean(0)
        return encoding


class HardByGradient(GreedyEncoder):
    """Needs gradients in hard inference."""

    def hardened(self, encoding, inputs, mask, trace):
        (gradient,) = torch.autograd.grad(encoding.vector.sum(), self.map.weight)
        encoding.vector = encoding.vector.detach() + gradient.abs().amax()
        return encoding


class HardWithSoftTrace(GreedyEncoder):
    """Hard inference whose trace has c = 0.5."""

    def hardened(self, encoding, inputs, mask, trace):
        exists = torch.stack([mask, mask]).float()
        encoding.trace = Trace(0.5 * mask.unsqueeze(0), exists, mask, torch.ones_like(encoding.steps))
        return encoding


class ShortLimit(GreedyEncoder):
    def step_limit(self, length):
        return length // 2


class SoftAlongTrees(Recursion):
    """Ignores the trees that it is given."""

    def forward(self, inputs, mask, *, trace=False, hard=False, levels=None):
        return super().forward(inputs, mask, trace=trace, hard=hard)


class AlwaysNoisy(Recursion):
    def sample(self, inputs, mask, noise, cohesion=None):
        return super().sample(inputs, mask, noise + 5.0, cohesion)


class WithoutCohesion(Recursion):
    def sample(self, inputs, mask, noise, cohesion=None):
        return super().sample(inputs, mask, noise)


class DetachedLoss(Recursion):
    def forward(self, inputs, mask, *, trace=False, hard=False, levels=None):
        encoding = super().forward(inputs, mask, trace=trace, hard=hard, levels=levels)
        if levels is not None:
            encoding.decision_loss = encoding.decision_loss.detach()
        return encoding


class Samples(MeanEncoder):
    """Samples the sign of each vector in training, with the positive one as baseline: it satisfies the contract."""

    def __init__(self, width: int):
        super().__init__(width)
        self.score = nn.Linear(width, 1)

    def encoding(self, inputs, mask, lengths, trace):
        plain = super().encoding(inputs, mask, lengths, trace)
        if self.training:
            score = self.score(plain.vector.detach()).squeeze(1).float()
            sign = torch.where(torch.rand_like(score) < score.sigmoid(), 1, -1)
            plain.log_probability = nn.functional.logsigmoid(sign * score)
            plain.baseline = plain.vector.detach()
            plain.vector = plain.vector * sign.unsqueeze(1)
        return plain


def sampling(alter):
    return encoding(lambda plain, *_: alter(plain), Samples)


def with_chances(alter):
    return sampling(lambda plain: setattr(plain, "log_probability", alter(plain.log_probability)))


def with_costs(relative_cost):
    return type("Faulty", (Samples,), {"relative_cost": lambda self, *costs: relative_cost(*costs)})


NEIGHBOURS = [
    (lambda left, right: (left, right[:, :-1]), "neighbours to the right: [5, 4]; expected [5, 5]"),
    (lambda left, right: (2 * left, right), "sum to 2 in a row"),
    (lambda left, right: (-left, right), "negative weights"),
    (lambda left, right: (right, left), "on the other side"),
    (lambda left, right: (left, (right > -1).triu(1) / 5), "tokens that do not exist"),
]
CHANCES = [
    (lambda chances: chances.sum(), "the shape of log_probability: []; expected [3]"),
    (lambda chances: -chances, "it cannot be positive"),
    (lambda chances: chances.detach(), "log_probability has no gradient"),
]
#: A check, an encoder that fails it, and a part of the reason that is given.
FAULTY = [
    *(("shows_neighbours_as_probabilities", with_neighbours(alter), why) for alter, why in NEIGHBOURS),
    *(("samples_in_training_only", with_chances(alter), why) for alter, why in CHANCES),
    ("keeps_its_step_limit", ShortLimit, "took 7 steps; step_limit(7) is 3"),
    ("infers_hard_alone_as_in_a_batch", HardOverTheBatch, "the vector of sequence 0"),
    ("infers_hard_without_gradients", HardByGradient, "does not require grad"),
    ("infers_hard_along_one_tree", HardWithSoftTrace, "c of hard inference is neither 0 nor 1"),
    ("composes_along_sampled_trees", SoftAlongTrees, "composed along the sampled trees: differs"),
    ("samples_within_the_cohesion", WithoutCohesion, "are no constituents"),
    ("samples_one_tree_without_noise", AlwaysNoisy, "a second call without noise gives other trees"),
    ("supervises_its_decisions", DetachedLoss, "decision_loss has no gradient"),
    (
        "samples_in_training_only",
        type("Faulty", (Samples,), {"eval": lambda self: self}),
        "is given in evaluation",
    ),
    ("refuses_what_it_cannot_encode", UncheckedEncoder, "no InputError was raised"),
    ("traces_truly", encoding(changed_by_tracing), "the vector, traced"),
    ("traces_truly", encoding(improbable_trace), "c is between 0 and 2.0000000, which is no probability"),
    (
        "joins_every_position_once",
        joining(lambda lengths: [range(n) for n in lengths]),
        "sequence 0 has 7 tokens and the joins [0, 1, 2, 3, 4, 5, 6]; expected 0 to 7 - 2, each once",
    ),
    (
        "gives_baselines_without_gradients",
        sampling(lambda encoding: setattr(encoding, "baseline", encoding.vector)),
        "baselines require gradients",
    ),
    (
        "weighs_its_costs",
        with_costs(lambda cost, baseline: cost.mean()),
        "the shape of relative_cost: []; expected [3]",
    ),
    (
        "gives_one_vector_a_sequence",
        encoder(lambda vector, x: vector.unsqueeze(1)),
        "the shape of the vectors: [3, 1, 6]; expected [3, 6]",
    ),
    ("gives_one_vector_a_sequence", encoding(one_penalty), "the shape of the penalty: []; expected [3]"),
    ("ignores_padding", PaddedEncoder, "with other padding (nan)"),
    (
        "treats_each_sequence_alone",
        encoder(lambda vector, x: vector + torch.arange(len(vector), device=vector.device)[:, None]),
        "turned round",
    ),
    (
        "sees_every_token",
        encoder(lambda vector, x: 2 * x[:, 0]),
        "the vector of sequence 0 does not depend on its token 1",
    ),
    (
        "joins_every_position_once",
        joining(lambda lengths: [[0] * (n - 1) for n in lengths]),
        "expected 0 to 7 - 2, each once",
    ),
    (
        "joins_every_position_once",
        joining(lambda lengths: [range(lengths[0] - 1)]),
        "there are joins of 1 sequences; expected 3",
    ),
    (
        "joins_every_position_once",
        joining(lambda lengths: [torch.arange(n - 1) for n in lengths]),
        "the joins of sequence 0 are not integers",
    ),
    (
        "works_under_autocast",
        encoder(lambda vector, x: vector * torch.nan if torch.is_autocast_enabled("cpu") else vector),
        "in bfloat16: differs by up to nan",
    ),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("encoder", MeanEncoder, FAULTY, VARIANTS)


@pytest.mark.parametrize(
    "build", [Samples, GreedyEncoder, joining(lambda lengths: [range(n - 1)[::-1] for n in lengths])]
)
def test_an_encoder_with_capabilities_satisfies_the_contract(build):
    assert failures("encoder", build) == []
