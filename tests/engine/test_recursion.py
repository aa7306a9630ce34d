"""The recursion: Table 1 of the paper, cells with known answers, and every promise the engine makes itself."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import crvnn_core.engine.shortcuts
from crvnn_core import Cell, ContractError, Halting, InputError, Recursion, assemble, read_spec
from crvnn_core.engine.shortcuts import ActiveSequences, StepPlan
from crvnn_core.testing import strategies
from crvnn_core.testing.oracles import compose_along
from crvnn_core.testing.parts import (
    AddingCell,
    BracketingCell,
    PlainCell,
    PlainDecision,
    PlainHalting,
    PlainScorer,
    ScriptedDecision,
)
from crvnn_plugins.decisions.sigmoids import Tempered
from crvnn_plugins.haltings import FixedDepth, Never, Threshold
from crvnn_plugins.retrievers.interval import Adhoc
from crvnn_plugins.retrievers.windowed import Windowed

pytestmark = pytest.mark.usefixtures("by")

RETRIEVERS = ("adhoc", "adhoc-dense", "log-space", "log-space-dense", "windowed")


def engine(width=4, **parts):
    torch.manual_seed(3)
    scripted = isinstance(parts.get("decision"), ScriptedDecision)  # which counts positions
    options = {"boundaries": False, "shortcuts": not scripted, **parts}
    defaults = {
        "retriever": Adhoc(),
        "scorer": PlainScorer(width),
        "decision": PlainDecision(),
        "cell": PlainCell(width),
        "halting": PlainHalting(),
    }
    return Recursion(width, **{**defaults, **options}).eval()


def tokens(n, width=1):
    inputs = torch.zeros(1, n, width)
    inputs[0, :, 0] = torch.arange(n)
    return inputs, torch.ones(1, n, dtype=torch.bool)


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
    encoding = model(*tokens(n))
    assert cell.name(encoding.vector[0]) == compose_along(order, names[:n])
    assert encoding.steps.tolist() == [len(order)]


@given(strategies.compositions(max_length=12), st.data())
def test_under_any_tree_an_adding_cell_sums_the_sequence(composition, data):
    n, order = composition
    inputs = data.draw(strategies.values((1, n, 4)))
    model = engine(decision=ScriptedDecision(order), cell=AddingCell(4), halting=Threshold())
    vector = model(inputs, torch.ones(1, n, dtype=torch.bool)).vector
    torch.testing.assert_close(vector, inputs.sum(1), atol=1e-5, rtol=1e-5)


def slow_engine(model, inputs, mask):
    """Algorithm 1 for one sequence, written down without masks, freezing or dropping."""
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
@pytest.mark.parametrize("boundaries", [True, False])
def test_the_engine_agrees_with_algorithm_1_written_down_slowly(catalog, preset, cell, boundaries):
    sets = [
        "model.width=8",
        f"model.encoder.boundaries={str(boundaries).lower()}",
        'model.encoder.penalise="all"',
    ]
    model = assemble(
        read_spec(catalog, preset=preset, parts={"cell": cell}, sets=sets), catalog
    ).model.encoder.eval()
    inputs, mask = torch.randn(5, 9, 8), torch.arange(9) < torch.tensor([[9], [1], [5], [2], [8]])
    encoding = model(inputs, mask)
    for row in range(5):
        vector, penalty, steps = slow_engine(model, inputs[row : row + 1], mask[row])
        torch.testing.assert_close(encoding.vector[row], vector, atol=1e-5, rtol=1e-5)
        if mask[row].sum() > 1:
            torch.testing.assert_close(encoding.penalty[row], penalty, atol=1e-5, rtol=1e-5)
            assert encoding.steps[row] == steps


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_gradients_agree_with_algorithm_1_written_down_slowly(catalog, preset):
    sets = ["model.width=6", 'model.encoder.penalise="all"']
    model = assemble(read_spec(catalog, preset=preset, sets=sets), catalog).model.encoder.eval()
    inputs, mask = torch.randn(3, 7, 6), torch.arange(7) < torch.tensor([[7], [3], [5]])
    weights = torch.randn(6)
    encoding = model(inputs, mask)
    ((encoding.vector @ weights).sum() + encoding.penalty.sum()).backward()
    fast = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    for row in range(3):
        vector, penalty, _ = slow_engine(model, inputs[row : row + 1], mask[row])
        (vector @ weights + penalty).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(fast[name], parameter.grad, atol=1e-4, rtol=1e-4, msg=name)


def test_a_halted_sequence_keeps_its_bits_while_others_go_on():
    class OneStep(PlainDecision):
        """Composes everything at once in short sequences, and slowly in long ones."""

        def forward(self, scores, near, eligible, exists):
            return torch.where(eligible.sum(1, keepdim=True) <= 3, 1.0, 0.1) * eligible

    model = engine(decision=OneStep())
    inputs = torch.randn(3, 12, 4)
    mask = torch.arange(12) < torch.tensor(
        [[4], [12], [2]]
    )  # one halts by itself, one goes on, one has no more steps
    together = model(inputs, mask, trace=True)
    assert together.steps.tolist() == [1, 11, 1]
    for row, n in ((0, 4), (2, 2)):
        alone = model(inputs[row : row + 1, :n], mask[row : row + 1, :n])
        torch.testing.assert_close(together.vector[row], alone.vector[0], atol=1e-6, rtol=0)
        exists = together.trace.exists[:, row]
        assert torch.equal(exists[1:], exists[1].expand_as(exists[1:]))
        assert (together.trace.compose[1:, row] == 0).all()
    assert together.trace.alive.tolist() == [3] + [1] * 10


def test_a_halted_sequence_is_no_longer_worked_on():
    seen = []

    class Watched(PlainCell):
        def forward(self, left, right):
            seen.append(right.shape[:-1].numel())
            return super().forward(left, right)

    mask = torch.arange(12) < torch.tensor([[3], [12], [6]])
    encoding = engine(cell=Watched(4), halting=Never())(torch.randn(3, 12, 4), mask)
    assert encoding.steps.tolist() == [2, 11, 5]
    assert seen == [3 * 12] * 2 + [2 * 12] * 3 + [12] * 5 + [1]  # in the very last step, one node is wanted


def test_positions_that_only_finished_sequences_had_are_dropped():
    seen = []

    class Watched(PlainCell):
        def forward(self, left, right):
            seen.append(right.shape[1])
            return super().forward(left, right)

    class StopsTheLong(Halting):
        def forward(self, exists, vectors, step):
            return (exists > 0).sum(1) < 6

    mask = torch.arange(9) < torch.tensor([[9], [4]])
    engine(cell=Watched(4), halting=StopsTheLong())(torch.randn(2, 9, 4), mask)
    assert seen[0] == 9
    assert seen[-1] == 4


@pytest.mark.parametrize(("limit", "steps"), [(0, [11, 1, 5]), (3, [3, 1, 3]), (100, [11, 1, 5])])
def test_max_steps_is_a_cap(limit, steps):
    mask = torch.arange(12) < torch.tensor([[12], [2], [6]])
    encoding = engine(halting=Never(), max_steps=limit)(torch.randn(3, 12, 4), mask)
    assert encoding.steps.tolist() == steps


def test_fixed_depth_stops_everyone_at_the_same_step():
    mask = torch.arange(12) < torch.tensor([[12], [2], [6]])
    assert engine(halting=FixedDepth(4))(torch.randn(3, 12, 4), mask).steps.tolist() == [4, 1, 4]


def test_one_token_is_its_own_leaf():
    model = engine(boundaries=True)
    inputs = torch.randn(1, 1, 4)
    encoding = model(inputs, torch.ones(1, 1, dtype=torch.bool), trace=True)
    torch.testing.assert_close(encoding.vector, model.cell.leaf(inputs)[:, 0])
    assert encoding.steps.tolist() == [0]
    assert encoding.trace.compose.shape == (0, 1, 1)


def test_start_end_and_the_last_token_never_compose_or_receive():
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


def test_the_penalty_is_zero_when_only_the_last_token_is_left_and_grows_with_what_remains():
    done = engine(decision=ScriptedDecision([[0], [1]]), halting=Threshold(), halt_penalty=0.5)
    assert done(*tokens(3, 4)).penalty.tolist() == [0]
    idle = engine(decision=ScriptedDecision([[], []]), halting=Threshold(), halt_penalty=0.5)
    assert idle(*tokens(3, 4)).penalty.item() == pytest.approx(0.5 * torch.tensor(3.0).log().item())


def test_the_penalty_can_spare_those_who_halted_by_themselves():
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


def test_every_extra_can_be_switched_off(catalog):
    sets = ["model.encoder.boundaries=false", "model.encoder.halt_penalty=0", "model.scorer.transition=0"]
    bare = assemble(read_spec(catalog, parts={"halting": "never"}, sets=sets), catalog).model.encoder
    names = {name for name, _ in bare.named_parameters()}
    assert not names & {"start", "end", "scorer.composed", "scorer.untouched"}
    encoding = bare(torch.randn(2, 6, 64), torch.ones(2, 6, dtype=torch.bool))
    assert encoding.penalty.tolist() == [0, 0]
    assert encoding.steps.tolist() == [5, 5]


def test_a_cell_that_returns_the_wrong_shape_is_named():
    class TooWide(PlainCell):
        def forward(self, left, right):
            return torch.cat([left, right], -1)

    class WrongLeaf(PlainCell):
        def leaf(self, inputs):
            return inputs[..., :2]

    with pytest.raises(ContractError, match=r"cell TooWide returned the shape \[1, 3, 8\]; \[1, 3, 4\]"):
        engine(cell=TooWide(4))(*tokens(3, 4))
    with pytest.raises(ContractError, match="leaf transform of cell WrongLeaf"):
        engine(cell=WrongLeaf(4))(*tokens(3, 4))


def test_other_parts_that_return_the_wrong_shape_are_named_too():
    class FlatScorer(PlainScorer):
        def forward(self, vectors, near, left_c):
            return super().forward(vectors, near, left_c).unsqueeze(-1)

    class FlatDecision(PlainDecision):
        def forward(self, scores, near, eligible, exists):
            return scores[:, :1]

    class FloatHalting(PlainHalting):
        def forward(self, exists, vectors, step):
            return exists.sum(1)

    for part, message in (
        ({"scorer": FlatScorer(4)}, "scorer FlatScorer"),
        ({"decision": FlatDecision()}, "decision FlatDecision"),
        ({"halting": FloatHalting()}, "halting FloatHalting returned torch.float32"),
    ):
        with pytest.raises(ContractError, match=message):
            engine(**part)(*tokens(3, 4))


def test_input_that_cannot_be_encoded_is_refused_by_place():
    model, mask = engine(), torch.ones(2, 3, dtype=torch.bool)
    nan = torch.randn(2, 3, 4)
    nan[1, 2, 0] = torch.inf
    hole = mask.clone()
    hole[0, 1] = False
    empty = mask.clone()
    empty[1] = False
    for inputs, which, message in (
        (nan, mask, "sequence 1 .* at token 2"),
        (torch.randn(2, 3, 4), hole, "sequence 0 .* padding before a token"),
        (torch.randn(2, 3, 4), empty, "sequence 1 .* is empty"),
        (torch.randn(2, 0, 4), torch.ones(2, 0, dtype=torch.bool), "empty"),
        (torch.randn(2, 3, 4), mask.float(), "bool mask"),
        (torch.randn(3, 4), mask, "takes inputs"),
        (torch.randn(2, 3, 5), mask, "5 numbers wide, but the encoder was built for 4"),
    ):
        with pytest.raises(InputError, match=message):
            model(inputs, which)


@pytest.mark.parametrize("option", ["max_steps", "extra_steps", "halt_penalty"])
def test_negative_settings_are_refused(option):
    with pytest.raises(ValueError, match="cannot be negative"):
        engine(**{option: -1})


@pytest.mark.parametrize(
    "decision",
    ["sigmoid", "modulated", "tempered", "gumbel-sigmoid", "straight-through", "stretched", "sparsemax"],
)
@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_a_step_makes_the_host_wait_only_to_see_who_goes_on(catalog, monkeypatch, retriever, decision):
    spec = read_spec(catalog, parts={"retriever": retriever, "decision": decision}, sets=["model.width=4"])
    model = assemble(spec, catalog).model.encoder
    state = model.begin(*tokens(6, 4))
    sequences, plans = ActiveSequences(model), []
    monkeypatch.setattr(
        sequences,
        "_plan_after",
        lambda state, *_: plans.append(1) or StepPlan(state.present, [True], [0], [8], [8]),
    )
    monkeypatch.setattr(crvnn_core.engine.shortcuts, "host_sees", lambda values: False)  # as on a GPU
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "nonzero", "cpu"):
        monkeypatch.setattr(torch.Tensor, name, _waits)
    model.step(state, sequences.update)
    assert plans == [1]
    assert model.to("meta").step(model.begin(*(t.to("meta") for t in tokens(6, 4))), model.update)[0].is_meta


def _waits(*args, **kwargs):
    raise AssertionError("a step looked at a value on the host")


def test_an_lstm_carries_both_parts_of_its_state(catalog):
    model = assemble(read_spec(catalog, parts={"cell": "lstm"}), catalog).model.encoder
    assert isinstance(model.cell, Cell)
    state = model.begin(torch.randn(1, 4, 64), torch.ones(1, 4, dtype=torch.bool))
    assert state.nodes.shape == (1, 6, 128)
    assert model(torch.randn(1, 4, 64), torch.ones(1, 4, dtype=torch.bool)).vector.shape == (1, 64)


def test_a_halting_sees_what_the_nodes_are():
    class WhenSmall(Halting):
        def forward(self, exists, vectors, step):
            assert vectors.shape == (*exists.shape, 4)
            return vectors.abs().amax((1, 2)) > 1

    inputs = torch.stack([torch.full((5, 4), 0.1), torch.full((5, 4), 3.0)])
    model = engine(halting=WhenSmall(), cell=AddingCell(4), decision=ScriptedDecision([[]] * 9))
    assert model(inputs, torch.ones(2, 5, dtype=torch.bool)).steps.tolist() == [1, 4]


def test_padding_that_all_sequences_share_costs_nothing():
    model = engine(boundaries=True)
    mask = torch.arange(50) < torch.tensor([[5], [3]])
    assert model.begin(torch.randn(2, 50, 4), mask).nodes.shape == (2, 7, 4)
    assert model(torch.randn(2, 50, 4), mask, trace=True).trace.exists.shape[2] == 50


@pytest.mark.filterwarnings("ignore")  # torch's compiler does what torch warns of
def test_the_engine_can_be_compiled(catalog):
    model = assemble(read_spec(catalog, sets=["model.width=4"]), catalog).model.encoder.eval()
    inputs, mask = torch.randn(2, 5, 4), torch.arange(5) < torch.tensor([[5], [3]])
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(inputs, mask).vector, model(inputs, mask).vector)


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_autocast_keeps_the_nodes_in_float32(catalog, retriever):
    model = assemble(read_spec(catalog, parts={"retriever": retriever}), catalog).model.encoder.eval()
    inputs, mask = torch.randn(2, 40, 64).bfloat16(), torch.ones(2, 40, dtype=torch.bool)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        state = model.begin(inputs, mask)
        _, after = model.step(state, model.update)
        vector = model(inputs, mask).vector
    assert after.nodes.dtype == after.exists.dtype == after.left_c.dtype == torch.float32
    torch.testing.assert_close(vector, model(inputs.float(), mask).vector, atol=0.06, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_model_of_another_type_stays_in_it(catalog, dtype):
    model = assemble(read_spec(catalog), catalog).model.encoder.eval().to(dtype)
    vector = model(torch.randn(2, 9, 64, dtype=dtype), torch.ones(2, 9, dtype=torch.bool)).vector
    assert vector.dtype == dtype
    assert vector.isfinite().all()


def test_settings_of_parts_are_checked_in_python_too():
    for build in (
        lambda: Adhoc("float16"),
        lambda: engine(penalise="nobody"),
        lambda: Windowed(form="adhok"),
        lambda: Tempered(schedule="steep"),
    ):
        with pytest.raises(ValueError, match="must be"):
            build()
