"""Composition along given trees, its twin written out node by node, and sampled trees."""

import random

import pytest
import torch

import engines
from crvnn_core import ContractError, InputError, Recursion, Tree
from crvnn_core.testing.parts import PlainDecision, plain_parts
from crvnn_core.trees.extraction import trees_of
from crvnn_core.trees.gold import levels_of, tree_along
from slow_twins import assert_same

WIDTH = 6
LENGTHS = (7, 1, 4, 2)


def engine_of(**parts):
    torch.manual_seed(0)
    return Recursion(WIDTH, **{**plain_parts(WIDTH), **parts}).double().eval()


def random_tree(tokens, seed):
    order = list(range(len(tokens) - 1))
    random.Random(seed).shuffle(order)
    return Tree.joining(tokens, order)


@pytest.fixture
def batch():
    trees = [random_tree([f"{row}.{i}" for i in range(n)], row) for row, n in enumerate(LENGTHS)]
    return trees, *engines.batch(LENGTHS, WIDTH)


def compose_slowly(engine, inputs, tree):
    """The root of one tree, and the likelihood of every decision, one node at a time in the order of the levels."""
    state = engine.begin(inputs.unsqueeze(0), torch.ones(1, len(inputs), dtype=torch.bool))
    start, *nodes, end = state.nodes[0]
    levels = levels_of([tree], torch.ones(1, len(inputs), dtype=torch.bool))[0].tolist()
    present, left_c, surprise, count = list(range(len(nodes))), [0.0] * len(nodes), 0.0, 0
    for level in range(1, max(levels) + 1):
        vectors = torch.stack([start, *(nodes[i] for i in present), end]).unsqueeze(0)
        eligible = torch.tensor([[False, *[True] * (len(present) - 1), False, False]])
        ones = torch.ones(eligible.shape, dtype=torch.double)
        near = engine.retriever(ones, ones.bool())
        gained = torch.tensor([[0.0, *(left_c[i] for i in present), 0.0]], dtype=torch.double)
        c = engine.decision.likelihood(engine.scorer(vectors, near, gained), near, eligible, ones)[0, 1:]
        joining = [k for k, i in enumerate(present[:-1]) if levels[i] == level]
        for k in range(len(present) - 1):
            surprise = surprise - torch.log(c[k] if k in joining else 1 - c[k])
            count += 1
        before = list(nodes)
        left_c = [0.0] * len(nodes)
        for k in joining:
            nodes[present[k + 1]] = engine.cell(before[present[k]], before[present[k + 1]])
            left_c[present[k + 1]] = 1.0
        present = [i for k, i in enumerate(present) if k not in joining]
    return nodes[-1], surprise / max(count, 1)


def test_composition_along_trees_equals_composing_node_by_node(batch):
    trees, inputs, mask = batch
    engine, inputs = engine_of(), inputs.requires_grad_()
    encoding = engine(inputs, mask, levels=levels_of(trees, mask))
    slow = [compose_slowly(engine, inputs[row, : len(tree.tokens)], tree) for row, tree in enumerate(trees)]
    roots, surprises = (
        torch.stack([torch.as_tensor(each) for each in both]) for both in zip(*slow, strict=True)
    )
    fast = [encoding.vector, encoding.decision_loss]
    assert_same(engine, inputs, fast, [engine.cell.readout(roots), surprises.double()])


def test_the_trace_shows_the_trees_that_were_given(batch):
    trees, inputs, mask = batch
    encoding = engine_of()(inputs, mask, levels=levels_of(trees, mask), trace=True)
    found = trees_of(encoding, [tree.tokens for tree in trees])
    assert all(one.same(two) for one, two in zip(found, trees, strict=True))


def test_levels_and_trees_turn_into_each_other(batch):
    trees, _, mask = batch
    for tree, levels in zip(trees, levels_of(trees, mask).tolist(), strict=True):
        assert tree_along(levels, tree.tokens).same(tree)


def test_noise_gives_different_trees(batch):
    _, inputs, mask = batch
    engine = engine_of()
    assert len({tuple(engine.sample(inputs, mask, 5.0).levels[0].tolist()) for _ in range(20)}) > 5


def test_cohesion_that_is_the_same_everywhere_changes_nothing(batch):
    _, inputs, mask = batch
    engine, found = engine_of(), []
    for limits in ((), *((torch.full(mask.shape, value),) for value in (0, 3, -3))):
        torch.manual_seed(0)
        found.append(engine.sample(inputs, mask, 5.0, *limits).levels)
    assert all(torch.equal(levels, found[0]) for levels in found)


