"""Whether figures from a few seeds differ by more than chance, with nothing but the standard library."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from itertools import combinations

_ENUMERATED = 50_000
_SAMPLED = 20_000


def permutation_test(one: Sequence[float], two: Sequence[float]) -> tuple[float, float]:
    """Two-sided p of the difference of means, and the least that as many values can give.

    Of all ways to share out the values on two sides of these sizes, the part in which the means are at least as far
    apart as they were found. Beyond 50,000 ways a sample of them stands for all, the same one every time.
    """
    values = [*one, *two]
    centre = statistics.fmean(values)
    shifted = [
        value - centre for value in values
    ]  # their sum is 0, so one side's sum says how far apart both are
    size, ways = len(one), math.comb(len(values), len(one))
    found = abs(sum(shifted[:size])) - 1e-12 * (
        1 + max(map(abs, values))
    )  # what is as far but for rounding counts
    mirrored = 2 if len(one) == len(two) else 1  # exchanging equal sides is as far apart
    if ways <= _ENUMERATED:
        far = sum(abs(sum(chosen)) >= found for chosen in combinations(shifted, size))
        return far / ways, mirrored / ways
    generator = random.Random(0)
    far = sum(abs(sum(generator.sample(shifted, size))) >= found for _ in range(_SAMPLED))
    return (far + 1) / (_SAMPLED + 1), max(mirrored / ways, 1 / (_SAMPLED + 1))


def holm(chances: Sequence[float]) -> list[float]:
    """p values corrected for their number after Holm, in the order given."""
    corrected, highest = [0.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        highest = max(highest, min(1.0, (len(chances) - rank) * chances[place]))
        corrected[place] = highest
    return corrected


def welch_interval(one: Sequence[float], two: Sequence[float]) -> tuple[float, float] | None:
    """95% interval of mean(two) - mean(one) after Welch; none where neither side varies."""
    parts = [statistics.variance(side) / len(side) for side in (one, two)]
    error = math.sqrt(sum(parts))
    if error == 0:
        return None
    sizes = (len(one), len(two))
    freedom = sum(parts) ** 2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    difference = statistics.fmean(two) - statistics.fmean(one)
    reach = t_quantile(0.975, freedom) * error
    return difference - reach, difference + reach


def t_quantile(chance: float, freedom: float) -> float:
    """The value below which Student's t lies with this chance (above one half)."""
    low, high = 0.0, 1.0
    while t_below(high, freedom) < chance:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_below(middle, freedom) < chance else (low, middle)
    return high


def t_below(value: float, freedom: float) -> float:
    """The chance that Student's t lies below a value that is not negative."""
    return 1 - _beta_share(freedom / (freedom + value * value), freedom / 2, 0.5) / 2


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on the other side
        return 1 - _beta_share(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction / a


def _not_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
