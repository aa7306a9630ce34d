"""Runs beside each other: figures with their spread over seeds, what sets the specs apart, and whether it matters.

Two variants are told apart by an exact permutation test of their means over seeds. It assumes nothing about how the
figures are spread, which matters here: a latent-tree model may find the trees from one seed and miss them from the
next. What it costs is that few seeds cannot say much; ``Test.least`` is the smallest p that as many could give.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict, evolve, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.runs.records import (
    MEASURES,
    Record,
    Variant,
    check_one_task,
    differences,
    groups,
    variants,
)
from crvnn_core.runs.significance import holm, permutation_test, welch_interval

METHOD = (
    "p: two-sided permutation test of the difference of means over seeds, against the first; every way to share out "
    "the seeds is tried (a sample of them where there are more than 50,000). With several variants p is corrected for "
    "their number after Holm, but not for the number of splits and groups. Interval: 95% for the difference, after "
    "Welch."
)


def percent(share: float, digits: int = 1) -> str:
    """A share of at most 1 as a number of hundredths; what is not all of it is never called 100."""
    text = f"{100 * share:.{digits}f}"
    if share >= 1 or float(text) < 100:
        return text
    return f"{min(100 * share, 100 - 0.1 ** (digits + 1)):.{digits + 1}f}"


@frozen
class Spread:
    """A figure over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of all seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of a sample; a single value has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def written(self, measure: str, digits: int) -> str:
        """Mean and standard deviation in words; accuracy in percent."""
        percents = measure == "accuracy"
        mean = percent(self.mean, digits) if percents else f"{self.mean:.{digits}f}"
        if self.deviation is None:
            return mean
        return f"{mean} ± {(100 if percents else 1) * self.deviation:.{digits}f}"

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "mean": self.mean,
            "std": self.deviation,
            "n": len(self.values),
            "min": min(self.values),
            "max": max(self.values),
            "values": list(self.values),
        }


@frozen
class Test:
    """Whether two variants differ by more than the chance of their seeds."""

    __test__ = False  # no test for pytest

    difference: float
    p: float | None = None
    #: p after Holm, for as many variants as were compared.
    adjusted: float | None = None
    #: The smallest p that as many seeds can give.
    least: float | None = None
    #: Of the difference, 95%.
    interval: tuple[float, float] | None = None
    #: Why there is no p.
    refused: str = ""


@frozen
class Row:
    """One figure of a split, or of a group in it, for every variant that has it."""

    split: str
    bucket: str
    measure: str
    spreads: tuple[Spread | None, ...]
    #: Of each variant against the first; ``None`` for the first, and for one without the figure.
    tests: tuple[Test | None, ...]


@frozen
class Comparison:
    """Everything that can be said of some runs beside each other."""

    variants: tuple[Variant, ...]
    rows: tuple[Row, ...]
    differences: Mapping[str, tuple[Any, ...]]
    remarks: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        names = [variant.name for variant in self.variants]
        found = [
            {"name": variant.name, "runs": [{"run": run.name, "seed": run.seed} for run in variant.runs]}
            for variant in self.variants
        ]
        rows = [
            {
                "split": row.split,
                "group": row.bucket or "all",
                "measure": row.measure,
                "spread": {
                    name: spread and spread.plain() for name, spread in zip(names, row.spreads, strict=True)
                },
                "against_first": {
                    name: asdict(test)
                    for name, test in zip(names, row.tests, strict=True)
                    if test is not None
                },
            }
            for row in self.rows
        ]
        told = {key: dict(zip(names, values, strict=True)) for key, values in self.differences.items()}
        return {
            "variants": found,
            "figures": rows,
            "differences": told,
            "remarks": list(self.remarks),
            "method": METHOD,
        }


def compare(records: Sequence[Record]) -> Comparison:
    """Runs of one task beside each other; those that differ only in their seed count as one variant."""
    check_one_task(records)
    usable = [record for record in records if not record.lacking]
    remarks = [f"{record.lacking}; it is left out." for record in records if record.lacking]
    if not usable:
        raise CrvnnError("\n".join(record.lacking for record in records))
    found, doubles = variants(usable)
    told = differences([variant.runs[0].described for variant in found])
    rows = tuple(_rows(found))
    remarks += [*doubles, *_remarks(found, told)]
    return Comparison(tuple(found), rows, told, tuple(remarks))


def _rows(found: Sequence[Variant]) -> Iterator[Row]:
    for split, bucket in places(found):
        for measure in MEASURES:
            values = [variant.values(split, bucket, measure) for variant in found]
            spreads = tuple(Spread(tuple(each)) if each else None for each in values)
            if any(spreads):
                yield Row(split, bucket, measure, spreads, against_first(spreads))


def places(found: Sequence[Variant]) -> list[tuple[str, str]]:
    """Every split, and after it the groups in it."""
    return [(split, bucket) for split, buckets in groups(found).items() for bucket in ("", *buckets)]


def _remarks(found: Sequence[Variant], told: Mapping[str, tuple[Any, ...]]) -> Iterator[str]:
    settings = [key for key in told if key.startswith("task.")]
    if settings:
        yield f"The task's settings differ ({', '.join(settings)}): the splits may hold different examples."
    for split in dict.fromkeys(split for split, _ in places(found)):
        counts = {
            variant.name: int(run.splits[split]["total"]["examples"])
            for variant in found
            for run in variant.runs
            if split in run.splits
        }
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            yield f"The split '{split}' has not as many examples for each: {listed}."
    if len(found) > 1 and any(variant.seeds < 2 for variant in found):
        single = ", ".join(variant.name for variant in found if variant.seeds < 2)
        yield (
            f"One seed only: {single}. Whether a difference is more than the chance of a seed takes two seeds a side "
            "at the least, and five to be of use: crvnn train SPEC --seeds 5."
        )


def against_first(spreads: Sequence[Spread | None]) -> tuple[Test | None, ...]:
    """Each variant tested against the first, with p corrected for their number."""
    first = spreads[0]
    tests = [_test(first, other) if first and other else None for other in spreads[1:]]
    chances = [test.p for test in tests if test is not None and test.p is not None]
    corrected = iter(holm(chances))
    return (None, *(test and _corrected(test, corrected) for test in tests))


def _test(first: Spread, other: Spread) -> Test:
    difference = other.mean - first.mean
    sizes = (len(first.values), len(other.values))
    if min(sizes) < 2:
        return Test(difference, refused=f"{sizes[0]} against {sizes[1]} seeds: a test takes two a side")
    p, least = permutation_test(first.values, other.values)
    return Test(difference, p, p, least, welch_interval(first.values, other.values))


def _corrected(test: Test, corrected: Iterator[float]) -> Test:
    return test if test.p is None else evolve(test, adjusted=next(corrected))
