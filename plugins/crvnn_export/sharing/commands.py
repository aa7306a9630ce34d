"""``crvnn share pack`` and ``crvnn share push``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json

F = TypeVar("F", bound=Callable[..., Any])


def content_options(command: F) -> F:
    """``--metrics`` and ``--checkpoints``."""
    command = click.option("--checkpoints", is_flag=True, help="Include what resuming the training needs.")(
        command
    )
    return click.option("--metrics", is_flag=True, help="Include the learning curve, for reports.")(command)


@click.command("pack", short_help="Write a run as a zip file that every command takes.")
@click.argument("run")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The zip file to write; by default RUN.zip here.",
)
@content_options
@json_option
@plugin_option
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
    from crvnn_export.sharing.contents import contents

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


@click.command("push", short_help="Upload a run to the Hugging Face hub.")
@click.argument("run")
@click.argument("repository", metavar="OWNER/NAME")
@click.option("--private", is_flag=True, help="If the repository is created, make it private.")
@click.option("--revision", metavar="BRANCH", help="Push to this branch, created if need be.")
@click.option("--message", default="Upload with crvnn", show_default=True, help="Of the commit.")
@content_options
@plugin_option
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
    from crvnn_export.sharing.contents import contents
    from crvnn_export.sharing.hub import push

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
