"""What commands share: plug-ins, catalog, names that the shell completes, options, and the printing of results."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from crvnn_core.display.progress import counting as counting  # for commands
from crvnn_core.display.tables import print_table as print_table  # for commands
from crvnn_core.errors import UnknownNameError, nearest
from crvnn_core.host.slots import SLOT_BY_NAME

if TYPE_CHECKING:
    from crvnn_core.errors import PluginError
    from crvnn_core.host.catalog import Catalog
    from crvnn_core.host.component import LazyCommand
    from crvnn_core.host.manager import Host, Source
    from crvnn_core.inference.trained import Trained
    from crvnn_core.interfaces import Example

P = ParamSpec("P")
R = TypeVar("R")
#: Types of options.
PATH, FILE = click.Path(path_type=Path), click.Path(path_type=Path, dir_okay=False)


class Session:
    """The plug-ins of one call of the command line, loaded when they are first needed."""

    def __init__(self) -> None:
        self.files: list[Path] = []
        self._commands: dict[str, tuple[click.Command | LazyCommand, Source]] | None = None

    @cached_property
    def host(self) -> Host:
        """The plug-in manager."""
        from crvnn_core.host.manager import create_plugin_manager

        return create_plugin_manager(files=self.files)

    @cached_property
    def catalog(self) -> Catalog:
        """Everything that the plug-ins offer."""
        from crvnn_core.host.catalog import read_catalog

        return read_catalog(self.host)

    def load(self, run: str, sets: Sequence[str] = ()) -> Trained:
        """The trained model of a run; of a directory with several seeds the best, which is named on standard error."""
        from crvnn_core.inference.trained import load

        trained = load(run, self.catalog, sets)
        announce_seed(run, trained)
        return trained

    def fault(self, error: BaseException) -> PluginError | None:
        """The error that names the component of a plug-in which raised ``error``, if one did."""
        from crvnn_core.host.faults import fault

        return fault(error, self.catalog) if "catalog" in self.__dict__ else None

    def commands(self, taken: Iterable[str]) -> dict[str, click.Command | LazyCommand]:
        """The commands of the plug-ins, which are asked once."""
        from crvnn_core.host.catalog import read_commands

        if self._commands is None:
            self._commands = read_commands(self.host, taken)
        return {name: command for name, (command, _) in self._commands.items()}

    def command(self, name: str, taken: Iterable[str]) -> click.Command | None:
        """The command of a plug-in, imported; nothing if no plug-in has one of this name."""
        from crvnn_core.host.manager import naming

        if name not in self.commands(taken) or self._commands is None:
            return None
        command, source = self._commands[name]
        if isinstance(command, click.Command):
            return command
        with naming(f"the import of the command '{name}' of {source.title}", source):
            return command.load()

    def add(self, files: Iterable[Path]) -> None:
        """Load plug-ins from files as well."""
        new = [path for path in files if path not in self.files]
        if new:
            self.files += new
            self._commands = None
            self.__dict__.pop("host", None)
            self.__dict__.pop("catalog", None)


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


def announce_seed(run: str, trained: Trained) -> None:
    """Name on standard error the seed that was loaded from a directory with several."""
    from crvnn_core.runs.seeds import announcement

    if text := announcement(run, trained.directory):
        click.echo(f"crvnn: {text}", err=True)


def _add_files(ctx: click.Context, parameter: click.Parameter, value: tuple[Path, ...]) -> None:
    ctx.ensure_object(Session).add(value)


#: ``--plugin FILE``, before or after the command's name.
plugin_option = click.option(
    "--plugin",
    type=PATH,
    multiple=True,
    metavar="FILE",
    expose_value=False,
    is_eager=True,
    callback=_add_files,
    help="Load a plug-in from a Python file as well. May be repeated.",
)
#: ``--set KEY=VALUE``, where the key is that of a spec.
set_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a value of the spec, as model.cell.hidden=256. May be repeated.",
)
hard_option = click.option(
    "--hard",
    is_flag=True,
    help="Hard inference: binary decisions, n - 1 compositions of n tokens along one tree.",
)

extraction_option = click.option(
    "--extraction",
    type=click.Choice(("cumulative", "existence")),
    default="cumulative",
    show_default=True,
    help="A position is composed once one half is reached by the sum of c over the steps so far, as in the paper, or "
    "by 1 - e.",
)

data_option = click.option(
    "--data", type=PATH, metavar="FILE", help="A file of the form that the task reads."
)
split_option = click.option("--split", metavar="NAME", help="A split of the task; by default its last one.")
_pass = click.make_pass_decorator(Session, ensure=True)


def pass_session(command: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """Pass a command the session as its first argument, and give it ``--plugin``."""
    return plugin_option(_pass(command))


_RESULTS = "crvnn.results"  # key of the stream that the JSON result is printed to


def _keep_stdout_clean(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    """Redirect what plug-ins print to stderr, so that stdout holds nothing but the JSON result."""
    if value:
        ctx.meta[_RESULTS] = sys.stdout
        ctx.with_resource(contextlib.redirect_stdout(sys.stderr))
    return value


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=_keep_stdout_clean,
    help="Print the result as JSON, for machines.",
)


def source_examples(
    trained: Trained, data: Path | None, split: str | None, seed: int = 0
) -> tuple[str, list[Example]]:
    """The examples of ``--data`` or ``--split``, and what they are called; a usage error if both are given."""
    if data is not None and split is not None:
        raise click.UsageError("give --data or --split, not both.")
    if data is not None:
        return str(data), trained.examples(path=data)
    name = split or trained.task.splits[-1]
    return name, trained.examples(name, seed=seed)


def first_names(names: Sequence[str], most: int = 10) -> str:
    """``a, b, c and 3 more``."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def seed_names(run: str, seeds: Iterable[int | None]) -> dict[int | None, str]:
    """What each seed of a run is called in tables; a run without seeds is called by its name."""
    return {seed: run if seed is None else f"{run.rstrip('/')}/seed-{seed}" for seed in seeds}


def print_json(result: object) -> None:
    """Print a result as JSON."""
    text = json.dumps(_without_nan(result), indent=2, allow_nan=False)
    click.echo(text, file=click.get_current_context().meta.get(_RESULTS))


def _without_nan(result: object) -> object:
    """A result with ``None`` for NaN and infinity, which JSON does not have."""
    if isinstance(result, float):
        return result if math.isfinite(result) else None
    if isinstance(result, Mapping):
        return {key: _without_nan(value) for key, value in result.items()}
    return [_without_nan(value) for value in result] if isinstance(result, (list, tuple)) else result
