"""Offers the cell 'maxout-cell' to crvnn."""

from collections.abc import Iterable

from crvnn_core import Component, hookimpl


@hookimpl
def crvnn_cells() -> Iterable[Component]:
    return [
        Component(
            "maxout-cell",
            "maxout_cell.cell:MaxoutCell",
            summary="the largest of several mixtures of the children",
        )
    ]
