"""Charts of results: by group of a split, and depth against length."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from crvnn_core.runs.records import Variant
from crvnn_report.examination import Look, Seen
from crvnn_report.svg import ASLANT, HEIGHT, Axis, Plot

_CALLED = {"accuracy": "Accuracy, %", "depth": "Mean depth, steps"}
_NUDGE = 0.12  # of the room of a group, between variants
#: Examples below which a group's figure is drawn hollow: chance alone moves it by ten points and more.
FEW = 30


def by_group(split: str, groups: Sequence[str], variants: Sequence[Variant], measure: str) -> str:
    """Accuracy or depth in every group of a split: means over seeds, and from the least to the most."""
    scale = 100.0 if measure == "accuracy" else 1.0
    found = [
        [[scale * value for value in variant.values(split, group, measure)] for group in groups]
        for variant in variants
    ]
    counts = [
        [int(min(variant.values(split, group, "examples"), default=0)) for group in groups]
        for variant in variants
    ]
    names = [variant.name for variant in variants]
    return _grouped(f"group of {split}", groups, names, found, counts, _CALLED[measure])


def by_length(looks: Sequence[Look]) -> str:
    """Accuracy by length of the examples that models were asked about, where results tell no groups apart."""
    ranges = _ranges(sorted(seen.length for look in looks for seen in look.seen))
    if not ranges:
        return ""
    parts = [
        [[seen for seen in look.seen if low <= seen.length <= high] for low, high in ranges] for look in looks
    ]
    found = [[_accuracy(part) for part in one] for one in parts]
    counts = [[len(part) for part in one] for one in parts]
    groups = [f"{low:g}" if low == high else f"{low:g}-{high:g}" for low, high in ranges]
    names = [look.variant.name for look in looks]
    return _grouped("tokens", groups, names, found, counts, _CALLED["accuracy"])


def _accuracy(seen: Sequence[Seen]) -> list[float]:
    return [100 * statistics.fmean(one.right for one in seen)] if seen else []


def _ranges(lengths: Sequence[float], most: int = 6) -> list[tuple[float, float]]:
    """Lengths in a few portions of about one size, no length in two of them."""
    found: list[tuple[float, float]] = []
    for part in range(most):
        some = lengths[part * len(lengths) // most : (part + 1) * len(lengths) // most]
        above = [length for length in some if not found or length > found[-1][1]]
        if above:
            found.append((above[0], above[-1]))
    return found


def _grouped(
    across: str,
    groups: Sequence[str],
    names: Sequence[str],
    found: list[list[list[float]]],
    counts: list[list[int]],
    called: str,
) -> str:
    """Values by variant and group, a line for each variant; ``counts`` says of how many examples."""
    every = [value for one in found for values in one for value in values]
    if not every:
        return ""
    aslant = len(groups) * max(map(len, groups)) > 48
    x = Axis(
        across,
        -0.5,
        len(groups) - 0.5,
        named=lambda place: groups[int(place)],
        fixed=range(len(groups)),
        aslant=aslant,
    )
    percents = called == _CALLED["accuracy"]
    y = (
        Axis(called, -2.0, 103.0, fixed=range(0, 101, 20))
        if percents
        else Axis.around(called, every, zero=True)
    )
    plot = Plot(x, y, height=HEIGHT + (ASLANT if aslant else 0))
    parts, said = [], []
    for colour, (name, one) in enumerate(zip(names, found, strict=True)):
        nudge = _NUDGE * (colour - (len(names) - 1) / 2) if len(names) < 8 else 0.0
        means = {place: statistics.fmean(values) for place, values in enumerate(one) if values}
        parts.append(
            plot.line([(place + nudge, mean) for place, mean in means.items()], f"line s{colour % 8}")
        )
        for place in means:
            told = f"{name}, {groups[place]}"
            parts.append(_group(plot, place + nudge, one[place], counts[colour][place], colour, told))
        said.append(f"{name}: " + ", ".join(f"{groups[place]} {mean:.1f}" for place, mean in means.items()))
    return plot.drawn(f"{called} by {across}", "; ".join(said), "".join(parts))


def _group(plot: Plot, x: float, values: Sequence[float], count: int, colour: int, name: str) -> str:
    said = f"{name}: {statistics.fmean(values):.1f}, {count:,} example{'s' * (count != 1)}"
    whisker = ""
    if len(values) > 1:
        said += f" (from {min(values):.1f} to {max(values):.1f} over {len(values)} seeds)"
        whisker = plot.whisker(x, min(values), max(values), f"whisker s{colour % 8}")
    kind = f"mean{' few' * (count < FEW)} s{colour % 8}"
    return whisker + plot.dot((x, statistics.fmean(values)), kind, said)


def depth_by_length(looks: Sequence[Look]) -> dict[int, str]:
    """Of each look by its number: the steps of every example against its length, all on the same axes.

    Beside them stands what a chain and a balanced tree would take.
    """
    counted = {
        number: Counter((seen.length, max(seen.steps, 1.0)) for seen in look.seen if seen.length > 1)
        for number, look in enumerate(looks)
    }
    places = [place for points in counted.values() for place in points]
    if not places:
        return {}
    lengths, steps = [x for x, _ in places], [y for _, y in places]
    wide = max(lengths) / min(lengths) > 12
    across = Axis.around("tokens of the sequence", lengths, logarithmic=wide, zero=not wide)
    upward = Axis.around("Depth, steps", [*steps, 1.0], logarithmic=wide, zero=not wide)
    plot = Plot(across, upward)
    return {
        number: _depth(plot, number, looks[number].variant.name, points)
        for number, points in counted.items()
        if points
    }


def _depth(plot: Plot, number: int, name: str, points: Counter[tuple[float, float]]) -> str:
    parts = [_guide(plot, "chain", lambda n: n - 1), _guide(plot, "balanced", math.log2)]
    for place, times in sorted(points.items()):
        radius = min(2.4 + 0.8 * math.log2(times), 6.5)
        said = f"{times} of {place[0]:g} tokens: {place[1]:g} steps"
        parts.append(plot.dot(place, f"cloud s{number % 8}", said, radius))
    parts.append(plot.line(_trend(points), f"line s{number % 8}"))
    mean = statistics.fmean(y for _, y in points.elements())
    said = f"{points.total():,} examples of {name}; {mean:.1f} steps on average."
    return plot.drawn(f"Depth of the recursion against length: {name}", said, "".join(parts))


def _guide(plot: Plot, kind: str, steps: Callable[[float], float]) -> str:
    """What a tree of a known shape would take, as far as it fits."""
    low, high = max(plot.across.low, 2.0), plot.across.high
    found = [low * (high / low) ** (i / 120) for i in range(121)]
    points = [(n, steps(n)) for n in found if plot.upward.low <= steps(n) <= plot.upward.high]
    return plot.line(points, f"guide {kind}") if len(points) > 1 else ""


def _trend(counted: Counter[tuple[float, float]]) -> list[tuple[float, float]]:
    """The mean of about a dozen neighbouring portions."""
    every = sorted(counted.elements())
    portions = max(1, min(12, len(every) // 5))
    found = []
    for part in range(portions):
        some = every[part * len(every) // portions : (part + 1) * len(every) // portions]
        found.append((statistics.fmean(x for x, _ in some), statistics.fmean(y for _, y in some)))
    return found
