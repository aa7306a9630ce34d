"""Significance of differences between a few seeds: permutation test, Holm's correction, Welch's interval."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import combinations

_MAX_ENUMERATED = 50_000
_SAMPLES = 20_000


def permutation_test(one: Sequence[float], two: Sequence[float]) -> tuple[float, float]:
    """The two-sided p value of the difference between means, and the smallest p that samples of these sizes can give.

    p is the fraction of all permutations of the labels whose means differ at least as much as the observed ones.
    Beyond 50,000 permutations it is estimated from 20,000 random ones, with a fixed seed.
    """
    values = [*one, *two]
    mean = statistics.fmean(values)
    centred = [
        value - mean for value in values
    ]  # the sum is 0, so one side's sum gives the difference of means
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


def has_scipy() -> bool:
    """Whether scipy is installed, which ``welch_interval`` needs (the extra ``compare``)."""
    return find_spec("scipy") is not None


def welch_interval(one: Sequence[float], two: Sequence[float]) -> tuple[float, float] | None:
    """Welch's 95% confidence interval of mean(two) - mean(one); ``None`` if neither sample varies. Needs scipy."""
    squares = [statistics.variance(sample) / len(sample) for sample in (one, two)]  # squared standard errors
    error = math.sqrt(sum(squares))
    if error == 0:
        return None
    from scipy.special import (
        stdtrit,
    )  # the quantile of Student's t; scipy.stats would take a second to import

    freedom = sum(squares) ** 2 / sum(
        square**2 / (len(sample) - 1) for square, sample in zip(squares, (one, two), strict=True)
    )
    difference = statistics.fmean(two) - statistics.fmean(one)
    margin = float(stdtrit(freedom, 0.975)) * error
    return difference - margin, difference + margin
