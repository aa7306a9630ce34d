"""The linear-time retrievers against their dense twins, and those against walking along the sequence."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_core.testing import oracles, strategies
from crvnn_parts.retrievers.dense import AdhocDense, LogSpaceDense
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.retrievers.scan import LogSpace
from crvnn_parts.retrievers.windowed import Windowed

with_and_without_kernels = pytest.mark.usefixtures("by")

TWINS = {
    "adhoc": (Adhoc(small=0), AdhocDense()),
    "adhoc in float64": (Adhoc("float64", small=0), AdhocDense()),
    "adhoc in float32 pairs": (Adhoc("float32-pairs", small=0), AdhocDense()),
    "log-space": (LogSpace(), LogSpaceDense()),
}
#: Of these only the first has a kernel, so the others run once.
EVERY_TWIN = pytest.mark.parametrize(
    ("name", "by"), [("adhoc", "kernels"), *((name, "torch") for name in TWINS)], indirect=["by"]
)
PATTERNS = {
    "all one": lambda r: torch.ones_like(r),
    "binary": lambda r: (r > 0.5).float(),
    "sparse binary": lambda r: (r > 0.98).float(),
    "tiny": lambda r: 1e-4 * r,
    "near one": lambda r: 1 - 1e-4 * r,
    "uniform": lambda r: r,
    "mixed": lambda r: torch.stack([r, 1e-4 * r, 1 - 1e-4 * r, (r > 0.5).float()]).gather(
        0, torch.randint(0, 4, (1, *r.shape))
    )[0],
}


def everywhere(exists):
    return torch.ones_like(exists, dtype=torch.bool)


@pytest.mark.parametrize("n", [128, 1100])  # walking along the sequence is for short ones
@pytest.mark.parametrize("pattern", PATTERNS)
@EVERY_TWIN
def test_linear_time_agrees_with_the_dense_twin(name, by, pattern, n):
    fast, dense = TWINS[name]
    exists, values = PATTERNS[pattern](torch.rand(2, n)), torch.randn(2, n, 5)
    near, twin = fast(exists, everywhere(exists)), dense(exists, everywhere(exists))
    torch.testing.assert_close(near.left(values), twin.left(values), atol=2e-6, rtol=0)
    torch.testing.assert_close(near.right(values), twin.right(values), atol=2e-6, rtol=0)


@EVERY_TWIN
def test_large_values_far_away_do_not_blur_small_ones_nearby(name, by):
    fast, dense = TWINS[name]
    exists, values = torch.rand(1, 1500), torch.randn(1, 1500, 2)
    values[:, :700] += 100
    near, twin = fast(exists, everywhere(exists)), dense(exists, everywhere(exists))
    torch.testing.assert_close(near.right(values)[:, 800:], twin.right(values)[:, 800:], atol=2e-5, rtol=0)


def test_dense_matrices_keep_what_hardly_exists():
    """Seen across half an existence, 1e-9 is below the rounding error of float32, but its weight is not 0."""
    exists = torch.tensor([[1.0, 0.5, 1e-9, 1.0]])
    far, near = 1e9 * torch.eye(4)[2], torch.eye(4)[1]
    right = AdhocDense()(exists, everywhere(exists)).right((far + near).unsqueeze(0))
    torch.testing.assert_close(right[0, 0], torch.tensor(1.5))


@with_and_without_kernels
@pytest.mark.parametrize(
    ("retriever", "row", "by"),
    [
        (Adhoc(small=0), oracles.adhoc_row, "kernels"),
        (Adhoc(small=0), oracles.adhoc_row, "torch"),
        (Adhoc("float32-pairs", small=0), oracles.adhoc_row, "torch"),
        (AdhocDense(), oracles.adhoc_row, "torch"),
        (LogSpace(), oracles.product_row, "torch"),
        (LogSpaceDense(), oracles.product_row, "torch"),
    ],
    indirect=["by"],
)
@settings(max_examples=25)
@given(exists=strategies.existences(max_length=30), data=st.data())
def test_every_retriever_agrees_with_walking_along_the_sequence(retriever, row, exists, data):
    _agrees(retriever, row, exists, data)


@settings(max_examples=25)
@given(strategies.existences(max_length=12), st.data())
def test_a_window_as_long_as_the_sequence_is_no_window(exists, data):
    _agrees(Windowed(k=40), oracles.adhoc_row, exists, data)
    _agrees(Windowed(k=40, form="log-space"), oracles.product_row, exists, data)


def _agrees(retriever, row, exists, data):
    values = data.draw(strategies.values((*exists.shape, 3)))
    near, slow = retriever(exists, everywhere(exists)), oracles.matrices(exists, row)
    torch.testing.assert_close(near.left(values), slow.left(values), atol=1e-5, rtol=0)
    torch.testing.assert_close(near.right(values), slow.right(values), atol=1e-5, rtol=0)
    torch.testing.assert_close(near.left(values[..., 0]), slow.left(values[..., 0]), atol=1e-5, rtol=0)


def test_a_window_sees_no_farther_than_k():
    exists = torch.tensor([[1.0, 0, 0, 1]])
    values = torch.tensor([[5.0, 0, 0, 7]])
    assert Windowed(k=3)(exists, everywhere(exists)).left(values)[0, 3] == 5
    assert Windowed(k=2)(exists, everywhere(exists)).left(values)[0, 3] == 0


@pytest.mark.parametrize("name", ["adhoc", "log-space"])
@settings(max_examples=25)
@given(strategies.existences(max_length=7, max_batch=2, dtype=torch.float64), st.data())
def test_gradients_agree_with_the_dense_twin(name, exists, data):
    fast, dense = TWINS[name]
    values = data.draw(strategies.values((*exists.shape, 2), dtype=torch.float64))
    weights = data.draw(strategies.values((2, *exists.shape, 2), dtype=torch.float64))
    gradients = []
    for retriever in (fast, dense):
        e, v = exists.clone().requires_grad_(), values.clone().requires_grad_()
        near = retriever(e, everywhere(e))
        (near.left(v) * weights[0] + near.right(v) * weights[1]).sum().backward()
        gradients.append((e.grad, v.grad))
    torch.testing.assert_close(gradients[0][1], gradients[1][1], atol=1e-9, rtol=0)
    if not _near_a_kink(exists) or name == "log-space":
        torch.testing.assert_close(gradients[0][0], gradients[1][0], atol=1e-6, rtol=1e-6)


def _near_a_kink(exists):
    """Whether some run of positions sums to 1 but for rounding: there Eq. 5 has no derivative but one to each side.

    Where every sum is exact, it is clear on which side everybody is.
    """
    if torch.equal((exists * 2**20).round(), exists * 2**20):
        return False
    sums = torch.nn.functional.pad(exists.cumsum(1), (1, 0))
    gaps = sums.unsqueeze(2) - sums.unsqueeze(1)
    return bool(((gaps.abs() - 1).abs() < 1e-9).any())


@with_and_without_kernels
def test_binary_existence_has_the_gradient_of_losing_existence():
    # Position 1 exists for sure. Were it to exist a little less, position 0 would look past it to position 2.
    for retriever in (Adhoc(small=0), AdhocDense(), Windowed()):
        exists = torch.tensor([[1.0, 1, 1]], requires_grad=True)
        near = retriever(exists, everywhere(exists))
        near.right(torch.tensor([[0.0, 5, 7]]))[0, 0].backward()
        assert exists.grad.tolist() == [[0.0, 5 - 7, 0]]


@pytest.mark.parametrize(
    ("retriever", "by"),
    [(Adhoc(), "kernels"), (Adhoc(), "torch"), (LogSpace(), "torch"), (Windowed(), "torch")],
    indirect=["by"],
    ids=lambda r: r if isinstance(r, str) else type(r).__name__,
)
def test_a_hundred_thousand_positions_need_no_square_matrix(retriever, by):
    exists = torch.rand(1, 100_000, requires_grad=True)
    near = retriever(exists, everywhere(exists))
    values = torch.ones(1, 100_000, 1)
    (near.left(values) + near.right(values)).sum().backward()  # a square matrix would take 40 gigabytes
    assert exists.grad.isfinite().all()


@with_and_without_kernels
@pytest.mark.parametrize("height", [1e4, 1e12, 1e25])
def test_a_large_number_does_not_hide_small_ones_behind_it(height):
    """The published code's decisions take neighbours of exp(u), which go over many orders of magnitude."""
    values, exists = torch.ones(1, 40), torch.full((1, 40), 0.375)
    values[0, 3] = height
    near, right = (
        Adhoc(small=0)(exists, everywhere(exists)),
        AdhocDense()(exists.double(), everywhere(exists)),
    )
    for side in ("left", "right"):
        exact = getattr(right, side)(values.double())
        torch.testing.assert_close(getattr(near, side)(values).double(), exact, rtol=1e-6, atol=0)
