"""``crvnn bench plot``: a plot of the results of ``crvnn bench lengths``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("plot", short_help="Plot the results of 'crvnn bench lengths'.")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The SVG file to write.",
)
def plot_command(results: Path, out: Path) -> None:
    """Plot the RESULTS of 'crvnn bench lengths': time and memory against length, as SVG.

    This needs matplotlib: pip install 'crvnn[plot]'.

    \b
    Examples:
      crvnn bench lengths --out lengths.json
      crvnn bench plot lengths.json --out lengths.svg
    """
    from crvnn_bench.report.plot import draw, read_results
    from crvnn_core.files import write_atomically

    write_atomically(out, draw(read_results(results)))
    click.echo(f"The plot is in {out}.")
