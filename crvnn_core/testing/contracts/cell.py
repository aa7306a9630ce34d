"""The contract of cells."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Cell
from crvnn_core.testing.common import WIDTH, build, finite, random, shaped
from crvnn_core.testing.generic import Modules, Sequences


class Cells(Modules):
    """Cells, called for read-outs of leaves and of parents of parents."""

    slot = "cell"
    leaves = ("vectors", "others")
    half = 0.15
    advice = "a cell is given pairs of one step, and must treat each alone"

    def run(self, module: Cell, batch: Sequences) -> dict[str, Tensor]:
        left, right = module.leaf(batch.vectors), module.leaf(batch.others)
        parent = module(module(left, right), right)
        return {"a leaf": module.readout(left), "a parent": module.readout(parent)}


MODULES = Cells()


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
            shaped(state, (*shape, cell.state_width), f"the shape of a {what}")
        shaped(cell.readout(left), (*shape, WIDTH), "the shape of the read-out")


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
    finite(leaves.grad, "the gradient of the leaves")
