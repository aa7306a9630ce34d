"""``crvnn list``: what is installed, in tables and one by one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crvnn_core.cli.names import IN_SLOT, KINDS, SLOT_OR_KIND, as_slot
from crvnn_core.cli.session import (
    Session,
    json_option,
    pass_session,
    plugin_option,
    print_json,
    print_table,
)
from crvnn_core.errors import UnknownNameError

if TYPE_CHECKING:
    from crvnn_core.host.attribution import Source
    from crvnn_core.host.catalog import Catalog

_R = TypeVar("_R")


@click.command("list")
@click.argument(
    "slot",
    metavar="[WHAT]",
    type=SLOT_OR_KIND,
    required=False,
)
@click.argument("name", type=IN_SLOT, required=False)
@click.option(
    "--copy",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Copy the spec NAME to DIR, with the files it needs, to change it.",
)
@json_option
@plugin_option
@pass_session
def list_command(
    session: Session, slot: str | None, name: str | None, copy: Path | None, as_json: bool
) -> None:
    """List what is installed; with WHAT, of one kind; with a NAME, describe that one.

    WHAT is a slot (cells, retrievers, ...), presets, specs or models (the trained ones). A component is described with
    its parameters and its contract, a spec or a preset with its text, a model with its card.

    A spec's data is read from the working directory; 'crvnn data get' downloads it.

    \b
    Examples:
      crvnn list
      crvnn list cells
      crvnn list cell gated
      crvnn list specs
      crvnn list spec from-file --copy .
    """
    try:
        slot = as_slot(slot, *KINDS)
    except UnknownNameError as error:
        found = [kind for kind, offered in _kinds(session.catalog).items() if slot in offered]
        if name is not None or not found:
            raise
        ways = ", ".join(f"'crvnn list {kind} {slot}'" for kind in found)
        raise UnknownNameError(f"'{slot}' is no slot, but a {' and a '.join(found)}: {ways}") from error
    if copy is not None and (slot != "spec" or name is None):
        raise click.UsageError("--copy is for a spec: crvnn list spec NAME --copy DIR.")
    if slot is None or name is None:
        _list(session.catalog, slot, as_json)
        return
    facts = _KINDS[slot](session.catalog, name) if slot in KINDS else _component(session.catalog, slot, name)
    if copy is not None:
        from crvnn_core.spec.paths import copy_spec

        facts["copied"] = [str(path) for path in copy_spec(Path(facts["path"]), copy)]
    if as_json:
        print_json(facts)
    elif copy is not None:
        click.echo("\n".join(f"wrote {path}" for path in facts["copied"]))
    elif slot in KINDS:
        _show_record(facts)
    else:
        _show_component(facts)


def _kinds(catalog: Catalog) -> dict[str, Mapping[str, tuple[Any, Source]]]:
    """Everything that is installed: of each kind the records by name, and where each is from."""
    components = {
        slot: {name: (offer.component, offer.source) for name, offer in offers.items()}
        for slot, offers in catalog.components.items()
    }
    return {**components, "preset": catalog.presets, "spec": catalog.specs, "model": catalog.models}


def _list(catalog: Catalog, slot: str | None, as_json: bool) -> None:
    """A table of one kind or of all; specs by themselves have their data and duration too."""
    keys = ["name", "summary", *(["data", "duration", "path"] if slot == "spec" else [])]
    rows: list[dict[str, str]] = [
        {"slot": kind, **{key: getattr(record, key) for key in keys}, "package": str(source)}
        for kind, records in _kinds(catalog).items()
        if slot in (None, kind)
        for record, source in records.values()
    ]
    if as_json:
        broken = [
            {"plugin": b.source.plugin, "package": str(b.source), "reason": b.reason} for b in catalog.broken
        ]
        print_json({"components": rows, "broken": broken})
        return
    columns = {"slot": "slot", "name": "name", "summary": "what it is", "package": "from"}
    if slot == "spec":
        columns = {"name": "name", "summary": "what it trains", "data": "data", "duration": "time"}
    print_table(list(columns.values()), [[row[key] or "none" for key in columns] for row in rows])


def _component(catalog: Catalog, slot: str, name: str) -> dict[str, Any]:
    from crvnn_core.spec.description import describe
    from crvnn_core.testing import CHECKS, promise

    return {**describe(catalog, slot, name), "contract": [promise(check) for check in CHECKS[slot]]}


def _preset(catalog: Catalog, name: str) -> dict[str, Any]:
    import tomli_w

    preset = catalog.preset(name)
    return {
        "kind": "preset",
        "name": name,
        "summary": preset.summary,
        "package": str(catalog.presets[name][1]),
        "default": preset.default,
        "use": f"crvnn assemble --preset {name}",
        "model": dict(preset.model),
        "text": tomli_w.dumps({"model": dict(preset.model)}),
    }


def _spec(catalog: Catalog, name: str) -> dict[str, Any]:
    spec, source = _offered("spec", name, catalog.specs)
    return {
        "kind": "spec",
        "name": name,
        "summary": spec.summary,
        "package": str(source),
        "path": spec.path,
        "data": spec.data,
        "duration": spec.duration,
        "use": f"crvnn train {name}",
        "text": Path(spec.path).read_text(encoding="utf-8"),
    }


def _model(catalog: Catalog, name: str) -> dict[str, Any]:
    model, source = _offered("model", name, catalog.models)
    home = Path(model.path)
    card, results, spec = home / "MODEL.md", home / "results.json", home / "spec.toml"
    return {
        "kind": "model",
        "name": name,
        "summary": model.summary,
        "package": str(source),
        "path": model.path,
        "use": f"crvnn predict {name} TEXT",
        "spec": tomllib.loads(spec.read_text(encoding="utf-8")) if spec.exists() else None,
        "results": json.loads(results.read_text(encoding="utf-8")) if results.exists() else None,
        "text": card.read_text(encoding="utf-8") if card.exists() else "It has no MODEL.md.",
    }


_KINDS = {"preset": _preset, "spec": _spec, "model": _model}


def _offered(what: str, name: str, known: Mapping[str, tuple[_R, Source]]) -> tuple[_R, Source]:
    from crvnn_core.errors import UnknownNameError, nearest

    if name not in known:
        raise UnknownNameError(
            f"no {what} is called '{name}'.{nearest(name, known)}\n'crvnn list {what}s' shows what is installed."
        )
    return known[name]


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
