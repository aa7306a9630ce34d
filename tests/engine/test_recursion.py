"""The recursion: Table 1 of the paper, cells with known answers, a reference of Algorithm 1, and the penalty."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.testing import strategies
from crvnn_core.testing.oracles import compose_along
from crvnn_core.testing.parts import AddingCell, BracketingCell, PlainDecision, ScriptedDecision
from crvnn_core.trees import tree_of
from crvnn_parts.haltings import Never, Threshold
from engines import RETRIEVERS, batch, engine, tokens
from slow_twins import assert_same

pytestmark = pytest.mark.usefixtures("by")


TABLE_1 = [
    # sequence (None where a position no longer exists), existential probabilities, composition probabilities
    (["x1", "x2", "x3", "x4", "x5", "x6"], [1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 1, 0]),
    (["x1", None, "(x2 x3)", "x4", None, "(x5 x6)"], [1, 0, 1, 1, 0, 1], [1, None, 0, 1, None, 0]),
    (
        [None, None, "(x1 (x2 x3))", None, None, "(x4 (x5 x6))"],
        [0, 0, 1, 0, 0, 1],
        [None, None, 1, None, None, 0],
    ),
    ([None] * 5 + ["((x1 (x2 x3)) (x4 (x5 x6)))"], [0, 0, 0, 0, 0, 1], None),
]


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_table_1_of_the_paper(catalog, retriever):
    cell = BracketingCell(1, ["x1", "x2", "x3", "x4", "x5", "x6"])
    model = engine(
        1,
        retriever=catalog.find("retriever", retriever).component.make({}),
        decision=ScriptedDecision([[1, 4], [0, 3], [2]]),
        cell=cell,
        halting=Threshold(),
    )
    state = model.begin(*tokens(6))
    for sequence, exists, composed in TABLE_1:
        assert state.exists[0].tolist() == pytest.approx(exists)
        shown = [cell.name(node) if e == 1 else None for node, e in zip(state.nodes[0], exists, strict=True)]
        assert shown == sequence
        assert bool(model.halting(state.exists, state.nodes, state.step)[0]) == (composed is not None)
        if composed is not None:
            compose, state = model.step(state)
            got = compose[0].tolist()
            assert [c if e == 1 else None for c, e in zip(got, exists, strict=True)] == composed
    model.decision.step = 0
    encoding = model(*tokens(6), trace=True)
    assert encoding.steps.tolist() == [3]
    assert encoding.trace.exists[:, 0].tolist() == [row[1] for row in TABLE_1]
    assert encoding.trace.compose[:, 0].tolist() == [[c or 0 for c in row[2]] for row in TABLE_1[:3]]


@given(strategies.compositions(), st.booleans())
def test_binary_decisions_build_the_tree_they_describe(composition, boundaries):
    n, order = composition
    names = [f"x{i}" for i in range(n)] + ["START", "END"]
    cell = BracketingCell(1, names)
    moved = [[position + boundaries for position in step] for step in order]
    model = engine(1, decision=ScriptedDecision(moved), cell=cell, halting=Threshold(), boundaries=boundaries)
    if boundaries:
        with torch.no_grad():
            model.start.fill_(n)
            model.end.fill_(n + 1)
    encoding = model(*tokens(n), trace=True)
    tree = tree_of(encoding.trace, 0, names[:n])
    assert cell.name(encoding.vector[0]) == str(tree) == compose_along(order, names[:n])
    assert encoding.steps.tolist() == [len(order)]
    made = [{node.split - 1 for node in tree.nodes if node.step == step} for step in range(1, len(order) + 1)]
    assert made == list(map(set, order))
    assert all(node.chance == 1 for node in tree.nodes)


@given(strategies.compositions(max_length=12), st.data())
def test_under_any_tree_an_adding_cell_sums_the_sequence(composition, data):
    n, order = composition
    inputs = data.draw(strategies.values((1, n, 4)))
    model = engine(decision=ScriptedDecision(order), cell=AddingCell(4), halting=Threshold())
    vector = model(inputs, torch.ones(1, n, dtype=torch.bool)).vector
    torch.testing.assert_close(vector, inputs.sum(1), atol=1e-5, rtol=1e-5)


def reference(model, inputs, mask):
    """Algorithm 1 for one sequence, without masks, freezing or compaction."""
    n = int(mask.sum())
    vectors = [inputs[0, i] for i in range(n)]
    if model.start is not None:
        vectors = [model.start, *vectors, model.end]
    first = int(model.start is not None)
    r = model.cell.leaf(torch.stack(vectors))
    size = len(r)
    e, left_c, steps = torch.ones(size), torch.zeros(size), 0
    for _ in range(n - 1 + model.extra_steps):
        near = model.retriever(e[None], torch.ones(1, size, dtype=torch.bool))
        u = model.scorer(model.cell.readout(r)[None], near, left_c[None])
        eligible = torch.zeros(1, size, dtype=torch.bool)
        eligible[0, first : first + n - 1] = True
        c = (model.decision(u, near, eligible, e[None]) * eligible)[0]
        left_c, left_r = near.left(c[None])[0], near.left(r[None])[0]
        alpha = torch.zeros(size)
        alpha[first : first + n] = left_c[first : first + n]
        r = alpha[:, None] * model.cell(left_r, r) + (1 - alpha[:, None]) * r
        e, left_c, steps = e * (1 - c), alpha, steps + 1
        real = e[first : first + n]
        if not model.halting(real[None], r[None], steps)[0]:
            break
    real = e[first : first + n]
    return model.cell.readout(r)[first + n - 1], -model.halt_penalty * torch.log(real[-1] / real.sum()), steps


@pytest.mark.parametrize("preset", ["paper", "reference", "simplified-2023"])
@pytest.mark.parametrize("cell", ["gated", "lstm"])
@pytest.mark.parametrize("boundaries", ["true", "false"])
def test_values_and_gradients_are_those_of_the_reference_of_algorithm_1(catalog, preset, cell, boundaries):
    sets = ["model.width=8", f"model.encoder.boundaries={boundaries}", 'model.encoder.penalise="all"']
    spec = read_spec(catalog, preset=preset, parts={"cell": cell}, sets=sets)
    model = assemble(spec, catalog).model.encoder.eval()
    inputs, mask = batch([9, 1, 5, 2, 8], 8, dtype=torch.float32)
    encoding = model(inputs.requires_grad_(), mask)
    vectors, penalties, steps = zip(
        *(reference(model, inputs[i : i + 1], mask[i]) for i in range(5)), strict=True
    )
    got, want = (encoding.vector, encoding.penalty), (torch.stack(vectors), torch.stack(penalties))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    assert_same(model, inputs, got, want, atol=1e-4, rtol=1e-4)
    assert encoding.steps.tolist() == list(steps)


def test_one_token_is_its_own_leaf():
    model = engine(boundaries=True)
    inputs = torch.randn(1, 1, 4)
    encoding = model(inputs, torch.ones(1, 1, dtype=torch.bool), trace=True)
    torch.testing.assert_close(encoding.vector, model.cell.leaf(inputs)[:, 0])
    assert encoding.steps.tolist() == [0]
    assert encoding.trace.compose.shape == (0, 1, 1)


def test_start_end_and_the_last_token_never_compose_or_change():
    class Eager(PlainDecision):
        def forward(self, scores, near, eligible, exists):
            return torch.ones_like(scores)  # even where it may not

    model = engine(boundaries=True, decision=Eager(), halting=Never())
    state = model.begin(torch.randn(2, 5, 4), torch.arange(5) < torch.tensor([[5], [3]]))
    compose, after = model.step(state)
    assert compose.tolist() == [[0, 1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 0, 0, 0]]
    for row, kept in ((0, [0, 6]), (1, [0, 4, 5, 6])):
        assert torch.equal(after.nodes[row, kept], state.nodes[row, kept])
    assert after.exists.tolist() == [[1, 0, 0, 0, 0, 1, 1], [1, 0, 0, 1, 1, 0, 0]]


def test_the_penalty_is_zero_when_only_the_last_token_exists_and_grows_with_the_others():
    done = engine(decision=ScriptedDecision([[0], [1]]), halting=Threshold(), halt_penalty=0.5)
    assert done(*tokens(3, 4)).penalty.tolist() == [0]
    idle = engine(decision=ScriptedDecision([[], []]), halting=Threshold(), halt_penalty=0.5)
    assert idle(*tokens(3, 4)).penalty.item() == pytest.approx(0.5 * torch.tensor(3.0).log().item())


def test_the_penalty_can_leave_out_sequences_that_halted_by_themselves():
    class Slow(PlainDecision):
        def forward(self, scores, near, eligible, exists):
            return torch.where(torch.arange(scores.shape[1]) < 2, 0.995, 0.1).expand_as(scores) * eligible

    mask = torch.arange(6) < torch.tensor([[3], [6]])
    everyone, unhalted = (
        engine(decision=Slow(), penalise=whom)(torch.randn(2, 6, 4), mask).penalty
        for whom in ("all", "unhalted")
    )
    assert (everyone > 0).all()
    assert unhalted[0] == 0
    assert unhalted[1] == everyone[1]


def test_boundaries_penalty_transition_and_halting_can_be_switched_off(catalog):
    sets = ["model.encoder.boundaries=false", "model.encoder.halt_penalty=0", "model.scorer.transition=0"]
    bare = assemble(read_spec(catalog, parts={"halting": "never"}, sets=sets), catalog).model.encoder
    names = {name for name, _ in bare.named_parameters()}
    assert not names & {"start", "end", "scorer.composed", "scorer.untouched"}
    encoding = bare(torch.randn(2, 6, 64), torch.ones(2, 6, dtype=torch.bool))
    assert encoding.penalty.tolist() == [0, 0]
    assert encoding.steps.tolist() == [5, 5]
