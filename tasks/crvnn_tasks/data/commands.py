"""``crvnn data``: the group of commands, and ``crvnn data get``."""

from __future__ import annotations

from pathlib import Path

import click

from crvnn_core.cli.session import json_option, print_json
from crvnn_tasks.data.check import check_command
from crvnn_tasks.data.make import make


@click.group("data")
def data() -> None:
    """Generate, download and check the data of the tasks.

    \b
    Examples:
      crvnn data make listops --rows 1000 --out rows.tsv
      crvnn data get sst --dir data/sst
      crvnn data check sst5 --dir data/sst
    """


@data.command("get", short_help="Download the published files of a task.")
@click.argument("name")
@click.option(
    "--dir", "directory", required=True, type=click.Path(path_type=Path), help="Where to put the files."
)
@click.option("--mirror", default="", metavar="URL", help="Download every file from URL/FILE instead.")
@json_option
def get_command(name: str, directory: Path, mirror: str, as_json: bool) -> None:
    """Download the published files of NAME: listops, logic, sst, snli, mnli, glove or glove-6b.

    An interrupted download is resumed, and the checksums of files that are already present are checked. A mirror may
    have FILE.sha256 beside a FILE.

    \b
    Examples:
      crvnn data get sst --dir data/sst
      crvnn data get snli --dir data/snli --mirror https://mirror.example.org/nli
    """
    import attrs

    from crvnn_core.downloads.transfer import showing_transfers
    from crvnn_tasks.data.downloads import get

    with showing_transfers() as progress:
        found = get(name, directory, mirror, progress)
    if as_json:
        files = [attrs.asdict(each) for each in found]
        print_json({"name": name, "directory": str(directory), "files": files})
        return
    for each in found:
        click.echo(str(each))
    click.echo(f"{directory} has all files of {name}.")


data.add_command(make)
data.add_command(check_command)
