"""For authors of components: ``crvnn new`` makes a package to start from, ``crvnn check`` runs a contract."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from crvnn_core.cli.session import (
    IN_SLOT,
    PATH,
    Session,
    json_option,
    pass_session,
    print_json,
    set_option,
    slot_argument,
)


@click.command("check")
@slot_argument
@click.argument("name", type=IN_SLOT)
@set_option
@json_option
@pass_session
def check_command(session: Session, slot: str, name: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Run the contract of a SLOT on its component NAME, and print one line per promise.

    Exits with 1 if a promise is broken.

    \b
    Examples:
      crvnn check cell gated
      crvnn check retriever windowed --set model.retriever.k=3
    """
    from crvnn_core.errors import FAILURES, CrvnnError
    from crvnn_core.spec.description import with_parameters
    from crvnn_core.testing import CHECKS, run_checks
    from crvnn_core.testing.common import WIDTH
    from crvnn_core.testing.parts import everything

    offer = session.catalog.find(slot, name)
    component = with_parameters(offer, sets)
    if sets:
        try:
            component.make(everything(WIDTH), **component.example)
        except ValueError as error:
            raise CrvnnError(f"{offer} refuses these settings: {error}") from error
        except FAILURES:
            pass  # the checks report it
    outcomes = []
    for outcome in run_checks(component, CHECKS[slot]):
        outcomes.append(outcome)
        if not as_json:
            mark = click.style("kept  ", fg="green") if outcome.kept else click.style("BROKEN", fg="red")
            click.echo(
                f"{mark}  {outcome.promise}" + (f"\n        {outcome.reason}" if outcome.reason else "")
            )
    broken = sum(not outcome.kept for outcome in outcomes)
    if as_json:
        keys = ("check", "promise", "kept", "reason")
        results = [{key: getattr(outcome, key) for key in keys} for outcome in outcomes]
        print_json({"slot": slot, "name": name, "package": str(offer.source), "results": results})
    else:
        click.echo(
            f"{slot} {name} ({offer.source}): {len(outcomes) - broken} of {len(outcomes)} promises kept"
        )
    if broken:
        raise SystemExit(1)


@click.command("new")
@slot_argument
@click.argument("name")
@click.option("--out", type=PATH, metavar="DIR", help="Where to put the package; ./NAME if not given.")
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
