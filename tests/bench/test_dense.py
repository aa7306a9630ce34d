"""The dense engine against the recursion: two readings of the paper that share nothing but their parameters."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_bench.dense import DenseEngine, neighbour_matrices
from crvnn_core import CrvnnError, Recursion, set_progress
from crvnn_core.testing import strategies
from crvnn_core.testing.parts import PlainCell
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Modulated, Sigmoid, Stretched, Tempered
from crvnn_parts.haltings import FixedDepth, Never, Threshold
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer

WIDTH = 6
DECISIONS = {
    "sigmoid": Sigmoid,
    "modulated": lambda: Modulated("paper"),
    "modulated-bounded": lambda: Modulated("bounded"),
    "modulated-reference": lambda: Modulated("reference"),
    "stretched-alone": lambda: Stretched(0.1, "none"),
    "stretched": lambda: Stretched(0.1, "paper"),
    "stretched-bounded": lambda: Stretched(0.1, "bounded"),
}
HALTINGS = {"threshold": lambda: Threshold(0.1), "fixed-depth": lambda: FixedDepth(3), "never": Never}


def recursion(
    decision="modulated", halting="threshold", dtype=torch.float32, scorer=None, cell=None, **options
):
    torch.manual_seed(5)
    engine = Recursion(
        WIDTH,
        retriever=Adhoc(),
        scorer=WindowScorer(WIDTH, **(scorer or {})),
        decision=DECISIONS[decision](),
        cell=GatedCell(WIDTH, **(cell or {})),
        halting=HALTINGS[halting](),
        **options,
    )
    for parameter in engine.parameters():  # away from the zeros and ones that biases and norms begin with
        parameter.data += 0.3 * torch.randn_like(parameter)
    return engine.to(dtype)


def batch(mask, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*mask.shape, WIDTH, generator=generator, dtype=torch.float64).to(dtype)


def answers(encoder, inputs, mask):
    """What an encoder gives, and the gradients that it leaves."""
    encoder.zero_grad()
    inputs = inputs.clone().requires_grad_()
    encoding = encoder(inputs, mask)
    weights = torch.linspace(-1, 1, encoding.vector.numel()).view_as(encoding.vector).to(inputs.dtype)
    ((encoding.vector * weights).sum() + encoding.penalty.sum()).backward()
    gradients = {"inputs": inputs.grad}
    for name, parameter in encoder.named_parameters():
        gradients[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
    return encoding, gradients


def assert_alike(engine, inputs, mask, tolerance):
    ours, our_gradients = answers(engine, inputs, mask)
    theirs, their_gradients = answers(DenseEngine(engine), inputs, mask)
    assert theirs.steps.tolist() == ours.steps.tolist()
    torch.testing.assert_close(theirs.vector, ours.vector, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(theirs.penalty, ours.penalty, rtol=tolerance, atol=tolerance)
    assert their_gradients.keys() == our_gradients.keys()
    for name, gradient in our_gradients.items():
        scale = max(1.0, gradient.abs().max().item())
        difference = (their_gradients[name] - gradient).abs().max().item()
        assert difference <= 10 * tolerance * scale, (name, difference)


PAIRS = [(name, shortcuts) for name in DECISIONS for shortcuts in (False, True)]


@settings(max_examples=8)
@pytest.mark.parametrize(("decision", "shortcuts"), sorted(set(PAIRS)))
@given(mask=strategies.masks(max_length=10, max_batch=3), seed=st.integers(0, 99))
def test_values_and_gradients_agree_with_the_recursion_in_float64(decision, shortcuts, mask, seed):
    engine = recursion(decision, dtype=torch.float64, shortcuts=shortcuts)
    assert_alike(engine, batch(mask, torch.float64, seed), mask, 1e-9)


@settings(max_examples=4)
@pytest.mark.parametrize(("decision", "shortcuts"), sorted(set(PAIRS)))
@given(mask=strategies.masks(max_length=10, max_batch=3), seed=st.integers(0, 99))
def test_values_and_gradients_agree_with_the_recursion_in_float32(decision, shortcuts, mask, seed):
    engine = recursion(decision, shortcuts=shortcuts)
    assert_alike(engine, batch(mask, torch.float32, seed), mask, 1e-5)


def test_noise_of_the_decision_is_drawn_in_training_only():
    mask = torch.ones(1, 8, dtype=torch.bool)
    engine = recursion("stretched")
    engine.decision.noise = 0.5
    set_progress(engine, 1.0)
    dense, inputs = DenseEngine(engine), batch(mask, torch.float32)
    assert not torch.equal(dense(inputs, mask).vector, dense(inputs, mask).vector)
    torch.testing.assert_close(dense.eval()(inputs, mask).vector, engine.eval()(inputs, mask).vector)


@pytest.mark.parametrize("halting", HALTINGS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"boundaries": False},
        {"scorer": {"transition": 0}},
        {"scorer": {"window": 1}},
        {"scorer": {"window": 3, "activation": "relu"}},
        {"cell": {"activation": "gelu-tanh", "shared_norm": True, "hidden": 9}},
        {"penalise": "unhalted", "extra_steps": 1},
        {"max_steps": 2, "halt_penalty": 0.0},
    ],
    ids=str,
)
def test_every_setting_means_the_same_to_both(halting, options):
    mask = torch.arange(11) < torch.tensor([11, 1, 7, 2, 10]).unsqueeze(1)
    engine = recursion(halting=halting, dtype=torch.float64, **options)
    assert_alike(engine, batch(mask, torch.float64), mask, 1e-9)


def test_a_sequence_that_halts_early_is_left_as_it_is():
    mask = torch.arange(12) < torch.tensor([3, 12]).unsqueeze(1)
    engine = DenseEngine(recursion(dtype=torch.float64))
    inputs = batch(mask, torch.float64)
    together = engine(inputs, mask)
    alone = engine(inputs[:1, :3], mask[:1, :3])
    assert together.steps[0] < together.steps[1]
    assert together.steps[0] == alone.steps[0]
    torch.testing.assert_close(together.vector[:1], alone.vector, rtol=1e-12, atol=1e-12)


def test_what_stands_under_padding_changes_nothing():
    mask = torch.arange(6) < torch.tensor([4, 6]).unsqueeze(1)
    engine = DenseEngine(recursion())
    inputs = batch(mask, torch.float32)
    spoilt = inputs.masked_fill(~mask.unsqueeze(-1), torch.nan)
    assert torch.equal(engine(inputs, mask).vector, engine(spoilt, mask).vector)


@given(exists=strategies.existences(max_length=30, dtype=torch.float64))
def test_the_matrices_are_those_of_equation_5(exists):
    written_out = AdhocDense()(exists, torch.ones_like(exists, dtype=torch.bool))
    to_left, to_right = neighbour_matrices(exists)
    torch.testing.assert_close(to_left, written_out.to_left, rtol=0, atol=1e-12)
    torch.testing.assert_close(to_right, written_out.to_right, rtol=0, atol=1e-12)


def test_it_trains_the_parameters_of_the_recursion():
    engine = recursion()
    dense = DenseEngine(engine)
    assert {id(p) for p in dense.parameters()} == {id(p) for p in engine.parameters()}
    assert dense.state_dict().keys() == engine.state_dict().keys()


def test_dropout_reaches_the_cell_in_training_only():
    mask = torch.ones(1, 8, dtype=torch.bool)
    engine = DenseEngine(recursion(cell={"dropout": 0.5}))
    inputs = batch(mask, torch.float32)
    assert not torch.equal(engine(inputs, mask).vector, engine(inputs, mask).vector)
    engine.eval()
    assert torch.equal(engine(inputs, mask).vector, engine(inputs, mask).vector)


@pytest.mark.parametrize(
    ("slot", "part"), [("cell", lambda: PlainCell(WIDTH)), ("decision", Tempered)], ids=["cell", "decision"]
)
def test_a_part_without_equations_is_refused_by_name(slot, part):
    engine = recursion()
    setattr(engine, slot, part())
    with pytest.raises(CrvnnError, match=f"for the {slot} .*; Recursion has {type(part()).__name__}"):
        DenseEngine(engine)