@pytest.mark.parametrize(
    "wrong", [torch.zeros(4, 6, dtype=torch.long), torch.zeros(4, 7)], ids=["shape", "type"]
)
def test_levels_and_cohesion_without_an_integer_for_each_token_are_refused(batch, wrong):
    _, inputs, mask = batch
    with pytest.raises(InputError, match=r"cohesion must be integers \(torch.long\) \[4, 7\]"):
        engine_of().sample(inputs, mask, 1.0, wrong)
    with pytest.raises(InputError, match=r"levels must be integers \(torch.long\) \[4, 7\]"):
        engine_of()(inputs, mask, levels=wrong)


def test_steps_in_which_nothing_joins_change_no_vector(batch):
    trees, inputs, mask = batch
    levels = levels_of(trees, mask)
    for engine in (engine_of(), engine_of().float()):
        inputs = inputs.to(engine.start.dtype)
        late = engine(inputs, mask, levels=3 * levels)
        torch.testing.assert_close(late.vector, engine(inputs, mask, levels=levels).vector)
        assert late.steps.tolist() == (3 * levels.amax(1)).tolist()


def test_sequences_of_one_token_have_no_decisions():
    engine, inputs = engine_of(), torch.randn(3, 2, WIDTH, dtype=torch.double)
    mask = torch.tensor([[True, False]] * 3)
    sampled = engine.sample(inputs, mask, 1.0)
    assert not sampled.levels.any()
    encoding = engine(inputs, mask, levels=sampled.levels, trace=True)
    torch.testing.assert_close(encoding.vector, engine(inputs, mask).vector)
    assert encoding.decision_loss.tolist() == [0, 0, 0]


def test_decisions_that_are_certainly_wrong_have_a_finite_loss_and_gradient(batch):
    trees, inputs, mask = batch
    engine = engine_of()
    with torch.no_grad():
        engine.scorer.score.weight.mul_(1e4)
    loss = engine(inputs, mask, levels=levels_of(trees, mask)).decision_loss
    loss.sum().backward()
    assert loss.isfinite().all()
    assert 1 < loss.max() < 14  # -log(1e-6) is 13.8
    assert engine.scorer.score.weight.grad.isfinite().all()


def test_both_kinds_of_composition_work_under_autocast(batch):
    trees, inputs, mask = batch
    engine = engine_of().float()
    levels = levels_of(trees, mask)
    exact = engine(inputs.float(), mask, levels=levels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        encoding = engine(inputs.bfloat16(), mask, levels=levels)
        sampled = engine.sample(inputs.bfloat16(), mask, 0.0)
    assert encoding.decision_loss.dtype == torch.float32
    torch.testing.assert_close(encoding.decision_loss, exact.decision_loss, atol=0.05, rtol=0.05)
    torch.testing.assert_close(encoding.vector.float(), exact.vector, atol=0.05, rtol=0.05)
    assert sampled.levels[0, :6].all()


@pytest.mark.parametrize(
    "levels",
    [[1, 1, 2, 0], [1, 2, 0, 0], [1, 2, 3, 4], [-1, 1, 2, 0], [2, 1, 2, 0]],
    ids=["neighbours", "a token too few", "the last token", "negative", "neighbours later"],
)
def test_levels_that_describe_no_tree_are_refused_with_the_sequence(levels):
    inputs, mask = torch.randn(2, 4, WIDTH, dtype=torch.double), torch.ones(2, 4, dtype=torch.bool)
    with pytest.raises(InputError, match="the levels of sequence 1 describe no tree"):
        engine_of()(inputs, mask, levels=torch.tensor([[1, 2, 1, 0], levels]))


def test_a_likelihood_of_another_shape_names_the_decision(batch):
    class Wrong(PlainDecision):
        def likelihood(self, scores, near, eligible, exists):
            return scores[:, 1:]

    _, inputs, mask = batch
    with pytest.raises(ContractError, match="likelihood of decision Wrong returned the shape"):
        engine_of(decision=Wrong()).sample(inputs, mask, 1.0)


def test_a_tree_of_another_length_is_refused():
    mask = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(InputError, match="a tree has 2 tokens, and its sequence 3"):
        levels_of([Tree.of(("a", "b"))], mask)
