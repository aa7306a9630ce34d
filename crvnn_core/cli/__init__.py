"""The command line. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.shell_completion import get_completion_class

from crvnn_core.cli.session import Session, plugin_option
from crvnn_core.display.tables import CONTROL
from crvnn_core.errors import (
    FAILURES,
    CrvnnError,
    CrvnnWarning,
    LostProcessError,
    MissingPluginError,
    PluginError,
    nearest,
)
from crvnn_core.host.component import LazyCommand
from crvnn_core.host.slots import SLOTS
from crvnn_core.signals import TerminatedError, raising_on_sigterm

#: The headings of the help, in their order; plug-ins may name others for their commands.
GROUPS = ("Compose", "Train", "Look", "Share and measure")
_OTHERS = "Others"  # commands of plug-ins that name no group
_COMMANDS = {
    name: LazyCommand(name, f"crvnn_core.cli.{module}:{name}_command", summary=summary, group=group)
    for group, name, module, summary in (
        ("Compose", "list", "catalog", "List what is installed, or describe one thing."),
        ("Compose", "assemble", "assemble", "Build the model of a spec, try it, and show what it costs."),
        ("Compose", "new", "check", "Create a package with a component to start from."),
        ("Compose", "check", "check", "Run the contract of a component."),
        ("Train", "train", "train", "Train what a spec describes, into a run directory."),
        ("Train", "eval", "evaluation", "Measure the accuracy of a model on a split or a file."),
        ("Look", "predict", "predict", "Predict labels, probabilities and trees of texts."),
        ("Look", "trees", "trees", "Score the trees of a model against gold trees."),
        ("Look", "compare", "compare", "Compare the results of runs, with tests of significance."),
        ("Share and measure", "doctor", "doctor", "Check the installation, and compile the kernels."),
    )
}


class CrvnnGroup(click.Group):
    """The commands of the core and of plug-ins; a ``CrvnnError`` is printed as one message, with exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*_COMMANDS, *ctx.ensure_object(Session).commands(_COMMANDS)])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _COMMANDS:
            return _COMMANDS[name].load()
        return ctx.ensure_object(Session).command(name, _COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in groups, with their summaries, without importing those that can be imported later."""
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        found = {**_COMMANDS, **dict(sorted(ctx.ensure_object(Session).commands(_COMMANDS).items()))}
        for name, command in found.items():
            if isinstance(command, LazyCommand):
                groups.setdefault(command.group or _OTHERS, []).append((name, command.summary))
            elif not command.hidden:
                groups.setdefault(_OTHERS, []).append((name, command.get_short_help_str(limit=80)))
        width = max(map(len, found))
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command '{args[0]}'.{nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        for name in ("stdin", "stdout", "stderr"):
            if getattr(sys, name) is None:  # closed, as by '>&-'
                setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
        given = list(args)
        with _telling_errors():  # --help asks plug-ins for their commands
            ctx = super().make_context(info_name, args, *more, **extra)
        ctx.meta[_GIVEN] = given
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        with _telling_errors(ctx):
            return super().invoke(ctx)


_GIVEN = "crvnn.arguments"  # key of the arguments of the command line


@contextlib.contextmanager
def _telling_errors(ctx: click.Context | None = None) -> Iterator[None]:
    """Within this context errors, warnings, Ctrl-C and SIGTERM become one message; what is a bug is raised.

    Commands with more to say about signals handle them themselves. A SIGTERM that is handled or ignored already stays
    so.
    """
    try:
        with warnings.catch_warnings(), raising_on_sigterm():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            yield
    except TerminatedError:
        click.echo("crvnn: ended by SIGTERM", err=True)
        sys.exit(128 + signal.SIGTERM)
    except KeyboardInterrupt:
        click.echo("\ncrvnn: interrupted", err=True)
        sys.exit(128 + signal.SIGINT)
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except FAILURES as error:
        found: BaseException = error
        fault = None if ctx is None or isinstance(error, CrvnnError) else ctx.ensure_object(Session).fault
        if fault is not None and (named := fault(error)) is not None:
            found, named.__cause__ = named, error
        message = _message(found, ctx.meta[_GIVEN] if ctx is not None else [])
        if message is None:
            raise
        if os.environ.get("CRVNN_TRACEBACK"):
            traceback.print_exception(found)
        else:  # what it quotes of a file may have control characters
            click.echo(f"crvnn: {message}".translate(CONTROL), err=True)
        if isinstance(error, LostProcessError):
            # torch takes long to end when a process is lost: 22 s on busy cores, in which nothing more is done.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(2)
        sys.exit(2)


def _message(error: BaseException, given: Sequence[str]) -> str | None:
    """What to tell of an error; ``None`` of a bug.

    :param given: the arguments of the command line.
    """
    hint = "(CRVNN_TRACEBACK=1 shows the whole traceback.)"
    if isinstance(error, MissingPluginError):
        options = [part for path in error.files for part in ("--plugin", str(path))]
        return error.advising(f"run\n  {shlex.join(['crvnn', *options, *given])}")
    if isinstance(error, PluginError) and error.__cause__ is not None:
        return f"{error}\n{hint}"
    if isinstance(error, CrvnnError):
        return str(error)
    if isinstance(error, OSError) and error.errno not in (None, errno.EPIPE):
        # A path that is too long, a disk that is full: the world's fault, not a bug. Click knows about pipes.
        name = f"{error.filename!s:.200}: " if error.filename is not None else ""
        return f"{name}{error.strerror}\n{hint}"
    return None


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any
) -> None:
    """Print a warning of ours as one message, and any other as Python does."""
    text = f"crvnn: warning: {message}\n" if issubclass(category, CrvnnWarning) else None
    click.echo(text or warnings.formatwarning(message, category, filename, lineno), err=True, nl=False)


def _print_completion(ctx: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    maker = get_completion_class(shell) if shell else None
    if maker is not None:
        click.echo(maker(ctx.command, {}, "crvnn", "_CRVNN_COMPLETE").source())
        ctx.exit()


_HELP = f"""Recursive networks with soft trees, from swappable parts.

A SLOT is the kind of a component: {", ".join(SLOTS[:-1])} or {SLOTS[-1]}.

\b
Examples:
  crvnn demo                                   train a small model and try it
  crvnn list                                   see what is installed
  crvnn list specs                             see what is ready to be trained
  crvnn train listops-soft                     train a variant and keep it
  crvnn predict listops "[MAX 2 9 4 ]"         use a trained one
  crvnn assemble --cell lstm --decision sigmoid
  crvnn --plugin my_cell.py check cell my-cell
"""


@click.group(cls=CrvnnGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@plugin_option
@click.option(
    "--completion",
    type=click.Choice(("bash", "zsh", "fish")),
    expose_value=False,
    is_eager=True,
    callback=_print_completion,
    help="Print what lets the shell complete commands and names, for its startup file.",
)
@click.version_option(package_name="crvnn")
def main() -> None:
    """The command ``crvnn``."""
