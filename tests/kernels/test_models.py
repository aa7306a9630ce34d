"""Whole models with kernels and without, and with any number of threads."""

import pytest
import torch

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations.blend import blend, blend_at
from crvnn_core.engine.operations.compaction import compact
from crvnn_core.engine.operations.rows import rows_at
from crvnn_core.engine.operations.transition import transition
from crvnn_core.kernels import without
from crvnn_core.trees import tree_of
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.operations.modulated import FORMS, modulated
from crvnn_parts.scorers import WindowScorer
from twins import (
    LENGTHS,
    MODELS,
    assert_close,
    batch,
    by_kernels,
    encoder_of,
    flags,
    graph,
    needs_kernels,
    numbers,
    outcome,
    unclean_memory,
)

pytestmark = needs_kernels


def encoded(encoder, inputs, mask):
    """The encoding with its trace, and the gradients of all parameters and of the inputs."""
    encoder.zero_grad()
    inputs = inputs.clone().requires_grad_()
    found = encoder(inputs, mask, trace=True)
    weights = torch.linspace(-1, 1, found.vector.numel()).view_as(found.vector)
    loss = (found.vector * weights).sum() + 10 * found.penalty.sum()
    unclean_memory()
    loss.backward()
    gradients = {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}
    return found, {name: grad.clone() for name, grad in gradients.items()} | {"inputs": inputs.grad}


def assert_same_encoding(one, two, tolerance=2e-5):
    assert one.steps.tolist() == two.steps.tolist()
    assert_close(one.vector, two.vector, tolerance, "vector")
    assert_close(one.penalty, two.penalty, tolerance, "penalty")
    assert_close(one.trace.compose, two.trace.compose, tolerance, "trace of c")
    assert_close(one.trace.exists, two.trace.exists, tolerance, "trace of e")


def assert_same_by_kernels(encoder, inputs, mask, *, unused=False):
    """That kernels give what torch gives, with and without gradients; the encoding.

    :param unused: whether a weight that nothing depends on may have a gradient of 0, or none.
    """
    got = encoded(encoder, inputs, mask)
    with without():
        twin = encoded(encoder, inputs, mask)
    assert_same_encoding(got[0], twin[0])
    assert unused or got[1].keys() == twin[1].keys()
    for name in got[1].keys() & twin[1].keys():
        assert_close(got[1][name], twin[1][name], 5e-5, f"gradient of {name}")
    with torch.no_grad():
        quick = encoder(inputs, mask, trace=True)
        with without():
            assert_same_encoding(quick, encoder(inputs, mask, trace=True))
    return quick


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_with_kernels_and_without_in_a_batch_and_alone(catalog, name):
    encoder, (inputs, mask) = encoder_of(catalog, name), batch()
    together = assert_same_by_kernels(encoder, inputs, mask)
    for row, n in enumerate(LENGTHS):
        alone = assert_same_by_kernels(encoder, inputs[row : row + 1, :n], mask[row : row + 1, :n])
        assert_close(alone.vector[0], together.vector[row], 1e-3 if name == "leaving out" else 2e-5)
        assert alone.steps[0] == together.steps[row]


def test_some_of_the_test_sequences_halt_early(catalog):
    steps = {name: encoder_of(catalog, name)(*batch()).steps.tolist() for name in MODELS}
    assert steps["never halting"] == [n - 1 for n in LENGTHS]
    assert any(taken[0] < 10 for taken in steps.values()), steps


@pytest.mark.parametrize("name", ["paper", "reference", "simplified-2023", "stretched", "lstm"])
def test_hard_inference_finds_the_same_trees(catalog, name):
    encoder = encoder_of(catalog, name)
    got = encoder(*batch(), trace=True, hard=True)
    with without():
        twin = encoder(*batch(), trace=True, hard=True)
    assert_same_encoding(got, twin)
    for row, n in enumerate(LENGTHS):
        names = [f"x{i}" for i in range(n)]
        assert str(tree_of(got.trace, row, names)) == str(tree_of(twin.trace, row, names))


