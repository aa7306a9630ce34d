"""Whether the claims of a paper about its rows hold for what was measured here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from crvnn_reproduce.definition import Claim

if TYPE_CHECKING:
    from crvnn_reproduce.plan import Plan
    from crvnn_reproduce.results import Cell

HOLDS, FAILS, OPEN = "holds", "does not hold", "open"


@frozen
class Verdict:
    """A claim, whether it holds here, and the differences that say so."""

    claim: Claim
    state: str
    detail: str

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"claim": self.claim.says, "state": self.state, "detail": self.detail}


def judge(claim: Claim, plan: Plan, cells: Mapping[str, Mapping[str, Cell]]) -> Verdict:
    """Whether a claim holds in every column that it is about; open while a row has no figure.

    :param cells: of each row, by column.
    """
    holds, details = True, []
    for column in plan.table.columns:
        if claim.columns and column.name not in claim.columns:
            continue
        minutes = plan.table.experiments[column.experiment].measure == "minutes"
        title = column.titles.get(plan.budget, column.name)
        for other in claim.others:
            one, two = cells[claim.row][column.name], cells[other][column.name]
            if one.mean is None or two.mean is None:
                without = [name for name, cell in ((claim.row, one), (other, two)) if cell.mean is None]
                return Verdict(claim, OPEN, f"no figure of {', '.join(without)} in '{title}' yet")
            difference = one.mean - two.mean
            if claim.close_to:
                holds &= abs(difference) <= claim.within.get(plan.budget, 1.0)
            else:
                holds &= difference < 0 if minutes else difference > 0
            details.append(_detail(one, two, other, title, minutes))
    return Verdict(claim, HOLDS if holds else FAILS, "; ".join(details))


def _detail(one: Cell, two: Cell, other: str, title: str, minutes: bool) -> str:
    """``ListOps, lstm: +20.1``; a difference that seeds of one row have, too, is marked."""
    assert one.mean is not None
    assert two.mean is not None
    difference = one.mean - two.mean
    text = f"{title}, {other}: {_factor(one.mean, two.mean) if minutes else f'{difference:+.1f}'}"
    within = max(one.spread or 0.0, two.spread or 0.0)
    return f"{text} (within the spread over seeds)" if abs(difference) < within else text


def _factor(one: float, two: float) -> str:
    return f"{two / one:.1f} times as long" if one else "?"
