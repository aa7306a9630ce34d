"""Composition along given trees, its twin written out node by node, and sampled trees."""

import random

import pytest
import torch

from crvnn_core import ContractError, InputError, Recursion, Tree
from crvnn_core.testing.parts import PlainDecision, plain_parts
from crvnn_core.trees.extraction import trees_of
from crvnn_core.trees.gold import levels_of, tree_along

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
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    torch.manual_seed(1)
    return trees, torch.randn(*mask.shape, WIDTH, dtype=torch.double), mask


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
    engine = engine_of()
    encoding = engine(inputs, mask, levels=levels_of(trees, mask))
    for row, tree in enumerate(trees):
        root, surprise = compose_slowly(engine, inputs[row, : len(tree.tokens)], tree)
        torch.testing.assert_close(encoding.vector[row], engine.cell.readout(root))
        torch.testing.assert_close(encoding.decision_loss[row], torch.as_tensor(surprise, dtype=torch.double))


def test_its_gradients_equal_those_of_composing_node_by_node(batch):
    trees, inputs, mask = batch
    engine = engine_of()
    weights = [p for name, p in engine.named_parameters() if "leaf" not in name]

    def gradients(loss):
        return torch.autograd.grad(loss, weights, allow_unused=True)

    encoding = engine(inputs, mask, levels=levels_of(trees, mask))
    fast = gradients(encoding.vector.sum() + encoding.decision_loss.sum())
    slow = 0.0
    for row, tree in enumerate(trees):
        root, surprise = compose_slowly(engine, inputs[row, : len(tree.tokens)], tree)
        slow = slow + engine.cell.readout(root).sum() + surprise
    for one, two in zip(fast, gradients(slow), strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            torch.testing.assert_close(one, two)


def test_the_trace_shows_the_trees_that_were_given(batch):
    trees, inputs, mask = batch
    encoding = engine_of()(inputs, mask, levels=levels_of(trees, mask), trace=True)
    found = trees_of(encoding, [tree.tokens for tree in trees])
    assert all(one.same(two) for one, two in zip(found, trees, strict=True))


def test_levels_and_trees_turn_into_each_other(batch):
    trees, _, mask = batch
    for tree, levels in zip(trees, levels_of(trees, mask).tolist(), strict=True):
        assert tree_along(levels, tree.tokens).same(tree)


def test_noise_gives_different_trees_and_no_noise_always_the_same(batch):
    _, inputs, mask = batch
    engine = engine_of()
    drawn = {tuple(engine.sample(inputs, mask, 5.0).levels[0].tolist()) for _ in range(20)}
    greedy = {tuple(engine.sample(inputs, mask, 0.0).levels[0].tolist()) for _ in range(20)}
    assert len(drawn) > 5
    assert len(greedy) == 1


def cohesion_of(trees, mask, kept):
    """How many of the spans that are ``kept`` hold each token and its right neighbour together."""
    cohesion = torch.zeros(mask.shape, dtype=torch.long)
    for row, tree in enumerate(trees):
        for start, end in filter(kept, tree.spans()):
            cohesion[row, start : end - 1] += 1
    return cohesion


@pytest.mark.parametrize("most", [2, 4, 7], ids="spans of up to {} tokens".format)
def test_tokens_with_more_cohesion_than_around_them_become_constituents(batch, most):
    trees, inputs, mask = batch

    def kept(span):
        return span[1] - span[0] <= most

    engine, cohesion = engine_of(), cohesion_of(trees, mask, kept)
    for seed in range(10):
        torch.manual_seed(seed)
        sampled = engine.sample(inputs, mask, 5.0, cohesion)
        for tree, levels in zip(trees, sampled.levels.tolist(), strict=True):
            assert set(filter(kept, tree.spans())) <= tree_along(levels, tree.tokens).spans()
        torch.testing.assert_close(engine(inputs, mask, levels=sampled.levels).vector, sampled.vector)


def test_cohesion_that_is_the_same_everywhere_changes_nothing(batch):
    _, inputs, mask = batch
    engine = engine_of()
    for limits in (
        (),
        (torch.zeros(mask.shape, dtype=torch.long),),
        (torch.full(mask.shape, 3),),
        (torch.full(mask.shape, -3),),
    ):
        torch.manual_seed(0)
        levels = engine.sample(inputs, mask, 5.0, *limits).levels
        if not limits:
            free = levels
        assert torch.equal(levels, free)


@pytest.mark.parametrize(
    "wrong", [torch.zeros(4, 6, dtype=torch.long), torch.zeros(4, 7)], ids=["shape", "type"]
)
def test_cohesion_without_a_whole_number_for_each_token_is_refused(batch, wrong):
    _, inputs, mask = batch
    with pytest.raises(InputError, match=r"cohesion must be integers \(torch.long\) \[4, 7\]"):
        engine_of().sample(inputs, mask, 1.0, wrong)


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


def test_levels_of_another_shape_are_refused(batch):
    _, inputs, mask = batch
    with pytest.raises(InputError, match="levels must be integers"):
        engine_of()(inputs, mask, levels=torch.zeros(2, 2))


def test_a_tree_of_another_length_is_refused():
    mask = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(InputError, match="a tree has 2 tokens, and its sequence 3"):
        levels_of([Tree.of(("a", "b"))], mask)