def test_a_step_without_any_composition_has_the_gradients_of_torch(catalog):
    """With c = 0 everywhere the cell is called with no rows."""
    assert_same_by_kernels(
        encoder_of(catalog, "stretched", sharpness=0.1, bias=-8.0), *batch((4, 4)), unused=True
    )


@pytest.mark.parametrize("name", ["paper", "stretched"])
def test_a_model_in_float64_computes_in_float64(catalog, name):
    encoder = encoder_of(catalog, name).double()
    inputs, mask = batch()
    got = encoder(inputs.double(), mask)
    with without():
        twin = encoder(inputs.double(), mask)
    assert_close(got.vector, twin.vector, 1e-12)


def test_the_graph_of_a_model_is_made_of_kernels(catalog):
    """Otherwise the tests above would compare torch with torch."""
    encoder = encoder_of(catalog, "paper")
    used = graph(encoder(*batch()).vector.grad_fn)
    for kernel in ("IntervalScores", "Modulate", "Transition", "Gated", "Blend", "Compact", "SelectRows"):
        assert any(f"crvnn::{kernel}" in name or f"crvnn{len(kernel)}{kernel}" in name for name in used), (
            f"{kernel} is not in {used}"
        )
    with without():
        assert not any("crvnn" in name for name in graph(encoder(*batch()).vector.grad_fn))


@pytest.fixture
def in_threads():
    """Call a function with a number of threads."""
    before = torch.get_num_threads()

    def call(count, work):
        torch.set_num_threads(count)
        return work()

    yield call
    torch.set_num_threads(before)


def test_results_do_not_depend_on_the_number_of_threads(in_threads):
    exists, values = numbers((6, 300), 1, torch.rand), numbers((6, 300, 130), 2)
    mask = torch.arange(300) < torch.tensor([[300], [300], [299], [200], [7], [1]])
    scores, order = 3 * numbers((6, 300), 3), numbers((6, 300), 4).argsort(1)[:, :250]
    flat = order + 300 * torch.arange(6).unsqueeze(1)

    def run(e, v, u):
        near = by_kernels(e, mask)
        decided = [modulated(u, near, mask, e, form, 0.0) for form in FORMS]
        moved = transition(decided[0], near, e, mask, mask)
        picked = rows_at(near.left(v), v, flat.flatten())
        blends = [
            blend(v, v.tanh(), moved[1]),
            blend_at(v, picked[1], picked[0], moved[1], flat.flatten()),
        ]
        kept = compact(v, e, u, scores > 0, *flags(mask), [0, 2, 3, 5], 200)[:3]
        return [near.stacked(v, 2), near.right(u), *decided, *moved, *picked, *blends, *kept]

    one, two = (in_threads(count, lambda: outcome(run, (exists * mask, values, scores))) for count in (1, 2))
    for got, again in zip([*one[0], *one[1]], [*two[0], *two[1]], strict=True):
        assert torch.equal(got, again)


def test_torchs_matrix_products_depend_on_the_number_of_threads_by_rounding_alone(in_threads):
    cell, scorer = GatedCell(64), WindowScorer(64, 3, 8)
    mask = torch.ones(4, 300, dtype=torch.bool)
    left_c, children = numbers((4, 300), 1, torch.rand), [numbers((4, 300, 64), seed) for seed in (2, 3)]

    def scores(v, g):
        return scorer(v, adjacent(mask, mask.float()), g)

    for module, run, inputs in ((cell, cell, children), (scorer, scores, [children[0], left_c])):
        one, two = (in_threads(count, lambda: outcome(run, inputs, module)) for count in (1, 2))  # noqa: B023
        for got, again in zip([*one[0], *one[1]], [*two[0], *two[1]], strict=True):
            assert_close(got, again, 1e-6)
