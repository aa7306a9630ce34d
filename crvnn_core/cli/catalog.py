"""``crvnn list``, ``crvnn specs`` and ``crvnn describe``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from crvnn_core.cli.names import IN_SLOT, SLOT, SPEC_NAME, as_slot
from crvnn_core.cli.session import (
    Session,
    json_option,
    pass_session,
    plugin_option,
    print_json,
    print_table,
)

#: What can be listed and described besides the components of a slot.
_OTHERS = ("preset", "spec", "model")


@click.command("list")
@click.argument(
    "slot", type=SLOT, required=False, callback=lambda ctx, parameter, value: as_slot(value, *_OTHERS)
)
@json_option
@plugin_option
@pass_session
def list_command(session: Session, slot: str | None, as_json: bool) -> None:
    """List what is installed, of one SLOT or of all, and its package.

    Instead of a SLOT: presets, specs or models (the trained models).

    \b
    Examples:
      crvnn list cells
      crvnn list models
    """
    catalog = session.catalog
    offers = [o for s, found in catalog.components.items() if slot in (None, s) for o in found.values()]
    rows = [(o.slot, o.component.name, o.component.summary, str(o.source)) for o in offers]
    others: dict[str, dict[str, Any]] = {
        "preset": catalog.presets,
        "spec": catalog.specs,
        "model": catalog.models,
    }
    for what, records in others.items():
        if slot in (None, what):
            rows += [(what, name, record.summary, str(source)) for name, (record, source) in records.items()]
    if as_json:
        broken = [
            {"plugin": b.source.plugin, "package": str(b.source), "reason": b.reason} for b in catalog.broken
        ]
        keys = ("slot", "name", "summary", "package")
        print_json({"components": [dict(zip(keys, row, strict=True)) for row in rows], "broken": broken})
    else:
        print_table(("slot", "name", "what it is", "from"), rows)


@click.command("specs")
@click.argument("name", type=SPEC_NAME, required=False)
@click.option(
    "--copy", type=click.Path(path_type=Path), metavar="DIR", help="Copy the spec NAME to DIR, to change it."
)
@json_option
@plugin_option
@pass_session
def specs_command(session: Session, name: str | None, copy: Path | None, as_json: bool) -> None:
    """List the specs that can be trained by name: what, with which data, how long.

    A spec's data is read from the working directory; 'crvnn data get' downloads
    it. With a NAME, the spec is printed or copied, with the files it needs.

    \b
    Examples:
      crvnn specs
      crvnn specs from-file --copy .
      crvnn train from-file
    """
    from crvnn_core.host.description import describe_spec
    from crvnn_core.spec.paths import copy_spec

    if name is None:
        if copy is not None:
            raise click.UsageError("--copy needs the NAME of a spec.")
        _list_specs(session, as_json)
        return
    facts = describe_spec(session.catalog, name)
    copied = [str(path) for path in copy_spec(Path(facts["path"]), copy)] if copy is not None else []
    if as_json:
        print_json(facts | {"copied": copied})
    elif copied:
        click.echo("\n".join(f"wrote {path}" for path in copied))
    else:
        click.echo(facts["text"].rstrip("\n"))


def _list_specs(session: Session, as_json: bool) -> None:
    found = session.catalog.specs.values()
    if as_json:
        keys = ("name", "summary", "data", "duration", "path")
        print_json([{key: getattr(spec, key) for key in keys} | {"package": str(s)} for spec, s in found])
        return
    rows = [(spec.name, spec.summary, spec.data or "none", spec.duration) for spec, _ in found]
    print_table(("name", "what it trains", "data", "time"), rows)


@click.command("describe")
@click.argument("slot", type=SLOT, callback=lambda ctx, parameter, value: as_slot(value, *_OTHERS))
@click.argument("name", type=IN_SLOT)
@json_option
@plugin_option
@pass_session
def describe_command(session: Session, slot: str, name: str, as_json: bool) -> None:
    """Describe the component NAME of a SLOT: its parameters and its contract.

    Instead of a SLOT: preset, spec or model (a trained model).

    \b
    Examples:
      crvnn describe retriever adhoc
      crvnn describe preset paper
      crvnn describe model listops
    """
    from crvnn_core.host.description import describe, describe_model, describe_preset, describe_spec

    others = {"preset": describe_preset, "spec": describe_spec, "model": describe_model}
    facts = others[slot](session.catalog, name) if slot in others else describe(session.catalog, slot, name)
    if as_json:
        print_json(facts)
    elif slot in others:
        _show_record(facts)
    else:
        _show_component(facts)


def _show_record(facts: dict[str, Any]) -> None:
    """A preset, spec or model: its facts in lines, and its text."""
    click.echo(f"{facts['kind']} {facts['name']}: {facts['summary']}")
    for key in ("package", "path", "data", "duration", "use"):
        if facts.get(key):
            click.echo(f"{key}: {facts[key]}")
    click.echo(f"\n{facts['text'].rstrip()}")


def _show_component(facts: dict[str, Any]) -> None:
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
