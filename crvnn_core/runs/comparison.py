"""A comparison of runs: mean and standard deviation over seeds, settings that differ, and significance.

Variants are compared by an exact permutation test of their means over seeds. It does not assume a normal
distribution, which matters here: a latent-tree model may find the trees from one seed and miss them from the next.
The price is a floor under p with few seeds, ``Significance.p_min``.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from attrs import asdict, evolve, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.runs.records import (
    METRICS,
    Record,
    Variant,
    check_one_task,
    differences,
    groups,
    variants,
)

METHOD = (
    "p: two-sided permutation test of the difference between means over seeds, against the first variant; exact, or "
    "estimated from 20,000 random permutations where there are more than 50,000. With several variants p is corrected "
    "for their number by Holm's method, but not for the number of splits and groups. 95%: Welch's confidence interval "
    "of the difference."
)


def percent(fraction: float, digits: int = 1) -> str:
    """A fraction as a percentage without the sign; a fraction below 1 is never rounded up to 100."""
    text = f"{100 * fraction:.{digits}f}"
    if fraction >= 1 or float(text) < 100:
        return text
    return f"{min(100 * fraction, 100 - 0.1 ** (digits + 1)):.{digits + 1}f}"


@frozen
class Spread:
    """The values of one metric over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """The sample standard deviation; ``None`` for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def format(self, metric: str, digits: int) -> str:
        """Mean ± standard deviation; accuracy in percent."""
        is_accuracy = metric == "accuracy"
        mean = percent(self.mean, digits) if is_accuracy else f"{self.mean:.{digits}f}"
        if self.std is None:
            return mean
        return f"{mean} ± {(100 if is_accuracy else 1) * self.std:.{digits}f}"

    def to_dict(self) -> dict[str, Any]:
        """The values and their statistics."""
        return {
            "mean": self.mean,
            "std": self.std,
            "n": len(self.values),
            "min": min(self.values),
            "max": max(self.values),
            "values": list(self.values),
        }


@frozen
class Significance:
    """The difference between the means of a variant and the first one, and how probable it is by chance."""

    difference: float
    p: float | None = None
    #: p after Holm's correction for the number of variants.
    p_adjusted: float | None = None
    #: The smallest p that so many seeds can give.
    p_min: float | None = None
    #: The 95% confidence interval of the difference; ``None`` if neither varies.
    interval: tuple[float, float] | None = None
    #: Why there is no p.
    reason: str = ""


@frozen
class Row:
    """One metric on a split, or on a group of its examples, for every variant."""

    split: str
    #: Empty for the whole split.
    group: str
    metric: str
    #: ``None`` for a variant without this metric.
    spreads: tuple[Spread | None, ...]
    #: Against the first variant; ``None`` for the first, and for one without this metric.
    tests: tuple[Significance | None, ...]


@frozen
class Comparison:
    """The result of ``compare``."""

    variants: tuple[Variant, ...]
    rows: tuple[Row, ...]
    #: The settings and versions that differ, with the value of each variant.
    differences: Mapping[str, tuple[Any, ...]]
    remarks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain dictionaries and lists."""
        names = [variant.name for variant in self.variants]
        return {
            "variants": [
                {"name": variant.name, "runs": [{"run": run.name, "seed": run.seed} for run in variant.runs]}
                for variant in self.variants
            ],
            "results": [_row_to_dict(row, names) for row in self.rows],
            "differences": {
                key: dict(zip(names, values, strict=True)) for key, values in self.differences.items()
            },
            "remarks": list(self.remarks),
            "method": METHOD,
        }


def _row_to_dict(row: Row, names: Sequence[str]) -> dict[str, Any]:
    return {
        "split": row.split,
        "group": row.group or "all",
        "metric": row.metric,
        "statistics": {
            name: spread and spread.to_dict() for name, spread in zip(names, row.spreads, strict=True)
        },
        "against_first": {
            name: asdict(test) for name, test in zip(names, row.tests, strict=True) if test is not None
        },
    }


def compare(records: Sequence[Record]) -> Comparison:
    """Compare runs of one task; runs that differ only in their seed are one variant."""
    check_one_task(records)
    complete = [record for record in records if not record.no_results]
    if not complete:
        raise CrvnnError("\n".join(record.no_results for record in records))
    found, duplicates = variants(complete)
    differing = differences([variant.runs[0].configuration for variant in found])
    remarks = [f"{record.no_results}; it is left out." for record in records if record.no_results]
    remarks += [*duplicates, *_remarks(found, differing)]
    return Comparison(tuple(found), tuple(_rows(found)), differing, tuple(remarks))


def _rows(found: Sequence[Variant]) -> Iterator[Row]:
    for split, names in groups(found).items():
        for group, metric in product(("", *names), METRICS):
            values = [variant.values(split, group, metric) for variant in found]
            spreads = tuple(Spread(tuple(each)) if each else None for each in values)
            if any(spreads):
                yield Row(split, group, metric, spreads, against_first(spreads))


