"""The contract of retrievers."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Retriever
from crvnn_core.testing import generic
from crvnn_core.testing.common import TOLERANCE, WIDTH, build, existences, padded, random, same, shaped
from crvnn_core.testing.generic import Modules, Sequences
from crvnn_core.testing.oracles import nearest_left, nearest_right


class Retrievers(Modules):
    """Retrievers, called for the neighbours of the positions of a batch."""

    slot = "retriever"
    without = ("has_gradients_of_its_present_weights",)

    def run(self, module: Retriever, batch: Sequences) -> dict[str, Tensor]:
        near = module(batch.exists, batch.mask)
        return {"left": near.left(batch.vectors), "right": near.right(batch.vectors)}


MODULES = Retrievers()


def check_retriever_keeps_shape_and_type(component: Component) -> None:
    """left and right keep the shape and type of [B, n] and [B, n, d] values."""
    mask = padded()
    for dtype in (torch.float32, torch.float64):
        near = build(component)(existences(mask).to(dtype), mask)
        for values in (random(*mask.shape, dtype=dtype), random(*mask.shape, WIDTH, dtype=dtype)):
            for side in (near.left(values), near.right(values)):
                shaped(side, values.shape, "the shape of neighbours")
                assert side.dtype == dtype, f"{dtype} became {side.dtype}"


def check_retriever_is_linear(component: Component) -> None:
    """left and right are linear in the values."""
    mask = padded()
    near = build(component)(existences(mask), mask)
    one, two = random(*mask.shape, WIDTH), random(*mask.shape, WIDTH, seed=5)
    same(near.left(2 * one + two), 2 * near.left(one) + near.left(two), "left of a sum")
    same(near.right(2 * one + two), 2 * near.right(one) + near.right(two), "right of a sum")


def check_retriever_finds_the_nearest_when_existence_is_binary(component: Component) -> None:
    """With e of 0 and 1 it finds the closest existing neighbour, as Definition 3 says."""
    retriever = build(component)
    generator = torch.Generator().manual_seed(3)
    for n in (1, 2, 5, 12):
        exists = torch.randint(0, 2, (8, n), generator=generator).float()
        values = random(8, n)
        near = retriever(exists, torch.ones_like(exists, dtype=torch.bool))
        left, right = near.left(values), near.right(values)
        for row in range(8):
            for i in range(n):
                for got, j in (
                    (left, nearest_left(exists[row].tolist(), i)),
                    (right, nearest_right(exists[row].tolist(), i)),
                ):
                    far = j is not None and retriever.reach is not None and abs(i - j) > retriever.reach
                    want = 0.0 if j is None or far else values[row, j].item()
                    gap = abs(got[row, i].item() - want)
                    assert gap < 1e-5, (
                        f"e = {exists[row].tolist()}: position {i} should see {j}, and is {gap:.2g} off"
                    )


def check_retriever_gives_probabilities_of_its_own_side(component: Component) -> None:
    """Weights of neighbours are at least 0, sum to at most 1, and are 0 on the position itself and its other side."""
    mask = padded()
    near = build(component)(existences(mask), mask)
    n = mask.shape[1]
    identity = torch.eye(n).expand(len(mask), n, n).contiguous()
    left, right = near.left(identity), near.right(identity)  # row i: the weights of i's neighbours
    for weights in (left, right):
        assert weights.min() > -1e-6, f"a weight is {weights.min():.2g}"
        assert weights.sum(2).max() < 1 + 1e-5, f"weights sum to {weights.sum(2).max():.6f}"
    same(left.triu(), torch.zeros_like(left), "left, at and after the position")
    same(right.tril(), torch.zeros_like(right), "right, at and before the position")


def check_retriever_has_true_gradients(component: Component) -> None:
    """Gradients for existence and values agree with finite differences."""
    retriever = build(component).double()
    mask = padded((5, 3))
    exists = existences(mask).double().requires_grad_()
    values = random(*mask.shape, 2, dtype=torch.float64).requires_grad_()

    def both(e: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        near = retriever(e * mask, mask)
        return near.left(v), near.right(v)

    assert torch.autograd.gradcheck(both, (exists, values), raise_exception=False), (
        "gradcheck found a difference"
    )


def check_retriever_works_under_autocast(component: Component) -> None:
    """Under autocast, values come back in their own type: float32 as exact as ever, bfloat16 close."""
    mask = padded()
    exists, values = existences(mask), random(*mask.shape, WIDTH)
    retriever = build(component)
    exact = retriever(exists, mask)
    to_left, to_right = exact.left(values), exact.right(values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = retriever(exists, mask)
        for side, want in ((near.left, to_left), (near.right, to_right)):
            for dtype, tolerance in ((torch.float32, TOLERANCE), (torch.bfloat16, 0.1)):
                got = side(values.to(dtype))
                assert got.dtype == dtype, f"{dtype} became {got.dtype}"
                same(got[mask].float(), want[mask], f"in {dtype}", tolerance)


def check_retriever_ignores_positions_that_are_gone(component: Component) -> None:
    """Unless ``reach`` is limited, taking out positions with e = 0 changes nothing for the others."""
    if build(component).reach is None:
        generic.ignores_positions_that_are_gone(MODULES, component)
