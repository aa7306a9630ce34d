"""The kernels of soft neighbours against torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.kernels import without
from crvnn_parts.operations.intervals import CompiledIntervals
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from twins import (
    PATTERNS,
    WIDTHS,
    assert_close,
    assert_twins,
    by_kernels,
    everything,
    lines,
    needs_kernels,
    numbers,
    some,
)


@needs_kernels
@some
@given(lines(), st.sampled_from(WIDTHS), st.integers(0, 99))
def test_left_and_right_neighbours_agree_with_torch(line, width, seed):
    exists, mask = line
    shape = exists.shape if width is None else (*exists.shape, width)

    def both(find):
        def run(e, v):
            near = find(e, mask)
            return near.left(v), near.right(v), near.right(near.left(v))

        return run

    given_ = (exists, numbers(shape, seed))
    assert_twins(both(by_kernels), both(Adhoc(small=0)), given_)
    assert_twins(both(by_kernels), both(AdhocDense()), given_)


@needs_kernels
@pytest.mark.parametrize("asked", ["window", "left", "both"])
@some
@given(lines(), st.sampled_from(WIDTHS[1:]), st.integers(0, 3), st.integers(0, 99))
def test_windows_and_the_left_neighbours_computed_with_them_agree_with_torch(asked, line, width, reach, seed):
    exists, mask = line

    def stack(find):
        def run(e, v):
            near = find(e, mask)
            window, left = near.stacked(v, reach), near.left(v)
            return {"window": window, "left": left, "both": (window, left)}[asked]

        return run

    dense = stack(AdhocDense())
    assert_twins(stack(by_kernels), dense, (exists, numbers((*exists.shape, width), seed)), plain=dense)


@needs_kernels
def test_values_need_not_be_contiguous():
    exists, values = numbers((2, 9), 1, torch.rand), numbers((9, 5, 2), 2)
    mask = torch.ones(2, 9, dtype=torch.bool)

    def run(find):
        return lambda e, v: (
            find(e, mask).stacked(v.transpose(0, 2).transpose(1, 2), 2),
            find(e, mask).left(v.permute(2, 0, 1)[..., 1:]),
            find(e, mask).right(v[:, 1].t()),
        )

    assert_twins(run(by_kernels), run(AdhocDense()), (exists, values))


@needs_kernels
@pytest.mark.parametrize("pattern", ["tiny", "any"])
def test_rounding_errors_do_not_accumulate_over_long_sequences(pattern):
    exists, values = PATTERNS[pattern](numbers((2, 1500), 1, torch.rand)), numbers((2, 1500, 3), 2)
    mask = torch.arange(1500) < torch.tensor([[1500], [1200]])

    def run(find):
        return lambda e, v: (find(e, mask).stacked(v, 2), find(e, mask).right(v[..., 0]))

    assert_twins(run(by_kernels), run(AdhocDense()), (exists, values))


@needs_kernels
@some
@given(st.lists(st.integers(1, 20), min_size=1, max_size=3), st.sampled_from(WIDTHS), st.integers(0, 99))
def test_where_all_positions_exist_neighbours_are_the_adjacent_positions(lengths, width, seed):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    values = numbers(mask.shape if width is None else (*mask.shape, width), seed)
    near = adjacent(mask, mask.float())
    assert isinstance(near, CompiledIntervals)
    with without():
        plain = adjacent(mask, mask.float())
    assert not isinstance(plain, CompiledIntervals)
    reaching = [near.left(values), near.right(values), *near.window(values, 2)]
    for got, right in zip(
        reaching, [plain.left(values), plain.right(values), *plain.window(values, 2)], strict=True
    ):
        torch.testing.assert_close(got[mask], right[mask], atol=0, rtol=0)


@needs_kernels
@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.bool])
@some
@given(lines(20), st.sampled_from([None, 3]), st.integers(0, 99))
def test_values_of_another_dtype_keep_it(kind, line, width, seed):
    """The precision is that of existence, float32."""
    exists, mask = line
    exists = (exists * mask).requires_grad_()
    values = numbers(exists.shape if width is None else (*exists.shape, width), seed).to(kind)
    got, right = by_kernels(exists, mask), AdhocDense()(exists.double(), mask)
    for side in ("left", "right"):
        found, exact = getattr(got, side)(values), getattr(right, side)(values.double())
        assert found.dtype == kind
        if kind == torch.bool:
            sure = exact.abs() > 1e-6
            assert found[sure].all()
        else:
            tolerance = 1e-2 if kind == torch.bfloat16 else 1e-6
            assert_close(found.detach(), exact.detach(), tolerance)
            slopes = [
                torch.autograd.grad(value.double().sum(), exists, retain_graph=True)[0]
                for value in (found, exact)
            ]
            assert_close(*slopes, 5 * tolerance)


@needs_kernels
def test_float64_values_are_never_rounded_to_float32_where_all_positions_exist():
    """The first step of a model in float64, where e = 1 everywhere."""
    values = torch.rand(1, 6, dtype=torch.float64)
    near = everything(6, torch.float64)
    assert torch.equal(near.left(values)[:, 1:], values[:, :-1])
    assert torch.equal(near.right(values)[:, :-1], values[:, 1:])


@needs_kernels
@pytest.mark.parametrize("shape", [(1, 8), (1, 3), (3, 4), (1, 4, 2, 3), (1, 2, 5)])
def test_values_of_another_shape_are_refused(shape):
    """An error, not a read out of bounds."""
    near = everything(4)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        near.left(torch.ones(shape))
