"""Hard inference: one tree for each sequence, and one composition for each of its inner nodes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_core.testing.parts import BracketingCell, PlainCell
from crvnn_core.trees import tree_of
from crvnn_parts.decisions.sigmoids import Modulated
from crvnn_parts.haltings import FixedDepth, Never, Threshold
from engines import Highest, batch, sharp


def model(width=4, **parts):
    return sharp(width, **{"decision": Modulated("reference"), **parts})


@pytest.mark.parametrize("boundaries", [True, False])
@pytest.mark.parametrize("halting", [Threshold, Never, lambda: FixedDepth(2)])
@settings(max_examples=10)
@given(lengths=st.lists(st.integers(1, 15), min_size=1, max_size=4), seed=st.integers(0, 20))
def test_n_tokens_take_n_minus_1_compositions(boundaries, halting, lengths, seed):
    made = []

    class Counting(PlainCell):
        def forward(self, left, right):
            made.append(len(left))
            return super().forward(left, right)

    encoder = model(cell=Counting, halting=halting(), boundaries=boundaries, seed=seed)
    encoding = encoder(*batch(lengths, seed=seed), trace=True, hard=True)
    assert sum(made) == sum(lengths) - len(lengths)
    assert encoding.vector.isfinite().all()
    ends = encoding.trace.exists[-1]
    assert ends.sum(1).tolist() == [1] * len(lengths)


@given(st.integers(2, 12), st.integers(0, 20))
def test_it_composes_along_the_tree_that_its_trace_shows(n, seed):
    names = [f"x{i}" for i in range(n)]
    encoder = model(
        1, cell=lambda width: BracketingCell(width, names), seed=seed, sharpness=3.0, boundaries=False
    )
    inputs = torch.arange(n, dtype=torch.float64).view(1, n, 1)
    encoding = encoder(inputs, torch.ones(1, n, dtype=torch.bool), trace=True, hard=True)
    for extraction in ("cumulative", "existence"):
        tree = tree_of(encoding.trace, 0, names, extraction)
        assert encoder.cell.name(encoding.vector[0]).replace(" ", "") == str(tree).replace(" ", "")
        assert not tree.conflicts


@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 14), min_size=1, max_size=4), seed=st.integers(0, 20))
def test_decisions_that_are_binary_anyway_give_the_same_hard_and_soft(lengths, seed):
    encoder = model(decision=Highest(), seed=seed)
    inputs, mask = batch(lengths, seed=seed)
    with torch.no_grad():
        one, two = (encoder(inputs, mask, trace=True, hard=hard) for hard in (False, True))
    torch.testing.assert_close(one.vector, two.vector, atol=1e-9, rtol=0)
    torch.testing.assert_close(one.trace.exists, two.trace.exists, atol=0, rtol=0)
    assert one.steps.tolist() == two.steps.tolist()


@pytest.mark.parametrize("penalise", ["all", "unhalted"])
def test_one_node_is_left_so_nothing_is_penalised(penalise):
    encoder = model(halt_penalty=1.0, penalise=penalise, halting=FixedDepth(1))
    assert encoder(*batch([9, 4])).penalty.min() > 0
    assert encoder(*batch([9, 4]), hard=True).penalty.tolist() == [0, 0]


def test_it_is_for_inference_and_has_no_gradient():
    inputs, mask = batch([5])
    assert not model()(inputs.requires_grad_(), mask, hard=True).vector.requires_grad
