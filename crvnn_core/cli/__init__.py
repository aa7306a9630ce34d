"""The command line. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
import warnings
from typing import Any

import click
from click.shell_completion import get_completion_class

from crvnn_core.cli.session import Session, ending_in_order, plugin_option
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

#: The headings of the help, in their order; plug-ins may name others for their commands.
GROUPS = ("Compose", "Train", "Look", "Share and measure")
_OTHERS = "Others"  # commands of plug-ins that name no group
_COMMANDS = {
    name: LazyCommand(name, f"crvnn_core.cli.{module}:{name}_command", summary=summary, group=group)
    for group, name, module, summary in (
        ("Compose", "list", "catalog", "List what is installed, or describe one thing."),
        ("Compose", "assemble", "assemble", "Build the model of a spec, try it, and show what it costs."),
        ("Compose", "new", "new", "Create a package with a component to start from."),
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

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with ending_in_order():  # --help asks plug-ins for their commands
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with ending_in_order():
            try:
                return super().invoke(ctx)
            except (CrvnnError, click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except FAILURES as error:
                if found := ctx.ensure_object(Session).fault(error):
                    raise found from error
                raise

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for name in ("stdin", "stdout", "stderr"):
            if getattr(sys, name) is None:  # closed, as by '>&-'
                setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                return super().main(*args, **kwargs)
        except CrvnnError as error:
            if os.environ.get("CRVNN_TRACEBACK"):
                traceback.print_exc()
            elif isinstance(error, MissingPluginError):
                given = kwargs.get("args") or (args[0] if args else None) or sys.argv[1:]
                options = [part for path in error.files for part in ("--plugin", str(path))]
                _complain(error.advising(f"run\n  {shlex.join(['crvnn', *options, *given])}"))
            elif isinstance(error, PluginError) and error.__cause__ is not None:
                _complain(f"{error}\n(CRVNN_TRACEBACK=1 shows the whole traceback.)")
            else:
                _complain(str(error))
            if isinstance(error, LostProcessError):
                # torch takes long to end when a process is lost: 22 s on busy cores, in which nothing more is done.
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(2)
            sys.exit(2)
        except OSError as error:  # a path that is too long, a disk that is full: the world's fault, not a bug
            if os.environ.get("CRVNN_TRACEBACK") or not error.errno:
                raise
            name = f"{error.filename!s:.200}: " if error.filename is not None else ""
            hint = "(CRVNN_TRACEBACK=1 shows the whole traceback.)"
            _complain(f"{name}{error.strerror}\n{hint}")
            sys.exit(2)


def _complain(message: str) -> None:
    """Print an error; what it quotes of a file may have control characters."""
    click.echo(f"crvnn: {message}".translate(CONTROL), err=True)


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
  crvnn train listops-laptop                   train a variant and keep it
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
