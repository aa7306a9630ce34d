"""The command group ``crvnn share``: export, pack and push. Importing it does not import torch."""

from __future__ import annotations

from pathlib import Path

import click

from crvnn_core.cli.session import Session, json_option, pass_session, print_json


@click.group("share")
def share() -> None:
    """Export a model for other runtimes, pack a run as a zip file, or upload it.

    \b
    Examples:
      crvnn share export listops --to onnx --hard
      crvnn share pack runs/first
      crvnn share push runs/first me/my-first-model
    """


@share.command("export", short_help="Write a model for other runtimes, as ONNX or pt2.")
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
    from crvnn_export.classifier import Exportable
    from crvnn_export.formats import export

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


_metrics_option = click.option("--metrics", is_flag=True, help="Include the learning curve, for reports.")
_checkpoints_option = click.option(
    "--checkpoints", is_flag=True, help="Include what resuming the training needs."
)


@share.command("pack", short_help="Write a run as a zip file that every command takes.")
@click.argument("run")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The zip file to write; by default RUN.zip here.",
)
@_metrics_option
@_checkpoints_option
@json_option
@pass_session
def pack_command(
    session: Session, run: str, out: Path | None, metrics: bool, checkpoints: bool, as_json: bool
) -> None:
    """Write RUN as a zip file that every command takes in place of a run.

    It has the spec, the weights, the vocabulary, versions, results and a model card: what is needed to use it. The same
    run gives the same bytes, and the SHA-256 checksum that is printed says which.

    \b
    Examples:
      crvnn share pack listops
      crvnn share pack runs/first --out first.zip --metrics
      crvnn predict first.zip "[MAX 2 9 4 ]"
      crvnn predict "https://example.org/first.zip#sha256=..." "[MAX 2 9 4 ]"
    """
    from crvnn_core.display.progress import format_bytes
    from crvnn_core.host.runs import find_run
    from crvnn_core.runs.archive import write_archive
    from crvnn_export.contents import contents

    directory = find_run(run, session.catalog)
    name = _name(run, directory.path)
    files = contents(directory, name, metrics=metrics, checkpoints=checkpoints)
    out = out or Path(f"{name}.zip")
    sha256 = write_archive(out, name, files)
    size = out.stat().st_size
    if as_json:
        print_json({"file": str(out), "bytes": size, "sha256": sha256, "files": sorted(files)})
        return
    click.echo(f"{out}: {len(files)} files, {format_bytes(size)}\nsha256 {sha256}")


@share.command("push", short_help="Upload a run to the Hugging Face hub.")
@click.argument("run")
@click.argument("repository", metavar="OWNER/NAME")
@click.option("--private", is_flag=True, help="If the repository is created, make it private.")
@click.option("--revision", metavar="BRANCH", help="Push to this branch, created if need be.")
@click.option("--message", default="Upload with crvnn", show_default=True, help="Of the commit.")
@_metrics_option
@_checkpoints_option
@pass_session
def push_command(
    session: Session,
    run: str,
    repository: str,
    private: bool,
    revision: str | None,
    message: str,
    metrics: bool,
    checkpoints: bool,
) -> None:
    """Upload RUN to the model repository OWNER/NAME of the Hugging Face hub.

    The repository is a run directory with a model card; commands take it as hf:OWNER/NAME, or hf:OWNER/NAME@REVISION.
    It needs the package huggingface_hub, which knows your account by 'hf auth login'.

    \b
    Examples:
      crvnn share push runs/first me/my-first-model --private
      crvnn predict hf:me/my-first-model "[MAX 2 9 4 ]"
    """
    from crvnn_core.host.runs import find_run
    from crvnn_export.contents import contents
    from crvnn_export.hub import push

    files = contents(
        find_run(run, session.catalog),
        repository.rpartition("/")[2],
        metrics=metrics,
        checkpoints=checkpoints,
    )
    address = push(files, repository, private=private, revision=revision, message=message)
    click.echo(f"{address}\nUse it as hf:{repository}{f'@{revision}' if revision else ''}")


def _name(run: str, path: Path) -> str:
    """What a packed run is called: as its directory, or as its zip file."""
    given = Path(run.partition("#")[0])
    return given.stem if given.suffix == ".zip" else (path.resolve().name if given.is_dir() else given.name)
