"""The tree that a trace amounts to."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Encoding, InputError, Recursion
from crvnn_core.engine.trace import Trace
from crvnn_core.trees import Tree, tree_of, trees_of
from crvnn_core.trees.extraction import conflict_steps, describe_conflicts
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Modulated
from crvnn_parts.haltings import Threshold
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer
from small import Eager, leaves


def trace_of(exists):
    """A trace of one sequence from its existential probabilities [K + 1, n]."""
    exists = torch.tensor(exists).unsqueeze(1)
    steps = torch.tensor([len(exists) - 1])
    compose = torch.where(exists[:-1] > 0, 1 - exists[1:] / exists[:-1], 0.0)
    return Trace(compose, exists, torch.ones_like(exists[0]) > 0, steps)


def deciding(*compose):
    """A trace of one sequence from its composition probabilities [K, n]."""
    c = torch.tensor(compose).unsqueeze(1)
    exists = torch.cat([torch.ones_like(c[:1]), (1 - c).cumprod(0)])
    return Trace(c, exists, torch.ones_like(exists[0]) > 0, torch.tensor([len(c)]))


def composing(n, *steps):
    """A trace in which in each step these positions are composed with their right neighbours, without any doubt."""
    exists = [[1.0] * n]
    for positions in steps:
        exists.append([0.0 if i in positions else e for i, e in enumerate(exists[-1])])
    return trace_of(exists)


@pytest.mark.parametrize(
    ("steps", "tree"),
    [
        ([{0}, {1}, {2}], ((("a", "b"), "c"), "d")),
        ([{2}, {1}, {0}], ("a", ("b", ("c", "d")))),
        ([{0, 2}, {1}], (("a", "b"), ("c", "d"))),
        ([{1}, {0}, {2}], (("a", ("b", "c")), "d")),
        ([{0, 1, 2}], ((("a", "b"), "c"), "d")),  # at once: from left to right
        ([{1}], (("a", ("b", "c")), "d")),  # the rest is never composed and joins last
        ([], ((("a", "b"), "c"), "d")),
        ([{3}, {0}, {2}, {1}], (("a", "b"), ("c", "d"))),  # the last has no right neighbour to join
    ],
)
def test_binary_decisions_give_the_expected_tree(steps, tree):
    assert tree_of(composing(4, *steps), 0, "abcd").nested() == tree


def test_a_position_joins_in_the_step_in_which_it_becomes_more_likely_gone_than_not():
    slowly = trace_of([[1.0, 1.0, 1.0], [0.6, 0.7, 1.0], [0.55, 0.5, 1.0], [0.1, 0.3, 1.0]])
    assert tree_of(slowly, 0, "abc").nested() == ("a", ("b", "c"))


def test_padding_and_other_rows_do_not_matter():
    exists = torch.tensor([[[1.0, 1.0, 1.0, 0.0], [1.0] * 4], [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0]]])
    trace = Trace(exists[:1] - exists[1:], exists, exists[0] > 0, torch.tensor([1, 1]))
    assert tree_of(trace, 0, "abc").nested() == ("a", ("b", "c"))
    assert tree_of(trace, 1, "abcd").nested() == ((("a", "b"), "c"), "d")


@pytest.mark.parametrize("tokens", ["", "ab", "abcd"])
def test_tokens_of_another_sequence_are_refused(tokens):
    with pytest.raises(InputError, match=f"sequence 0 of the trace has 3 tokens, not {len(tokens)}"):
        tree_of(composing(3, {0}, {1}), 0, tokens)


def any_traces(rows, number):
    """A batch of random traces: of any numbers, of binary ones, of what an engine makes, and of doubts near a half."""
    generator = torch.Generator().manual_seed(number)
    k, n = number % 13, 1 + number % 29
    chances = torch.rand(k, rows, n, generator=generator)
    kind = number % 4
    if kind == 1:
        chances = chances.round()
    if kind == 3:
        chances = 0.3 + 0.2 * chances
    exists = torch.cat([torch.ones(1, rows, n), (1 - chances).cumprod(0)])
    if kind == 0:
        exists = torch.rand(k + 1, rows, n, generator=generator)
    lengths = torch.randint(1, n + 1, (rows,), generator=generator)
    mask = torch.arange(n) < lengths.unsqueeze(1)
    return Trace(chances * mask, exists * mask, mask, torch.full((rows,), k)), lengths.tolist()


def test_a_thousand_random_traces_all_give_a_well_formed_tree_over_all_tokens():
    for number in range(100):
        trace, lengths = any_traces(10, number)
        for row, length in enumerate(lengths):
            tokens = [f"t{i}" for i in range(length)]
            composed = {"cumulative": trace.compose[:, row].cumsum(0), "existence": 1 - trace.exists[1:, row]}
            for extraction, chances in composed.items():
                tree = tree_of(trace, row, tokens, extraction)
                assert leaves(tree) == tokens
                assert len(tree.nodes) == length - 1
                _in_order(tree, chances)


def _in_order(tree, chances):
    """Every node says when it was made and how surely, and none was made before its children."""
    steps = [node.step or len(chances) + 1 for node in tree.nodes]
    assert steps == sorted(steps)
    for node, step in zip(tree.nodes, steps, strict=True):
        composed = chances[:, node.split - 1]
        assert not (composed[: step - 1] >= 0.5).any()
        if node.step is not None:
            assert node.chance == pytest.approx(min(1, composed[step - 1].item()), abs=1e-6)
            assert node.chance >= 0.5


def test_the_sum_of_c_decides_as_in_the_paper_and_e_where_it_is_asked_to():
    trace = deciding([0.3, 0.0, 0.0], [0.25, 0.0, 0.0], [0.0, 0.9, 0.0], [0.9, 0.0, 0.0])
    for extraction, tree, steps in [
        ("cumulative", (("a", "b"), "c"), [2, 3]),  # 0.3 + 0.25
        ("existence", ("a", ("b", "c")), [3, 4]),  # 1 - 0.7 * 0.75 = 0.475
    ]:
        found = tree_of(trace, 0, "abc", extraction)
        assert (found.nested(), [node.step for node in found.nodes]) == (tree, steps)
    assert tree_of(trace, 0, "abc") == tree_of(trace, 0, "abc", "cumulative")


def test_an_extraction_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="must be 'cumulative' or 'existence', not 'sum'"):
        tree_of(composing(3, {0}), 0, "abc", "sum")


def test_table_1_of_the_paper_is_the_tree_of_its_existential_probabilities():
    exists = [[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 1]]
    tree = tree_of(
        trace_of([list(map(float, row)) for row in exists]), 0, ["x1", "x2", "x3", "x4", "x5", "x6"]
    )
    assert str(tree) == "((x1 (x2 x3)) (x4 (x5 x6)))"
    assert [node.step for node in tree.nodes] == [1, 1, 2, 2, 3]


def test_encoders_without_trace_or_structure_have_no_tree():
    nothing = torch.zeros(2, 1)
    assert trees_of(Encoding(nothing, nothing, nothing), ["ab", "a"]) == [None, None]


LETTERS = "abcdefgh"


@pytest.mark.parametrize("boundaries", [True, False])
def test_six_of_eight_tokens_of_a_constructed_decision_have_no_gradient_and_are_told(boundaries):
    torch.manual_seed(0)
    parts = {"retriever": Adhoc(), "scorer": WindowScorer(4), "cell": GatedCell(4), "halting": Threshold()}
    engine = Recursion(4, decision=Eager(), **parts, boundaries=boundaries).eval()
    inputs = torch.randn(1, 8, 4, requires_grad=True)
    encoding = engine(inputs, torch.ones(1, 8, dtype=torch.bool), trace=True)
    (encoding.vector @ torch.arange(4.0)).sum().backward()  # not the sum, which a LayerNorm fixes
    assert (inputs.grad[0].abs().sum(1) > 0).tolist() == [False] * 6 + [True] * 2
    tree = tree_of(encoding.trace, 0, LETTERS)
    assert str(tree) == "(((((((a b) c) d) e) f) g) h)"  # all eight
    assert [(node.split, node.conflict) for node in tree.conflicts] == [(split, 1) for split in range(1, 7)]
    assert describe_conflicts(tree) == (
        "6 conflicts: 'a' (token 1, step 1), 'b' (token 2, step 1), 'c' (token 3, step 1) and 3 more. In a conflict "
        "a node joins its right neighbour in the very step in which that one is composed, and what it carried is "
        "lost: here 6 of 8 tokens."
    )


def decided(exists, compose):
    """A trace of one step, from e before it and c."""
    e, c = torch.tensor([exists]), torch.tensor([compose])
    return Trace(c.unsqueeze(0), torch.stack([e, e * (1 - c)]), torch.ones_like(e) > 0, torch.tensor([1]))


@pytest.mark.parametrize(
    ("exists", "compose", "lost"),
    [
        ([1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1, None]),
        ([1.0, 1.0, 1.0], [0.72, 0.7, 0.0], [1, None]),  # 0.504
        ([1.0, 1.0, 1.0], [0.7, 0.7, 0.0], [None, None]),  # 0.49
        ([1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [None, None]),
        ([1.0, 0.2, 1.0, 1.0], [0.9, 0.0, 0.9, 0.0], [1, None, None]),  # over one that is nearly gone
        ([1.0, 0.8, 1.0, 1.0], [0.9, 0.0, 0.9, 0.0], [None, None, None]),
        ([0.2, 1.0, 1.0], [1.0, 1.0, 0.0], [None, None]),  # it is nearly gone itself
    ],
)
def test_a_conflict_is_where_two_neighbours_that_exist_are_more_likely_than_not_both_composed(
    exists, compose, lost
):
    assert conflict_steps(decided(exists, compose), 0, len(exists)) == lost


@given(st.integers(1, 9), st.integers(0, 5), st.integers(0, 10**6))
def test_conflicts_are_those_that_walking_to_the_right_finds(length, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    c = torch.rand(steps, 1, 9, generator=generator) ** 0.3
    exists = torch.cat([torch.ones(1, 1, 9), (1 - c).cumprod(0)])
    if seed % 2:
        exists = torch.rand(steps + 1, 1, 9, generator=generator)
    mask = torch.arange(9).unsqueeze(0) < length
    trace = Trace(c * mask, exists * mask, mask, torch.tensor([steps]))
    expected = [None] * (length - 1)
    for k in range(steps):
        there = [i for i in range(length) if trace.exists[k, 0, i] > 0.5]
        for i in there:
            j = next((j for j in there if j > i), length - 1)
            if i < length - 1 and trace.compose[k, 0, i] * trace.compose[k, 0, j] > 0.5:
                expected[i] = k + 1
    assert conflict_steps(trace, 0, length) == expected


@pytest.mark.parametrize(("between", "lost"), [(0.0, None), (0.3, 1)])
def test_modulation_excludes_conflicts_only_while_e_is_0_or_1(between, lost):
    exists = torch.tensor([[1.0, between, between, between, 1.0, 1.0]])
    scores = torch.tensor([[10.0, -10.0, -10.0, -10.0, 10.0, -10.0]])
    eligible = torch.tensor([[True] * 5 + [False]])
    c = Modulated()(scores, Adhoc()(exists, torch.ones_like(eligible)), eligible, exists)
    assert conflict_steps(decided(exists[0].tolist(), c[0].tolist()), 0, 6)[0] == lost


def test_the_last_step_in_which_a_position_is_lost_belongs_to_the_node_that_it_joins_with():
    trace = deciding([0.3, 0.0, 0.0, 0.0], [0.25, 0.0, 0.0, 0.0], [0.9, 0.9, 0.0, 0.0])
    (node,) = tree_of(trace, 0, "abcd").conflicts
    assert (node.split, node.step, node.conflict) == (1, 2, 3)


def test_a_tree_without_conflicts_and_no_tree_have_nothing_to_tell():
    assert describe_conflicts(Tree.of((("a", "b"), "c"))) == describe_conflicts(None) == ""
