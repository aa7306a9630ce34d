"""``crvnn share export``."""

from __future__ import annotations

from pathlib import Path

import click

from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json


@click.command("export", short_help="Write a model for other runtimes, as ONNX or pt2.")
@click.argument("run")
@click.option("--to", "form", type=click.Choice(["onnx", "pt2"]), required=True, help="The format.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file to write; by default the name of RUN and the format.",
)
@click.option("--hard", is_flag=True, help="Hard inference: binary decisions, composition along one tree.")
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    metavar="N",
    help="Unroll the recursion to N steps, for runtimes without loops.",
)
@json_option
@plugin_option
@pass_session
def export_command(
    session: Session, run: str, form: str, out: Path | None, hard: bool, depth: int | None, as_json: bool
) -> None:
    """Write the model of RUN for other runtimes: as ONNX, or as a program of torch.export (pt2).

    The graph takes token numbers and lengths, of any batch size and length, and gives logits; vocabulary and classes
    are in the file's metadata. By default it does what 'crvnn predict' does, in a loop that ends when all sequences
    have halted. The file is compared with the model on random inputs, and kept only if both agree.

    \b
    Examples:
      crvnn share export listops --to onnx --hard
      crvnn share export runs/first --to onnx --depth 20 --out first.onnx
      crvnn share export runs/first --to pt2
    """
    from crvnn_core.display.progress import format_bytes
    from crvnn_export.graphs.classifier import Exportable
    from crvnn_export.graphs.formats import export

    exportable = Exportable.of(session.load(run), session.catalog, hard=hard, depth=depth)
    out = out or Path(f"{Path(run.partition('#')[0]).stem}.{form}")
    written = export(exportable, form, out)
    if as_json:
        facts = {"file": str(out), "bytes": written.bytes, "compared": written.inputs}
        print_json({**facts, "largest_difference": written.difference, "inputs": exportable.names})
        return
    click.echo(f"{out}: {format_bytes(written.bytes)}, inputs {', '.join(exportable.names)}, output logits")
    click.echo(
        f"Agrees with torch on {written.inputs} random sequences; logits differ by at most {written.difference:.1g}."
    )
