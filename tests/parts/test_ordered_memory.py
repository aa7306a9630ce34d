"""Ordered Memory against its equations written out for one sequence, with every slot held all the time."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_core.testing.parts import BracketingCell
from crvnn_core.trees import trees_of
from crvnn_parts.encoders.ordered_memory import OrderedMemory
from slow_twins import assert_same, padded

WIDTH = 5


def slow_cell(om, below, slot):
    inner = torch.relu(om.expand.weight @ torch.cat([below, slot]) + om.expand.bias)
    low, high, take, new = (om.gates.weight @ inner + om.gates.bias).view(4, -1)
    total = torch.sigmoid(low) * below + torch.sigmoid(high) * slot + torch.sigmoid(take) * new
    return om.norm(total)


def slow_choice(om, token, built, last):
    """p over all slots, given the trees built there and the choice ``last`` of the token before."""
    query = om.query_norm(om.query(token))
    weights = []
    for i in range(om.slots):
        score = om.score.weight[0] @ torch.relu(query + om.key_norm(om.key(built[i]))) / math.sqrt(WIDTH)
        reach = sum(last[: i + 2]) if i + 1 < om.slots else torch.ones((), dtype=token.dtype)
        weights.append(score.exp() * (reach if reach >= om.cutoff else 0.0))
    return [weight / sum(weights) for weight in weights]


def slow(om, inputs):
    """The vector of one sequence [n, d]."""
    tokens = om.norm(om.token_map(inputs))
    nothing = torch.zeros(WIDTH, dtype=inputs.dtype)
    stored, built = [nothing] * om.slots, [tokens[0]] * om.slots
    chosen = [torch.zeros((), dtype=inputs.dtype)] * om.slots
    for token in tokens[1:]:
        chosen = slow_choice(om, token, built, chosen)
        falling = [sum(chosen[i:]) for i in range(om.slots)]
        stored = [(1 - falling[i]) * stored[i] + falling[i] * built[i] for i in range(om.slots)]
        below, built = token, []
        for i in range(om.slots):
            rising = sum(chosen[: i + 1])
            below = (1 - rising) * token + rising * slow_cell(om, below, stored[i])
            built.append(below)
    return built[-1]


def memory_of(seed, slots=4, sharpness=1.0, **settings):
    """An encoder in float64 whose choices are as sharp as asked for."""
    torch.manual_seed(seed)
    om = OrderedMemory(WIDTH, slots=slots, **settings).double()
    with torch.no_grad():
        om.score.weight.mul_(sharpness)
    return om


def windows(om, monkeypatch):
    """The memories that an encoder goes through, noted as it reads."""
    seen, read = [], om.read
    monkeypatch.setattr(om, "read", lambda *args: seen.append(read(*args)) or seen[-1])
    return seen


@pytest.mark.parametrize("by_hand", [True, False])
@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    slots=st.integers(2, 5),
    sharpness=st.sampled_from([1.0, 30.0, 300.0]),
    seed=st.integers(0, 99),
)
def test_vectors_and_gradients_are_those_of_the_equations(by_hand, lengths, slots, sharpness, seed):
    om = memory_of(seed, slots, sharpness)
    if not by_hand:  # as under autocast, or with dropout
        om._transposed = lambda tokens: None
    inputs, mask = padded(lengths, WIDTH)
    got = om(inputs, mask).vector
    want = torch.stack([slow(om, row[:n]) for row, n in zip(inputs, lengths, strict=True)])
    assert_same(om, inputs, [got], [want], atol=1e-7, rtol=1e-7)


def test_only_slots_that_can_be_chosen_are_held(monkeypatch):
    inputs, mask = padded([40], WIDTH)
    sizes = {}
    for sharpness in (1.0, 300.0):
        om = memory_of(3, slots=8, sharpness=sharpness)
        seen = windows(om, monkeypatch)
        vector = om(inputs, mask).vector[0]
        sizes[sharpness] = [len(memory.rising) for memory in seen]
        torch.testing.assert_close(vector, slow(om, inputs[0]), atol=1e-9, rtol=1e-9)
    assert sizes[1.0][:8] == list(range(1, 9))  # a slot more with every token, until there are no more
    assert max(sizes[1.0]) == 8
    steps = [b - a for a, b in zip(sizes[300.0], sizes[300.0][1:], strict=False)]
    assert min(steps) < 0 < max(steps)  # with sharp choices, slots go and come back


def test_without_a_cutoff_vectors_change_by_little_more_than_it(monkeypatch):
    om, inputs_and_mask = memory_of(5, slots=6, sharpness=40.0), padded([25, 9], WIDTH, seed=4)
    cut = om(*inputs_and_mask).vector
    om.cutoff = 0.0
    seen = windows(om, monkeypatch)
    assert 0 < (om(*inputs_and_mask).vector - cut).abs().max() < 1e-3
    assert len(seen[-1].rising) == 6


def test_scores_of_any_size_give_finite_vectors_and_gradients():
    om = memory_of(4, sharpness=1e6)
    inputs, mask = padded([30, 17], WIDTH)
    vector = om(inputs, mask).vector
    vector.square().sum().backward()
    assert all(part.isfinite().all() for part in (vector, inputs.grad, *(p.grad for p in om.parameters())))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_cast_to_another_type_gives_vectors_of_that_type(dtype):
    om = OrderedMemory(WIDTH, slots=3).to(dtype)
    inputs, mask = padded([6, 2], WIDTH, dtype=dtype)
    vector = om(inputs, mask).vector
    vector.sum().backward()
    assert vector.dtype == dtype
    assert bool(vector.isfinite().all())


def test_dropout_is_for_training_alone():
    om = OrderedMemory(WIDTH, slots=3, dropout=0.5)
    inputs, mask = padded([8], WIDTH, dtype=torch.float32)
    trees, reach = torch.randn(3, 2, WIDTH), torch.ones(3, 2)
    for random in (lambda: om.composed(trees[0], trees[1]), lambda: om.choice(trees, trees[2], reach)):
        assert not torch.equal(random(), random())
    assert not torch.equal(om(inputs, mask).vector, om(inputs, mask).vector)
    om.eval()
    assert torch.equal(om(inputs, mask).vector, om(inputs, mask).vector)


def test_parameters_are_those_of_the_paper():
    d = 16
    maps = 3 * (d * d + d) + d  # tokens, queries, keys; scores, whose bias could change nothing
    cell = (2 * d * 4 * d + 4 * d) + (4 * d * 4 * d + 4 * d)
    norms = 3 * 2 * d  # queries, keys, and one for tokens and trees
    assert sum(p.numel() for p in OrderedMemory(d).parameters()) == maps + cell + norms
    assert OrderedMemory(d).slots == 21


class Showing(OrderedMemory):
    """One that composes names, and whose choices are made beforehand: how many trees to compose before each token."""

    def __init__(self, names, script, slots=21):
        super().__init__(1, slots=slots)
        self.cell, self.script = BracketingCell(1, names), script
        self.token_map = self.query = self.query_norm = torch.nn.Identity()
        self.norm = torch.nn.Identity()
        self.norm.weight = torch.zeros(1)

    def _transposed(self, tokens):
        return None

    def choice(self, built, query, reach):
        lowest = (reach == 0).all(1).sum()  # where the last token stands; further up it stands with others
        chosen = torch.zeros_like(reach)
        chosen[min(int(lowest) + self.script.pop(0), len(reach) - 1)] = 1
        return chosen

    def composed(self, below, slot):
        return self.cell(slot, below)


@given(st.lists(st.integers(0, 3), min_size=0, max_size=11), st.sampled_from([3, 21]))
def test_the_tree_is_the_one_that_sure_choices_compose(script, slots):
    names = [f"x{i}" for i in range(len(script) + 1)]
    om = Showing(names, list(script), slots)
    encoding = om(torch.arange(float(len(names))).view(1, -1, 1), torch.ones(1, len(names)) > 0, trace=True)
    (tree,) = trees_of(encoding, [names])
    assert str(tree) == om.cell.name(encoding.vector[0])


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.sampled_from([1.0, 30.0, 300.0]),
    st.integers(0, 99),
)
def test_soft_choices_give_a_whole_tree_too_and_batch_mates_change_none(lengths, sharpness, seed):
    om = memory_of(seed, sharpness=sharpness)
    inputs, mask = padded(lengths, WIDTH)
    sequences = ["abcdefghi"[:length] for length in lengths]
    trees = trees_of(om(inputs, mask, trace=True), sequences)
    assert [tree.tokens for tree in trees] == list(map(tuple, sequences))
    for row, length in enumerate(lengths):
        alone = om(inputs[row : row + 1, :length], mask[row : row + 1, :length], trace=True)
        assert trees_of(alone, sequences[row : row + 1]) == [trees[row]]
    assert om(inputs, mask).joins is None
