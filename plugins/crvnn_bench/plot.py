"""The plot of ``crvnn bench lengths``: time and memory against length, drawn by matplotlib."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crvnn_bench.setup import sentence
from crvnn_core import CrvnnError, InputError
from crvnn_core.files import open_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEEDED = {"environment", "setup", "width", "points", "exponents"}
#: Told apart by people who see few colours, too: the palette of Okabe and Ito, without its yellow.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "crvnn",  # equal results give equal files
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
}


def read_results(path: Path) -> dict[str, Any]:
    """The results that ``crvnn bench lengths`` wrote; an error if the file holds anything else."""
    with open_text(path) as file:
        try:
            results = json.load(file)
        except ValueError as error:
            raise CrvnnError(f"{path}: this is not JSON: {error}") from None
    kind = results.get("bench") if isinstance(results, dict) else None
    if kind != "lengths" or not results.keys() >= _NEEDED:
        found = f"these are results of 'crvnn bench {kind}'" if kind else "there are no results in it"
        raise InputError(f"{path}: {found}; the plot is made of the complete ones of 'crvnn bench lengths'")
    if not any(point["seconds"] or point["bytes"] for point in results["points"]):
        raise InputError(f"{path}: nothing was measured, so there is nothing to draw")
    return dict(results)


def draw(results: dict[str, Any]) -> str:
    """The plot as SVG; an error that says how to install matplotlib if it is missing."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise CrvnnError("plots need matplotlib: pip install 'crvnn[plot]' installs it") from None
    depth, width = results["setup"]["max_steps"], results["width"]
    title = f"A training step of one sequence, {depth} recursion steps, width {width}"
    file = io.StringIO()
    with rc_context(_STYLE):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        time, memory = figure.subplots(1, 2)
        _panel(time, results, "seconds", "time", "s")
        _panel(memory, results, "bytes", "memory", "B")
        time.set_title("Time")
        memory.set_title("Peak memory")
        figure.suptitle(title, fontweight="bold")
        figure.supxlabel(sentence(results["environment"]), fontsize=8, color="#555555")
        figure.savefig(file, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return file.getvalue()


def _panel(axes: Axes, results: dict[str, Any], key: str, fit: str, unit: str) -> None:
    """One line for each contender that was measured, on logarithmic axes."""
    from matplotlib.ticker import EngFormatter, NullLocator

    lengths = sorted({point["length"] for point in results["points"]})
    for number, name in enumerate(dict.fromkeys(point["contender"] for point in results["points"])):
        points = [(p["length"], p[key]) for p in results["points"] if p["contender"] == name and p[key]]
        exponent = results["exponents"][name][fit]
        label = name if exponent is None else f"{name}, n^{exponent:.2f}"
        colour = _COLOURS[number % len(_COLOURS)]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", ms=4, label=label, color=colour, gid=f"{fit}-{name}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(EngFormatter(unit=unit))
    axes.set_xlabel("tokens")
    axes.grid(True)
    if axes.lines:
        axes.legend(frameon=False)
