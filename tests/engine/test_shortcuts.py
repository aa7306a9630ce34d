"""Positions that leave and cells that are skipped: none of it may change a result."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import crvnn_core.engine.shortcuts
import engines
from crvnn_core.engine.shortcuts import may_skip
from crvnn_core.engine.state import kept_within
from crvnn_core.testing.parts import PlainDecision
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.cells.recurrent import LSTMCell
from crvnn_parts.decisions.sigmoids import Modulated, StraightThrough, Stretched
from crvnn_parts.decisions.sparsemax import Sparsemax
from crvnn_parts.haltings import Threshold
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.retrievers.scan import LogSpace
from crvnn_parts.retrievers.windowed import Windowed

WIDTH = 6
RETRIEVERS = {
    "adhoc": lambda: Adhoc(small=0),
    "adhoc, small": Adhoc,
    "log-space": lambda: LogSpace(guard=0.0),
}


def model(decision=None, **options):
    """A recursion whose scores are far apart, so that a stretched decision is often exactly 0 or 1."""
    defaults = {"decision": decision or Stretched(0.2, "paper"), "sharpness": 30.0, "seed": 3}
    return engines.sharp(WIDTH, **{**defaults, **options}).train()


def batch(lengths, seed=1):
    return engines.batch(lengths, WIDTH, seed)


def assert_shortcuts_change_nothing(inputs, mask, decision=None, atol=1e-7, **options):
    """The model with shortcuts, after its backward pass."""
    quick, plain = (model(decision, shortcuts=on, **options).to(inputs.dtype) for on in (True, False))
    assert_same(outcome(quick, inputs, mask), outcome(plain, inputs, mask), atol)
    return quick


def outcome(encoder, inputs, mask):
    """Vectors, penalties and steps, and the gradients of everything."""
    encoder.zero_grad()
    inputs = inputs.clone().requires_grad_()
    encoding = encoder(inputs, mask)
    weights = torch.linspace(-1, 1, encoding.vector.numel(), dtype=inputs.dtype).view_as(encoding.vector)
    ((encoding.vector * weights).sum() + encoding.penalty.sum()).backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in encoder.parameters()]
    return encoding, [inputs.grad, *gradients]


def assert_same(one, two, atol=1e-9):
    torch.testing.assert_close(one[0].vector, two[0].vector, atol=atol, rtol=0)
    torch.testing.assert_close(one[0].penalty, two[0].penalty, atol=atol, rtol=0)
    assert one[0].steps.tolist() == two[0].steps.tolist()
    for a, b in zip(one[1], two[1], strict=True):
        torch.testing.assert_close(a, b, atol=10 * atol, rtol=1e-6)


@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize("cell", [GatedCell, LSTMCell])
@settings(max_examples=5)
@given(lengths=st.lists(st.integers(1, 24), min_size=1, max_size=4), seed=st.integers(0, 50))
def test_leaving_out_exact_zeros_changes_neither_values_nor_gradients(retriever, cell, lengths, seed):
    assert_shortcuts_change_nothing(
        *batch(lengths, seed), retriever=RETRIEVERS[retriever](), cell=cell, seed=seed
    )


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("modulation", ["none", "paper"])
def test_positions_that_leave_a_sparsemax_change_neither_values_nor_gradients(modulation):
    inputs, mask = engines.batch((14, 3, 9, 1, 6), WIDTH, dtype=torch.float32)  # for which there are kernels
    decision = Sparsemax(modulation=modulation)
    quick = assert_shortcuts_change_nothing(inputs, mask, decision, atol=1e-6, sharpness=1.0)
    assert (quick(inputs, mask, trace=True).trace.exists[1:-1, mask] == 0).any()  # some do leave on the way


def test_positions_leave_and_cells_are_left_out():
    inputs, mask = batch([40, 25])
    worked = {}
    for on in (True, False):
        encoder = model(shortcuts=on)
        seen = worked.setdefault(on, {"scorer": [], "cell": []})
        for slot in seen:
            getattr(encoder, slot).register_forward_hook(
                lambda module, args, result, seen=seen[slot]: seen.append(args[0].shape[:-1].numel())
            )
        encoder(inputs, mask)
    assert sum(worked[True]["scorer"]) < 0.7 * sum(worked[False]["scorer"])
    assert sum(worked[True]["cell"]) < 0.4 * sum(worked[False]["cell"])


def gradient_modes(encoder):
    """Whether gradients were enabled when the scorer was called, call by call."""
    seen = []
    encoder.scorer.register_forward_hook(lambda *call: seen.append(torch.is_grad_enabled()))
    return seen


def test_steps_of_saturated_decisions_record_no_graph_of_them():
    inputs, mask = batch([14, 9])
    encoder = assert_shortcuts_change_nothing(inputs, mask, sharpness=1e5)
    for name, parameter in encoder.scorer.named_parameters():
        assert parameter.grad is not None, (
            name
        )  # optimizers would leave it alone, with its decay and momentum
        assert not parameter.grad.any(), name
    seen = gradient_modes(encoder)
    steps = encoder(inputs, mask).steps.max()
    assert len(seen) == steps > 2
    assert not any(seen)


def test_a_step_with_a_decision_that_is_not_saturated_is_recorded():
    inputs, mask = batch([24, 11, 17])
    encoder = assert_shortcuts_change_nothing(inputs, mask, sharpness=300.0)
    seen = gradient_modes(encoder)
    encoder(inputs, mask)
    assert {True, False} == set(seen)


def test_decisions_with_noise_are_the_same_whether_a_step_is_tried_without_a_graph_or_not():
    """Else saturated draws would be taken at the first try, and others at the second."""
    inputs, mask = batch([24, 11])
    for seed in range(5):
        found = []
        for checkpoint in (False, True):  # with activation checkpointing every step is recorded at once
            encoder = model(Stretched(0.2, "paper", noise=1.0), checkpoint=checkpoint).train()
            torch.manual_seed(seed)
            found.append(outcome(encoder, inputs, mask))
        assert_same(*found)


class Leaning(PlainDecision):
    """Says that its decisions may be exactly 0 or 1 and have no gradient there; they come very close to it."""

    gradient_vanishes = True

    def forward(self, scores, near, eligible, exists):
        return torch.where(scores > 0, 1.0, 1e-20).to(scores.dtype) * eligible


@pytest.mark.parametrize("gradients", [True, False])
def test_a_decision_that_is_nearly_0_is_not_taken_for_one(gradients):
    inputs, mask = batch([14, 9])
    quick, plain = (model(Leaning(), shortcuts=on) for on in (True, False))
    with torch.set_grad_enabled(gradients):
        torch.testing.assert_close(quick(inputs, mask).vector, plain(inputs, mask).vector, atol=1e-9, rtol=0)


def test_what_is_returned_of_saturated_steps_is_an_ordinary_tensor():
    inputs, mask = batch([9, 4])
    encoder = model(sharpness=1e5)
    encoding = encoder(inputs, mask)
    encoding.vector.relu_()
    (encoding.vector.sum() + encoding.penalty.sum()).backward()
    encoder(inputs, mask).penalty.sum().backward()
    gradient = torch.func.grad(lambda x: encoder(x, mask).vector.sum())(inputs)
    assert gradient.isfinite().all()


class Remembering(GatedCell):
    """Gives the leaves that it has given before."""

    def leaf(self, inputs):
        if not hasattr(self, "leaves"):
            self.leaves = super().leaf(inputs)
        return self.leaves


@pytest.mark.parametrize("hard", [True, False])
def test_leaves_are_not_changed(hard):
    inputs, mask = batch([9, 9])
    encoder = model(sharpness=1e5, cell=Remembering)
    with torch.no_grad():
        first, second = (encoder(inputs, mask, hard=hard).vector for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("options", [{"checkpoint": True}, {"drop": 1e-3}, {"skip": 1e-3}])
def test_steps_are_recorded_where_they_are_recomputed_or_left_out_in_part(options):
    encoder = model(sharpness=1e5, **options)
    seen = gradient_modes(encoder)
    outcome(encoder, *batch([9]))
    assert all(seen)


def test_a_decision_that_is_hard_forward_and_soft_backward_keeps_its_gradient():
    inputs, mask = batch([12, 7])
    quick = assert_shortcuts_change_nothing(inputs, mask, StraightThrough(), atol=1e-9)
    seen = []
    quick.cell.register_forward_hook(lambda module, args, result: seen.append(args[0].shape[:-1].numel()))
    with torch.no_grad():
        quick(inputs, mask)
    assert min(seen) < 2 * 14  # without gradients it may leave out what it did not compose


def test_a_retriever_that_counts_positions_keeps_them_all():
    assert_shortcuts_change_nothing(*batch([30]), retriever=Windowed(k=3), atol=1e-9)


def test_a_decision_of_unknown_gradient_is_left_alone_in_training():
    encoder = model(PlainDecision())
    assert not PlainDecision.gradient_vanishes
    assert not may_skip(encoder, 1e-3)
    with torch.no_grad():
        assert may_skip(encoder, 1e-3)


def test_on_a_device_that_would_have_to_be_waited_for_every_cell_runs(monkeypatch):
    monkeypatch.setattr(crvnn_core.engine.shortcuts, "host_sees", lambda values: False)
    assert_shortcuts_change_nothing(*batch([20, 9]))


@pytest.mark.parametrize("option", ["drop", "skip"])
def test_a_tolerance_bounds_the_change(option):
    inputs, mask = batch([30, 22, 17])
    exact = outcome(model(Modulated(), sharpness=8), inputs, mask)
    changes = []
    for tolerance in (1e-3, 1e-5, 1e-7):
        near = outcome(model(Modulated(), sharpness=8, **{option: tolerance}), inputs, mask)
        changes.append((near[0].vector - exact[0].vector).abs().max().item())
        one, two = (torch.cat([g.flatten() for g in found[1]]) for found in (near, exact))
        assert torch.cosine_similarity(one, two, 0) > 1 - 100 * tolerance
    assert changes[0] > changes[2]  # it does leave something out
    assert changes[1] < 1e-3
    assert changes[2] < 1e-5


class Looking(Threshold):
    """The same halting, asked when everything has been made."""

    needs_vectors = True


@pytest.mark.parametrize("decision", [Modulated, Stretched, StraightThrough])
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=3), seed=st.integers(0, 5))
@settings(max_examples=6)
def test_the_last_step_makes_what_is_wanted_and_changes_nothing(decision, lengths, seed):
    made = {}
    for halting in (Threshold, Looking):
        encoder = model(decision(), seed=seed, sharpness=5.0)
        encoder.halting = halting()
        made[halting] = outcome(encoder, *batch(lengths, seed))
    assert_same(made[Threshold], made[Looking])


def state_of(exists):
    inputs = torch.zeros(*exists.shape, 1, dtype=exists.dtype)
    state = engines.engine(1).double().begin(inputs, torch.ones_like(exists, dtype=torch.bool))
    state.exists, state.lost = exists, torch.zeros_like(exists)
    return state


@given(
    st.lists(
        st.lists(st.one_of(st.just(0.0), st.floats(0, 0.02), st.floats(0, 1)), min_size=9, max_size=9),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([0.0, 1e-3, 0.01, 0.05]),
    st.integers(1, 4),
)
def test_no_more_than_the_tolerance_is_ever_lost_between_two_that_stay(rows, tolerance, rounds):
    first = torch.tensor(rows, dtype=torch.float64)
    state = state_of(first)
    for _ in range(rounds):
        staying = kept_within(tolerance, state, state.exists)
        state = state.compacted(list(range(len(rows))), staying, int(staying.sum(1).max()))
        state.exists = state.exists * 0.7
        for row in range(len(rows)):
            places = [int(p) for p, there in zip(state.place[row], state.present[row], strict=True) if there]
            assert places == sorted(set(places))
            assert places[-1] == 8
            assert state.last()[row] == len(places) - 1
            assert (state.lost[row] <= tolerance + 1e-12).all()
    # What left in the first round had its whole existence then; later it would have had less.
    kept = kept_within(tolerance, state_of(first), first)
    for row, mask in zip(first.tolist(), kept.tolist(), strict=True):
        lost = 0.0
        for value, stays in zip(row, mask, strict=True):
            lost = 0.0 if stays else lost + value
            assert lost <= tolerance + 1e-12


def test_without_a_tolerance_only_what_is_gone_leaves():
    exists = torch.tensor([[0.0, 1e-30, 0.0, 0.0]], dtype=torch.float64)
    assert kept_within(0, state_of(exists), exists).tolist() == [[False, True, False, True]]


def test_a_trace_knows_positions_by_their_place_in_the_sequence():
    inputs, mask = batch([30, 14])
    with torch.no_grad():
        quick, plain = (model(shortcuts=on)(inputs, mask, trace=True).trace for on in (True, False))
    torch.testing.assert_close(quick.exists, plain.exists, atol=1e-7, rtol=0)
    composed = plain.compose * (plain.exists[:-1] > 0)  # of what is gone only the plain one still speaks
    torch.testing.assert_close(quick.compose * (quick.exists[:-1] > 0), composed, atol=1e-7, rtol=0)
