"""The command line. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
import warnings
from typing import Any

import click

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

_COMMANDS = {
    command.name: command
    for command in (
        LazyCommand(
            "assemble",
            "crvnn_core.cli.assemble:assemble_command",
            summary="Build the model of a spec, try it, and show what it costs.",
        ),
        LazyCommand(
            "check", "crvnn_core.cli.check:check_command", summary="Run the contract of a component."
        ),
        LazyCommand(
            "compare",
            "crvnn_core.cli.compare:compare_command",
            summary="Compare the results of runs, with tests of significance.",
        ),
        LazyCommand(
            "completion",
            "crvnn_core.cli.installation.completion:completion_command",
            summary="Print what lets a shell complete commands and names.",
        ),
        LazyCommand(
            "describe",
            "crvnn_core.cli.catalog:describe_command",
            summary="Describe a component, preset, spec or trained model.",
        ),
        LazyCommand(
            "doctor",
            "crvnn_core.cli.installation.doctor:doctor_command",
            summary="Check the installation, and say what to do.",
        ),
        LazyCommand(
            "eval",
            "crvnn_core.cli.evaluation:eval_command",
            summary="Measure the accuracy of a model on a split or a file.",
        ),
        LazyCommand(
            "list",
            "crvnn_core.cli.catalog:list_command",
            summary="List the installed components, presets, specs and models.",
        ),
        LazyCommand(
            "native",
            "crvnn_core.cli.installation.native:native_command",
            summary="Say whether compiled kernels are in use, or build them.",
        ),
        LazyCommand(
            "new",
            "crvnn_core.cli.new:new_command",
            summary="Create a package with a component to start from.",
        ),
        LazyCommand(
            "parse",
            "crvnn_core.cli.parse:parse_command",
            summary="Show the tree along which a model composes a text.",
        ),
        LazyCommand(
            "predict",
            "crvnn_core.cli.predict:predict_command",
            summary="Ask a model for labels, probabilities and trees.",
        ),
        LazyCommand(
            "specs",
            "crvnn_core.cli.catalog:specs_command",
            summary="List the specs that can be trained by name.",
        ),
        LazyCommand(
            "train",
            "crvnn_core.cli.train:train_command",
            summary="Train what a spec describes, into a run directory.",
        ),
        LazyCommand(
            "trees",
            "crvnn_core.cli.trees:trees_command",
            summary="Score the trees of a model against gold trees.",
        ),
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
        """List the commands with their summaries, without importing those that can be imported later."""
        found = {**_COMMANDS, **ctx.ensure_object(Session).commands(_COMMANDS)}
        shown = [name for name in sorted(found) if not getattr(found[name], "hidden", False)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(found[name])) for name in shown])

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


def summary(command: click.Command | LazyCommand) -> str:
    """One line about a command."""
    return command.summary if isinstance(command, LazyCommand) else command.get_short_help_str(limit=80)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any
) -> None:
    """Print a warning of ours as one message, and any other as Python does."""
    text = f"crvnn: warning: {message}\n" if issubclass(category, CrvnnWarning) else None
    click.echo(text or warnings.formatwarning(message, category, filename, lineno), err=True, nl=False)


_HELP = f"""Recursive networks with soft trees, from swappable parts.

A SLOT is the kind of a component: {", ".join(SLOTS[:-1])} or {SLOTS[-1]}.

\b
Examples:
  crvnn demo                                   train a small model and ask it
  crvnn list                                   see every installed component
  crvnn specs                                  see what is ready to be trained
  crvnn train listops-laptop                   train a variant and keep it
  crvnn predict listops "[MAX 2 9 4 ]"         ask a trained one
  crvnn assemble --cell lstm --decision sigmoid
  crvnn --plugin my_cell.py check cell my-cell
"""


@click.group(cls=CrvnnGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@plugin_option
@click.version_option(package_name="crvnn")
def main() -> None:
    """The command ``crvnn``."""
