"""Haltings with a state of their own: it follows its sequence through every way of running a recursion."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engines
from crvnn_core import ContractError, StatefulHalting
from crvnn_core.engine import traceable
from crvnn_core.testing.parts import AddingCell
from crvnn_parts.decisions.sigmoids import Modulated, Stretched
from crvnn_parts.haltings import Never
from engines import Converged, Highest, engine, loop_in_python, tokens

WIDTH = 4


def model(halting, *, decision=Stretched, **options):
    return engines.sharp(WIDTH, decision=decision(), halting=halting, sharpness=8.0, **options).float()


def batch(lengths=(9, 1, 14, 4, 6), seed=1):
    return engines.batch(lengths, WIDTH, seed, torch.float32)


class Sums(StatefulHalting):
    """Makes sure that the vectors of a sequence still sum to those of its leaves, as they do with a cell that adds."""

    checked = 0

    def initial_state(self, exists, vectors):
        return vectors.sum(1)

    def forward(self, exists, vectors, step, state):
        torch.testing.assert_close(vectors.sum(1), state, atol=1e-4, rtol=1e-4)
        self.checked += 1
        return exists.sum(1) > 1, state


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("options", [{}, {"shortcuts": False}, {"checkpoint": True}], ids=str)
def test_the_state_leaves_the_batch_with_its_sequence(options, boundaries, hard):
    halting = Sums()
    recursion = model(halting, decision=Highest, cell=AddingCell, boundaries=boundaries, **options)
    inputs, mask = batch()
    encoding = recursion(inputs, mask, hard=hard)
    assert halting.checked == max(encoding.steps.tolist()) > min(encoding.steps.tolist()[2:])
    torch.testing.assert_close(encoding.vector, (inputs * mask.unsqueeze(-1)).sum(1))


def converging_steps(recursion, inputs, tolerance):
    """When the sum of all vectors, weighted by existence, has changed by no more than a tolerance: one sequence."""
    state = recursion.begin(inputs, torch.ones(inputs.shape[:2], dtype=torch.bool))
    before = recursion.cell.readout(state.nodes)[state.tokens].sum(0)
    for step in range(1, inputs.shape[1]):
        _, state = recursion.step(state)
        weights = (state.exists * state.tokens).unsqueeze(-1)
        now = (weights * recursion.cell.readout(state.nodes)).sum((0, 1))
        if (now - before).norm() <= tolerance:
            return step
        before = now
    return inputs.shape[1] - 1


@pytest.mark.parametrize("decision", [Modulated, Stretched])
@given(lengths=st.lists(st.integers(2, 12), min_size=1, max_size=4), seed=st.integers(0, 20))
@settings(max_examples=20)
def test_sequences_halt_when_their_vectors_no_longer_change(decision, lengths, seed):
    inputs, mask = batch(lengths, seed)
    with torch.no_grad():
        found = model(Converged(0.3), decision=decision, seed=seed)(inputs, mask).steps.tolist()
        reference = model(Never(), decision=decision, seed=seed, shortcuts=False)
        wanted = [
            converging_steps(reference, inputs[row : row + 1, :n], 0.3) for row, n in enumerate(lengths)
        ]
    assert found == wanted


@pytest.mark.parametrize("hard", [False, True])
def test_a_graph_for_all_lengths_carries_the_state(hard, monkeypatch):
    monkeypatch.setattr(traceable, "while_loop", loop_in_python)
    recursion = model(Converged(0.3))
    inputs, mask = batch()
    with torch.no_grad():
        encoding = recursion(inputs, mask, hard=hard)
        unhalted = model(Never())(inputs, mask, hard=hard)
        found = recursion.traceable(hard=hard)(inputs, mask)
    assert encoding.steps.tolist() != unhalted.steps.tolist()
    torch.testing.assert_close(found, encoding.vector, atol=1e-5, rtol=1e-4)


def test_binary_decisions_give_the_halting_the_same_vectors_soft_and_hard():
    class Recording(Converged):
        def forward(self, exists, vectors, step, before):
            _, now = super().forward(exists, vectors, step, before)
            seen.append(torch.cat([before, now]))
            return exists.sum(1) > 1, now

    found = []
    for hard in (False, True):
        seen = []
        model(Recording(), decision=Highest)(*batch([14]), hard=hard)
        found.append(torch.stack(seen))
    assert len(found[0]) > 3
    torch.testing.assert_close(*found)


def test_gradients_are_the_same_with_checkpointing_and_none_flows_through_the_state():
    gradients = []
    for checkpoint in (False, True):
        recursion = model(Converged(0.3), checkpoint=checkpoint)
        inputs, mask = batch()
        encoding = recursion(inputs.requires_grad_(), mask)
        assert not any(own.requires_grad for own in recursion.begin(inputs, mask).halting)
        gradients.append(torch.autograd.grad(encoding.vector.square().sum(), inputs)[0])
    torch.testing.assert_close(*gradients)


def test_a_halting_reads_no_vector_where_there_is_no_token():
    seen = []

    class Reading(Never):
        needs_vectors = True

        def forward(self, exists, vectors, step):
            seen.append(bool(vectors[exists == 0].any()))
            return super().forward(exists, vectors, step)

    for hard in (False, True):
        model(Reading())(*batch(), hard=hard)
    assert len(seen) > 10
    assert not any(seen)


class SmallerState(Converged):
    def forward(self, exists, vectors, step, state):
        more, state = super().forward(exists, vectors, step, state)
        return more, state[:, :1]


class NoTensor(Converged):
    def initial_state(self, exists, vectors):
        return [0.0] * len(exists)


class OnlyMore(Converged):
    def forward(self, exists, vectors, step, state):
        return exists.sum(1) > 1


@pytest.mark.parametrize(
    ("halting", "message"),
    [
        (SmallerState, r"state of halting SmallerState returned the shape \[1, 1\]; \[1, 4\] was expected"),
        (NoTensor, "initial state of halting NoTensor returned a list, not a tensor"),
        (OnlyMore, "halting OnlyMore returned a Tensor; a stateful one must return two tensors"),
    ],
)
def test_a_halting_that_returns_no_proper_state_is_named(halting, message):
    with pytest.raises(ContractError, match=message):
        engine(halting=halting())(*tokens(3, WIDTH))
