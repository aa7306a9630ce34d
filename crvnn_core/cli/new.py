"""``crvnn new``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from crvnn_core.cli.names import slot_argument
from crvnn_core.cli.session import Session, pass_session


@click.command("new")
@slot_argument
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to put the package; ./NAME if not given.",
)
@pass_session
def new_command(session: Session, slot: str, name: str, out: Path | None) -> None:
    """Create a package with a component NAME for a SLOT, to start from.

    It installs and passes its contract as it is; change it from there.

    \b
    Example:
      crvnn new cell my-cell --out my-cell
      pip install -e my-cell
      crvnn check cell my-cell
    """
    from crvnn_core.errors import CrvnnError
    from crvnn_core.host.scaffold import create_package

    offer = session.catalog.components[slot].get(name)
    if offer is not None and offer.source.package != name:
        raise CrvnnError(
            f"there is a {slot} called '{name}' already, from {offer.source}; choose another name"
        )
    target = out or Path(name)
    files = create_package(slot, name, target)
    click.echo(f"Made {target} with {', '.join(files)}.\n")
    click.echo(f"Next:\n  pip install -e {shlex.quote(str(target))}\n  crvnn check {slot} {name}")
