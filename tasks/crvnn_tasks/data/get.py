"""``crvnn data get``."""

from __future__ import annotations

from pathlib import Path

import click

from crvnn_core.cli.session import json_option, print_json


@click.command("get")
@click.argument("name")
@click.option(
    "--dir", "directory", required=True, type=click.Path(path_type=Path), help="Where to put the files."
)
@click.option("--mirror", default="", metavar="URL", help="Take every file from URL/FILE instead.")
@json_option
def get_command(name: str, directory: Path, mirror: str, as_json: bool) -> None:
    """Fetch the published files of NAME: listops, logic, sst, snli, mnli, glove or glove-6b.

    What was interrupted goes on from where it stopped, and what is there already is only checked. A mirror may have
    FILE.sha256 beside a FILE.

    \b
    Examples:
      crvnn data get sst --dir data/sst
      crvnn data get snli --dir data/snli --mirror https://mirror.example.org/nli
    """
    import attrs

    from crvnn_tasks.data.downloads import get, reporting

    with reporting() as report:
        got = get(name, directory, mirror, report)
    if as_json:
        print_json({"name": name, "directory": str(directory), "files": [attrs.asdict(each) for each in got]})
        return
    for each in got:
        click.echo(str(each))
    click.echo(f"{directory} has everything.")
