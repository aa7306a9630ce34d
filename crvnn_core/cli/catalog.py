"""``crvnn list`` and ``crvnn describe``."""

from __future__ import annotations

from typing import Any

import click

from crvnn_core.cli.session import (
    Session,
    as_slot,
    json_option,
    pass_session,
    plugin_option,
    print_json,
    print_table,
    slot_argument,
)


@click.command("list")
@click.argument(
    "slot", required=False, callback=lambda ctx, parameter, value: as_slot(value, "preset", "model")
)
@json_option
@plugin_option
@pass_session
def list_command(session: Session, slot: str | None, as_json: bool) -> None:
    """List the installed components, of one SLOT (or the presets, or the trained models) or of all, and their packages.

    \b
    Examples:
      crvnn list cells
      crvnn list models
    """
    catalog = session.catalog
    offers = [o for s, found in catalog.components.items() if slot in (None, s) for o in found.values()]
    presets = catalog.presets.values() if slot in (None, "preset") else ()
    rows = [(o.slot, o.component.name, o.component.summary, str(o.source)) for o in offers]
    rows += [("preset", preset.name, preset.summary, str(source)) for preset, source in presets]
    models = catalog.models.values() if slot in (None, "model") else ()
    rows += [("model", model.name, model.summary, str(source)) for model, source in models]
    if as_json:
        broken = [
            {"plugin": b.source.plugin, "package": str(b.source), "reason": b.reason} for b in catalog.broken
        ]
        keys = ("slot", "name", "summary", "package")
        print_json({"components": [dict(zip(keys, row, strict=True)) for row in rows], "broken": broken})
    else:
        print_table(("slot", "name", "what it is", "from"), rows)


@click.command("describe")
@slot_argument
@click.argument("name")
@json_option
@plugin_option
@pass_session
def describe_command(session: Session, slot: str, name: str, as_json: bool) -> None:
    """Describe the component NAME of a SLOT: its parameters, its contract, where it comes from.

    \b
    Example:
      crvnn describe retriever adhoc
    """
    from crvnn_core.host.description import describe

    facts = describe(session.catalog, slot, name)
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def _show(facts: dict[str, Any]) -> None:
    click.echo(f"{facts['slot']} {facts['name']}: {facts['summary']}")
    click.echo(f"from {facts['package']}, built by {facts['build']}\n")
    if facts["text"]:
        click.echo(f"{facts['text']}\n")
    if facts["parameters"]:
        rows = [(p["name"], p["kind"], p["default"], p["text"]) for p in facts["parameters"]]
        print_table(("parameter", "kind", "default", "what it does"), rows)
    else:
        click.echo("It has no parameters.")
    if facts["given"]:
        click.echo(f"\ncrvnn fills in: {', '.join(facts['given'])}")
    click.echo(f"\nIts contract ('crvnn check {facts['slot']} {facts['name']}' runs it):")
    for line in facts["contract"]:
        click.echo(f"  - {line}")
