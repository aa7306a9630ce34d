"""Learning curves: the metrics of a run by step, reduced to as many points as a chart can show."""

from __future__ import annotations

import math
import statistics

from attrs import frozen

from crvnn_core.runs.records import Record, number, read_metrics

Points = list[tuple[float, float]]
#: Each metric of ``metrics.jsonl`` that is drawn, the label of its chart, and the factor to its unit.
METRICS = (
    ("loss", "Loss", 1.0),
    ("accuracy", "Accuracy, %", 100.0),
    ("depth", "Depth, steps", 1.0),
    ("learning_rate", "Learning rate", 1.0),
)
_POINTS = 160  # of a line
_WINDOW = 0.12  # half the width of the smoothing window, as a part of the line


@frozen
class Curve:
    """One metric of one run by step: on training batches, and on the development split."""

    run: str
    train: Points
    dev: Points


def read_curves(record: Record) -> dict[str, Curve]:
    """The curves of a run, by metric; without the metrics of which it has no values."""
    train: dict[str, Points] = {name: [] for name, _, _ in METRICS}
    dev: dict[str, Points] = {name: [] for name, _, _ in METRICS}
    for row in read_metrics(record.directory.metrics):
        kept = {"train": train, "dev": dev}.get(str(row.get("kind")))
        for name, _, scale in METRICS if kept is not None else ():
            value = number(row.get(name))
            if value is not None and kept is not None:
                kept[name].append((float(row["step"]), scale * value))
    return {
        name: Curve(record.name, train[name], dev[name]) for name, _, _ in METRICS if train[name] or dev[name]
    }


def downsampled(points: Points, most: int = _POINTS) -> Points:
    """At most ``most`` points, each the mean of a stretch of the line."""
    if len(points) <= most:
        return list(points)
    found = []
    for place in range(most):
        part = points[place * len(points) // most : (place + 1) * len(points) // most]
        found.append((statistics.fmean(x for x, _ in part), statistics.fmean(y for _, y in part)))
    return found


def smoothed(points: Points, window: float = _WINDOW) -> Points:
    """Each point as the mean of its surroundings, weighted by a truncated Gaussian.

    :param window: to either side, as a part of the line.
    """
    reach = len(points) * window
    weights = (
        [math.exp(-0.5 * (2.5 * near / reach) ** 2) for near in range(int(reach) + 1)]
        if reach >= 1
        else [1.0]
    )
    found = []
    for place, (x, _) in enumerate(points):
        first = max(0, place - len(weights) + 1)
        around = points[first : place + len(weights)]
        used = [weights[abs(first + number - place)] for number in range(len(around))]
        found.append((x, sum(w * y for w, (_, y) in zip(used, around, strict=True)) / sum(used)))
    return found
