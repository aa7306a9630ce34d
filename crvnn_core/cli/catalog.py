"""``crvnn list``: what is installed, in tables and one by one."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.session import (
    IN_SLOT,
    PATH,
    Session,
    SlotName,
    json_option,
    pass_session,
    print_json,
    print_table,
)
from crvnn_core.documents import read_toml
from crvnn_core.errors import CrvnnError, UnknownNameError, nearest
from crvnn_core.host.catalog import KINDS
from crvnn_core.host.slots import SLOTS

if TYPE_CHECKING:
    from crvnn_core.host.catalog import Catalog


@click.command("list")
@click.argument("slot", metavar="[WHAT]", type=SlotName(more=KINDS), required=False)
@click.argument("name", type=IN_SLOT, required=False)
@click.option(
    "--copy",
    type=PATH,
    metavar="DIR",
    help="Copy the spec NAME to DIR, with the files it needs, to change it.",
)
@json_option
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
    if copy is not None and (slot != "spec" or name is None):
        raise click.UsageError("--copy is for a spec: crvnn list spec NAME --copy DIR.")
    if slot is None or name is None:
        _list(session.catalog, slot, as_json)
        return
    facts = _record(session.catalog, slot, name) if slot in KINDS else _component(session.catalog, slot, name)
    if copy is not None:
        facts["copied"] = [str(path) for path in _copy_spec(Path(facts["path"]), copy)]
    if as_json:
        print_json(facts)
    elif copy is not None:
        click.echo("\n".join(f"wrote {path}" for path in facts["copied"]))
    elif slot in KINDS:
        _show_record(facts)
    else:
        _show_component(facts)


def _list(catalog: Catalog, slot: str | None, as_json: bool) -> None:
    """A table of one kind or of all; specs by themselves have their data and duration too."""
    keys = ["name", "summary", *(["data", "duration", "path"] if slot == "spec" else [])]
    kinds = (*SLOTS, *KINDS) if slot is None else (slot,)
    rows: list[dict[str, str]] = [
        {"slot": kind, **{key: getattr(record, key) for key in keys}, "package": str(source)}
        for kind in kinds
        for record, source in catalog.records(kind).values()
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


def _record(catalog: Catalog, kind: str, name: str) -> dict[str, Any]:
    """What there is to say of a preset, a spec or a model."""
    known = catalog.records(kind)
    if name not in known:
        raise UnknownNameError(
            f"no {kind} is called '{name}'.{nearest(name, known)}\n'crvnn list {kind}s' shows what is installed."
        )
    record, source = known[name]
    facts = {"kind": kind, "name": name, "summary": record.summary, "package": str(source)}
    if kind == "preset":
        import tomli_w

        tables = dict(record.model)
        more = {"default": record.default, "model": tables, "text": tomli_w.dumps({"model": tables})}
        return {**facts, "use": f"crvnn assemble --preset {name}", **more}
    facts["path"] = record.path
    if kind == "spec":
        text = Path(record.path).read_text(encoding="utf-8")
        more = {"data": record.data, "duration": record.duration, "text": text}
        return {**facts, "use": f"crvnn train {name}", **more}
    home = Path(record.path)
    card, results, spec = home / "MODEL.md", home / "results.json", home / "spec.toml"
    return {
        **facts,
        "use": f"crvnn predict {name} TEXT",
        "spec": tomllib.loads(spec.read_text(encoding="utf-8")) if spec.exists() else None,
        "results": json.loads(results.read_text(encoding="utf-8")) if results.exists() else None,
        "text": card.read_text(encoding="utf-8") if card.exists() else "It has no MODEL.md.",
    }


def _copy_spec(path: Path, directory: Path) -> list[Path]:
    """Copy a spec file to a directory, and the files beside it that it names; no existing file is overwritten."""
    names = {text for text in _texts(read_toml(path)) if text and (path.parent / text).is_file()}
    copies = {path: directory / path.name} | {path.parent / name: directory / name for name in sorted(names)}
    for copy in copies.values():
        if copy.exists():
            raise CrvnnError(f"{copy} exists already; choose another directory for --copy")
    for source, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    return list(copies.values())


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


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