def _remarks(found: Sequence[Variant], differing: Mapping[str, tuple[Any, ...]]) -> Iterator[str]:
    settings = [key for key in differing if key.startswith("task.")]
    if settings:
        yield f"Settings of the task differ ({', '.join(settings)}): the splits may hold different examples."
    for split in groups(found):
        counts = {
            variant.name: int(run.splits[split]["total"]["examples"])
            for variant in found
            for run in variant.runs
            if split in run.splits
        }
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            yield f"The split '{split}' does not have the same number of examples everywhere: {listed}."
    if len(found) > 1 and any(variant.seeds < 2 for variant in found):
        single = ", ".join(variant.name for variant in found if variant.seeds < 2)
        yield (
            f"Only one seed: {single}. A significance test needs at least two seeds per variant, and five to be "
            "useful: crvnn train SPEC --seeds 5."
        )


def against_first(spreads: Sequence[Spread | None]) -> tuple[Significance | None, ...]:
    """The test of each variant against the first, with p corrected for the number of variants."""
    first = spreads[0]
    tests = [_test(first, other) if first and other else None for other in spreads[1:]]
    corrected = iter(holm([test.p for test in tests if test is not None and test.p is not None]))
    return (
        None,
        *(
            test if test is None or test.p is None else evolve(test, p_adjusted=next(corrected))
            for test in tests
        ),
    )


def _test(first: Spread, other: Spread) -> Significance:
    difference = other.mean - first.mean
    sizes = (len(first.values), len(other.values))
    if min(sizes) < 2:
        reason = f"{sizes[0]} against {sizes[1]} seeds: a test needs two per variant"
        return Significance(difference, reason=reason)
    p, p_min = permutation_test(first.values, other.values)
    return Significance(difference, p, p, p_min, welch_interval(first.values, other.values))


_MAX_ENUMERATED = 50_000
_SAMPLES = 20_000


def permutation_test(one: Sequence[float], two: Sequence[float]) -> tuple[float, float]:
    """The two-sided p value of the difference between means, and the smallest p that samples of these sizes can give.

    p is the fraction of all permutations of the labels whose means differ at least as much as the observed ones.
    Beyond 50,000 permutations it is estimated from 20,000 random ones, with a fixed seed.
    """
    values = [*one, *two]
    mean = statistics.fmean(values)
    # Their sum is 0, so one side's sum gives the difference of means.
    centred = [value - mean for value in values]
    size, permutations = len(one), math.comb(len(values), len(one))
    tolerance = 1e-12 * (1 + max(map(abs, values)))  # differences that are equal up to rounding count
    observed = abs(sum(centred[:size])) - tolerance
    extremes = 2 if len(one) == len(two) else 1  # exchanging sides of equal size gives the same difference
    if permutations <= _MAX_ENUMERATED:
        as_extreme = sum(abs(sum(chosen)) >= observed for chosen in combinations(centred, size))
        return as_extreme / permutations, extremes / permutations
    generator = random.Random(0)
    as_extreme = sum(abs(sum(generator.sample(centred, size))) >= observed for _ in range(_SAMPLES))
    return (as_extreme + 1) / (_SAMPLES + 1), max(extremes / permutations, 1 / (_SAMPLES + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for multiple comparisons by Holm's step-down method, in the order given."""
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def welch_interval(one: Sequence[float], two: Sequence[float]) -> tuple[float, float] | None:
    """Welch's 95% confidence interval of mean(two) - mean(one); ``None`` if neither sample varies."""
    error, freedom = _standard_error(one, two)
    if error == 0:
        return None
    difference = statistics.fmean(two) - statistics.fmean(one)
    margin = _two_sided_limit(freedom) * error
    return difference - margin, difference + margin


def welch_test(one: Sequence[float], two: Sequence[float], margin: float = 0.0) -> float | None:
    """The one-sided p value of Welch's t-test for mean(one) > mean(two) + margin.

    ``None`` if a sample has fewer than two values, or if neither varies: then nothing is known of the spread.
    """
    if min(len(one), len(two)) < 2:
        return None
    error, freedom = _standard_error(one, two)
    if error == 0:
        return None
    return _upper_tail((statistics.fmean(one) - statistics.fmean(two) - margin) / error, freedom)


def _standard_error(one: Sequence[float], two: Sequence[float]) -> tuple[float, float]:
    """The standard error of the difference between means, and its degrees of freedom by Welch and Satterthwaite."""
    squares = [statistics.variance(sample) / len(sample) for sample in (one, two)]
    sizes = (len(one), len(two))
    spread = sum(square**2 / (size - 1) for square, size in zip(squares, sizes, strict=True))
    return math.sqrt(sum(squares)), sum(squares) ** 2 / spread if spread else math.inf


def _upper_tail(t: float, freedom: float) -> float:
    """The probability that Student's t is above ``t``, by Simpson's rule.

    With x = sqrt(freedom) tan(angle) the density is a power of the cosine, over a finite range.
    """
    steps, end = 2000, math.atan(t / math.sqrt(freedom))
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    heights = [math.pow(math.cos(end * number / steps), freedom - 1) for number in range(steps + 1)]
    area = heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    return min(1.0, max(0.0, 0.5 - scale * area * end / steps / 3))


def _two_sided_limit(freedom: float) -> float:
    """The value that Student's t is above with a probability of 2.5%, by Newton's method from that of a normal one."""
    t, step = 1.95, math.inf
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi * freedom)
    while abs(step) > 1e-9:
        step = (_upper_tail(t, freedom) - 0.025) / (scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2))
        t += step
    return t
