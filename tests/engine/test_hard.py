"""Hard inference: one tree for each sequence, and one composition for each of its inner nodes."""

import json

import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_core import Decision, Recursion
from crvnn_core.cli import main
from crvnn_core.testing.parts import BracketingCell, PlainCell
from crvnn_core.trees import tree_of
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Modulated
from crvnn_parts.haltings import FixedDepth, Never, Threshold
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer


def model(width=4, *, sharpness=10.0, seed=2, **parts):
    torch.manual_seed(seed)
    scorer = WindowScorer(width, transition=3)
    with torch.no_grad():
        scorer.score.weight *= sharpness
    defaults = {
        "retriever": Adhoc(),
        "scorer": scorer,
        "decision": Modulated("reference"),
        "cell": GatedCell(width),
        "halting": Threshold(),
    }
    return Recursion(width, **{**defaults, **parts}).double().eval()


def batch(lengths, width=4, seed=1):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(len(lengths), max(lengths), width, dtype=torch.float64, generator=generator)
    return inputs, torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


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

    encoder = model(cell=Counting(4), halting=halting(), boundaries=boundaries, seed=seed)
    encoding = encoder(*batch(lengths, seed=seed), trace=True, hard=True)
    assert sum(made) == sum(lengths) - len(lengths)
    assert encoding.vector.isfinite().all()
    ends = encoding.trace.exists[-1]
    assert ends.sum(1).tolist() == [1] * len(lengths)


@given(st.integers(2, 12), st.integers(0, 20))
def test_it_composes_along_the_tree_that_its_trace_shows(n, seed):
    names = [f"x{i}" for i in range(n)]
    cell = BracketingCell(1, [*names, "START", "END"])
    encoder = model(1, cell=cell, seed=seed, sharpness=3.0, boundaries=False)
    inputs = torch.arange(n, dtype=torch.float64).view(1, n, 1)
    encoding = encoder(inputs, torch.ones(1, n, dtype=torch.bool), trace=True, hard=True)
    for extraction in ("cumulative", "existence"):
        tree = tree_of(encoding.trace, 0, names, extraction)
        assert cell.name(encoding.vector[0]).replace(" ", "") == str(tree).replace(" ", "")
        assert not tree.conflicts


class Highest(Decision):
    """Composes what scores higher than both its neighbours, for sure."""

    def forward(self, scores, near, eligible, exists):
        strength = torch.exp(scores) * eligible
        left, _, right = near.window(strength, 1)
        return ((strength > left) & (strength > right)).to(scores.dtype)


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


def test_eval_reports_hard_decisions_beside_soft_ones(tmp_path):
    file = tmp_path / "rows.tsv"
    file.write_text("9\t[MAX 2 9 ]\n1\t[MIN 4 [MIN 1 7 ] ]\n")
    arguments = ["eval", "listops", "--data", str(file), "--hard"]
    plain = CliRunner().invoke(main, arguments)
    assert plain.exit_code == 0, plain.output
    assert f"{file}, hard" in plain.stdout.replace("\n", "")
    found = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert found["total"]["examples"] == found["hard"]["total"]["examples"] == 2


def test_predict_shows_the_tree_that_was_composed():
    result = CliRunner().invoke(main, ["predict", "listops", "[MAX 2 9 ]", "--hard", "--json"])
    (answer,) = json.loads(result.stdout)
    assert answer["trees"][0].count("(") == 3
