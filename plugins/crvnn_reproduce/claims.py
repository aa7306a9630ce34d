"""Whether the claims of a paper about its rows hold for what was measured here, or cannot be told from these seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from crvnn_reproduce.definition import Claim

if TYPE_CHECKING:
    from crvnn_reproduce.plan import Plan
    from crvnn_reproduce.results import Cell

HOLDS, FAILS, UNTOLD, OPEN = "holds", "does not hold", "cannot be told", "open"
_ROUNDING = 1e-9  # of percentages


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

    It does not hold if one comparison says so beyond the spread over seeds; it cannot be told if one is within it.

    :param cells: of each row, by column.
    """
    states, details = set(), []
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
            difference = two.mean - one.mean if minutes else one.mean - two.mean
            spread = spread_of_difference(one, two)
            little = claim.within.get(plan.budget, 1.0) if claim.close_to else None
            state = _state(difference, spread, little)
            states.add(state)
            shown = _factor(one.mean, two.mean) if minutes else f"{difference:+.1f}"
            details.append(f"{title}, {other}: {shown}{_why(spread, little) if state == UNTOLD else ''}")
    state = next((each for each in (FAILS, UNTOLD) if each in states), HOLDS)
    return Verdict(claim, state, "; ".join(details))


def spread_of_difference(one: Cell, two: Cell) -> float | None:
    """The standard deviation of a difference between a seed of one row and a seed of another; ``None`` from one seed.

    Of two seeds each, a difference beyond it means that both of one row are better than both of the other.
    """
    if one.spread is None or two.spread is None:
        return None
    return math.hypot(one.spread, two.spread)


def _state(difference: float, spread: float | None, little: float | None) -> str:
    """Whether a difference is positive, or at most ``little`` if that is given, whatever the seeds were."""
    if spread is None:
        return UNTOLD
    if little is None:
        return HOLDS if difference > spread else FAILS if difference < -spread else UNTOLD
    beyond = abs(difference) - little
    return HOLDS if beyond <= _ROUNDING - spread else FAILS if beyond > spread + _ROUNDING else UNTOLD


def _why(spread: float | None, little: float | None) -> str:
    if spread is None:
        return " (one seed tells nothing of the spread)"
    if little is None:
        return f" (within the spread over seeds, {spread:.1f})"
    return f" ({little:g} allowed, spread over seeds {spread:.1f})"


def _factor(one: float, two: float) -> str:
    return f"{two / one:.1f} times as long" if one else "?"
