"""The contract of cells."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Cell
from crvnn_core.testing import generic
from crvnn_core.testing.common import WIDTH, Check, build, finite, random, same
from crvnn_core.testing.generic import Kind, Sequences


def _run(cell: Cell, batch: Sequences) -> dict[str, Tensor]:
    """Parents of parents, as heads see them."""
    left, right = cell.leaf(batch.vectors), cell.leaf(batch.others)
    return {"a parent": cell.readout(cell(cell(left, right), right))}


CELL = Kind("cell", _run, leaves=("vectors", "others"), half=0.15)


def _children(cell: Cell) -> tuple[Tensor, Tensor]:
    """Leaves [2, 5, s] to compose."""
    return cell.leaf(random(2, 5, WIDTH)), cell.leaf(random(2, 5, WIDTH, seed=6))


def check_cell_keeps_its_shapes(component: Component) -> None:
    """Leaves and parents are [..., state_width], read-outs [..., width], for any leading dimensions."""
    cell = build(component)
    assert cell.width == WIDTH, f"cell.width is {cell.width}, but it was built with width={WIDTH}"
    for shape in ((), (3,), (2, 5)):
        left, right = cell.leaf(random(*shape, WIDTH)), cell.leaf(random(*shape, WIDTH, seed=6))
        for what, state in (("leaf", left), ("parent", cell(left, right))):
            assert state.shape == (*shape, cell.state_width), (
                f"a {what} has the shape {list(state.shape)}; expected {[*shape, cell.state_width]}"
            )
        assert cell.readout(left).shape == (*shape, WIDTH), (
            f"the read-out has the shape {list(cell.readout(left).shape)}"
        )


def check_cell_makes_each_leaf_alone(component: Component) -> None:
    """A leaf depends on its own input vector only, whatever else is in its sequence and in the batch."""
    cell, inputs = build(component), random(2, 5, WIDTH)
    together = cell.leaf(inputs)
    for row in range(2):
        alone = cell.leaf(inputs[row : row + 1])
        same(together[row], alone[0], f"the leaves of sequence {row} depend on other sequences of the batch")
        for place in range(5):
            leaf = cell.leaf(inputs[row : row + 1, place : place + 1])
            what = f"the leaf of token {place} of sequence {row} depends on other positions of the sequence"
            same(together[row, place], leaf[0, 0], what)


def check_cell_composes_each_pair_alone(component: Component) -> None:
    """A parent depends on its own two children only, whatever else is in the batch."""
    cell = build(component)
    left, right = _children(cell)
    together = cell(left, right)
    for row in range(2):
        for place in range(5):
            alone = cell(left[row, place], right[row, place])
            same(
                together[row, place],
                alone,
                f"the parent of pair {place} of sequence {row} depends on other pairs",
            )


def check_cell_sees_both_children(component: Component) -> None:
    """The parent depends on its left child and on its right child."""
    cell = build(component)
    left, right = (child.detach().requires_grad_() for child in _children(cell))
    (cell.readout(cell(left, right)) ** 2).sum().backward()
    for side, child in (("left", left), ("right", right)):
        gradient = child.grad
        assert gradient is not None and bool(gradient.abs().sum() > 0), (
            f"the parent does not depend on its {side} child"
        )
        finite(gradient, f"the gradient of the {side} child")


def check_cell_bears_a_child_of_zeros(component: Component) -> None:
    """With a child that is all zeros, as where there is no neighbour, values and gradients are finite."""
    cell = build(component)
    for zeroed in (0, 1):
        children = [child.detach() for child in _children(cell)]
        children[zeroed] = torch.zeros_like(children[zeroed])
        leaves = [child.requires_grad_() for child in children]
        parent = cell(*leaves)
        finite(parent, "a parent")
        parent.sum().backward()
        for leaf in leaves:
            finite(leaf.grad, "the gradient of a child")


def check_cell_stays_finite_when_deep(component: Component) -> None:
    """A chain of 200 compositions has no NaN or infinity in it, forward or backward."""
    cell = build(component)
    leaves = cell.leaf(random(200, WIDTH)).detach().requires_grad_()
    state = leaves[0]
    for leaf in leaves[1:]:
        state = cell(state, leaf)
    finite(state, "the root")
    cell.readout(state).sum().backward()
    assert leaves.grad is not None
    finite(leaves.grad, "the gradient of the leaves")


CELL_CHECKS: tuple[Check, ...] = (
    check_cell_keeps_its_shapes,
    check_cell_makes_each_leaf_alone,
    check_cell_composes_each_pair_alone,
    check_cell_sees_both_children,
    check_cell_bears_a_child_of_zeros,
    check_cell_stays_finite_when_deep,
    *CELL.checks(
        generic.learns,
        generic.has_gradients_of_its_present_weights,
        generic.runs_on_any_device,
        generic.works_under_autocast,
        generic.is_deterministic,
        generic.can_be_saved,
        generic.has_its_live_settings,
    ),
)
