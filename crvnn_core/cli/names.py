"""Names that the shell can complete: of components, presets, runs and specs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from crvnn_core.cli.session import Session
from crvnn_core.errors import UnknownNameError, nearest
from crvnn_core.host.slots import SLOT_BY_NAME


class Name(click.types.StringParamType):
    """The name of something that plug-ins offer.

    :param kind: of it, a slot or one of ``KINDS``; without one it is what the command's argument ``slot`` says.
    :param path: "dir" or "file" where a path would do as well.
    """

    def __init__(self, kind: str = "", path: str | None = None) -> None:
        self.name, self.kind, self.path = kind or "name", kind, path

    def offered(self, ctx: click.Context) -> Iterable[tuple[str, str]]:
        """Every name, and what it is."""
        records = ctx.ensure_object(Session).catalog.records(self.kind or str(ctx.params.get("slot")))
        return [(name, record.summary) for name, (record, _) in records.items()]

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so. Nothing may go wrong here: a shell would print it into the user's line."""
        items = [CompletionItem(incomplete, type=self.path)] if self.path else []
        try:
            offered = self.offered(ctx)
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


class SlotName(Name):
    """The name of a slot, singular or plural.

    :param more: names that will do as well.
    """

    def __init__(self, more: tuple[str, ...] = ()) -> None:
        super().__init__("slot")
        self.more = more

    def offered(self, ctx: click.Context) -> Iterable[tuple[str, str]]:
        """Every slot, and what it is; in the plural where it is one word among others."""
        slots = [(slot.plural if self.more else slot.name, slot.help) for slot in SLOT_BY_NAME.values()]
        return slots + [(f"{name}s", "") for name in self.more]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name in the singular; an error that lists the slots for anything else."""
        known = (*SLOT_BY_NAME, *self.more)
        for name in known:
            if value.lower() in (name, f"{name}s"):
                return name
        catalog = (ctx or click.get_current_context()).ensure_object(Session).catalog
        kinds = [kind for kind in known if value in catalog.records(kind)] if self.more else []
        if kinds:
            ways = ", ".join(f"'crvnn list {kind} {value}'" for kind in kinds)
            raise UnknownNameError(f"'{value}' is no slot, but a {' and a '.join(kinds)}: {ways}")
        raise UnknownNameError(
            f"no slot is called '{value}'.{nearest(value, known)}\nSlots: {', '.join(known)}."
        )


RUN = Name("model", path="dir")
SPEC = SpecOrPath("spec", path="file")
IN_SLOT = Name()
slot_argument = click.argument("slot", type=SlotName())
