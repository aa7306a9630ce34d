"""Names that the shell can complete: of components, presets, runs and specs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from crvnn_core.cli.session import F, Session
from crvnn_core.host.slots import SLOT_BY_NAME, unknown_slot

if TYPE_CHECKING:
    from crvnn_core.host.catalog import Catalog

Named = Iterable[tuple[str, str]]  # a name, and what it is


class Name(click.types.StringParamType):
    """A name that plug-ins offer; where a path would do as well, ``path`` is "dir" or "file"."""

    def __init__(
        self, name: str, offered: Callable[[Catalog, click.Context], Named], path: str | None = None
    ) -> None:
        self.name, self.offered, self.path = name, offered, path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so. Nothing may go wrong here: a shell would print it into the user's line."""
        items = [CompletionItem(incomplete, type=self.path)] if self.path else []
        try:
            offered = list(self.offered(ctx.ensure_object(Session).catalog, ctx))
        except Exception:
            return items
        return items + [
            CompletionItem(name, help=text) for name, text in offered if name.startswith(incomplete)
        ]


class SpecOrPath(Name):
    """The name of a spec, or the path of one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Both as a path, as readers of specs expect."""
        return Path(value)


def component(slot: str) -> Name:
    """The name of a component of a slot."""
    return Name(slot, lambda catalog, ctx: _components(catalog, slot))


def _components(catalog: Catalog, slot: str) -> Named:
    return [(name, offer.component.summary) for name, offer in catalog.components[slot].items()]


def _presets(catalog: Catalog, *_: Any) -> Named:
    return [(name, preset.summary) for name, (preset, _) in catalog.presets.items()]


def _models(catalog: Catalog, *_: Any) -> Named:
    return [(name, model.summary) for name, (model, _) in catalog.models.items()]


def _specs(catalog: Catalog, *_: Any) -> Named:
    return [(name, spec.summary) for name, (spec, _) in catalog.specs.items()]


_OTHERS = {"preset": _presets, "spec": _specs, "model": _models}
#: What can be listed and described besides the components of a slot.
KINDS = tuple(_OTHERS)


def _of_slot(catalog: Catalog, ctx: click.Context) -> Named:
    kind = str(ctx.params.get("slot"))
    return _OTHERS[kind](catalog) if kind in _OTHERS else _components(catalog, kind)


def _slots(*_: Any) -> Named:
    return [(slot.name, slot.help) for slot in SLOT_BY_NAME.values()]


def _plurals(*_: Any) -> Named:
    return [(slot.plural, slot.help) for slot in SLOT_BY_NAME.values()] + [(f"{kind}s", "") for kind in KINDS]


PRESET = Name("preset", _presets)
RUN = Name("run", _models, path="dir")
SPEC = SpecOrPath("spec", _specs, path="file")
SLOT = Name("slot", _slots)
SLOT_OR_KIND = Name("slot", _plurals)
IN_SLOT = Name("name", _of_slot)


def slot_argument(command: F) -> F:
    """The argument SLOT, singular or plural."""
    return click.argument("slot", type=SLOT, callback=lambda ctx, parameter, value: as_slot(value))(command)


def as_slot(text: str | None, *more: str) -> str | None:
    """``cells`` or ``cell`` as ``cell``; an error that lists the slots, and the ``more`` names, for anything else."""
    if text is None:
        return None
    plurals = {slot.name: slot.plural for slot in SLOT_BY_NAME.values()} | {name: f"{name}s" for name in more}
    for name, plural in plurals.items():
        if text.lower() in (name, plural):
            return name
    raise unknown_slot(text, tuple(plurals))
