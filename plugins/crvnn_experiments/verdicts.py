"""Whether the claims of a paper about its rows hold for what was measured here, by Welch's t-test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from crvnn_core.runs.comparison import holm, welch_test
from crvnn_experiments.definition import Claim

if TYPE_CHECKING:
    from crvnn_experiments.plan import Plan
    from crvnn_experiments.results import Cell

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
#: The p value below which a claim holds, or does not.
THRESHOLD = 0.05
METHOD = (
    "Claims: one-sided t-tests of Welch over seeds. 'p' is that of the claim: the largest of its comparisons, since "
    "all of them have to hold. 'p against' is that of its contrary: the smallest, times their number. In brackets both "
    "are corrected for the number of claims of the table by Holm's method; a claim holds, or does not hold, if the one "
    f"or the other is then below {THRESHOLD:g}, and is undecided otherwise. A row is as good as another if they differ "
    "by less than the margin that is printed, by two such tests (equivalence)."
)


@frozen
class Verdict:
    """A claim, whether it holds here, and the differences that say so."""

    claim: Claim
    #: The differences, or why there is no test.
    detail: str
    #: p values of the claim and of its contrary; ``None`` if there is no test.
    p: float | None = None
    p_against: float | None = None
    #: The same, corrected for the number of claims.
    p_corrected: float = 1.0
    p_against_corrected: float = 1.0

    @property
    def state(self) -> str:
        """``holds``, ``does not hold`` or ``undecided``."""
        if self.p_corrected < THRESHOLD:
            return HOLDS
        return FAILS if self.p_against_corrected < THRESHOLD else UNDECIDED

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "claim": self.claim.says,
            "state": self.state,
            "p": self.p,
            "p_corrected": self.p_corrected,
            "p_against": self.p_against,
            "p_against_corrected": self.p_against_corrected,
            "detail": self.detail,
        }


def judge(plan: Plan, cells: Mapping[str, Mapping[str, Cell]]) -> tuple[Verdict, ...]:
    """Whether each claim of a table holds in every column that it is about.

    :param cells: of each row, by column.
    """
    found = [_tested(claim, plan, cells) for claim in plan.table.claims]
    # A claim that cannot be tested yet counts among the claims: with its figures the others would not hold less.
    p_values = holm([1.0 if verdict.p is None else verdict.p for verdict in found])
    against = holm([1.0 if verdict.p_against is None else verdict.p_against for verdict in found])
    return tuple(
        evolve(verdict, p_corrected=p, p_against_corrected=contrary)
        for verdict, p, contrary in zip(found, p_values, against, strict=True)
    )


def _tested(claim: Claim, plan: Plan, cells: Mapping[str, Mapping[str, Cell]]) -> Verdict:
    """A claim with p values that are not corrected yet."""
    margin = claim.within.get(plan.budget, 1.0)
    details: list[str] = []
    tests: list[tuple[float, float]] = []
    reasons: dict[str, None] = {}
    for column in plan.table.columns:
        if claim.columns and column.name not in claim.columns:
            continue
        minutes = plan.table.experiments[column.experiment].is_timing
        title = column.titles.get(plan.budget, column.name)
        for other in claim.others:
            one, two = cells[claim.row][column.name], cells[other][column.name]
            if one.mean is None or two.mean is None:
                without = [name for name, cell in ((claim.row, one), (other, two)) if cell.mean is None]
                return Verdict(claim, f"no figure of {', '.join(without)} in '{title}' yet")
            shown = f"{two.mean / one.mean:.1f} times as long" if minutes else f"{one.mean - two.mean:+.1f}"
            details.append(f"{title}, {other}: {shown}")
            better, worse = (two.values, one.values) if minutes else (one.values, two.values)
            if (reason := _why_untested(better, worse)) is not None:
                reasons[reason] = None
            elif claim.close_to:
                tests.append(_equivalence(better, worse, margin))
            else:
                tests.append((_p(better, worse), _p(worse, better)))
    if claim.close_to:
        details.append(f"within {margin:g}")
    if reasons:
        return Verdict(claim, "; ".join([*details, *reasons]))
    p, against = max(p for p, _ in tests), min(1.0, len(tests) * min(contrary for _, contrary in tests))
    return Verdict(claim, "; ".join(details), p, against)


def _equivalence(one: Sequence[float], two: Sequence[float], margin: float) -> tuple[float, float]:
    """p values of the means differing by less than the margin (two one-sided tests), and by more."""
    less = max(_p(one, two, -margin), _p(two, one, -margin))
    return less, min(1.0, 2 * min(_p(one, two, margin), _p(two, one, margin)))


def _p(one: Sequence[float], two: Sequence[float], margin: float = 0.0) -> float:
    found = welch_test(one, two, margin)
    return 1.0 if found is None else found


def _why_untested(one: Sequence[float], two: Sequence[float]) -> str | None:
    if min(len(one), len(two)) < 2:
        return "no test, since one seed tells nothing of the spread"
    return "no test, since the seeds do not differ" if welch_test(one, two) is None else None
