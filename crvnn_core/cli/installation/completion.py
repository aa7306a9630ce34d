"""``crvnn completion``: commands, options and names completed by the shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from crvnn_core.errors import CrvnnError

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(_SHELLS))
def completion_command(shell: str | None) -> None:
    """Print what lets a SHELL complete commands, options, and the names of components, runs, specs and presets.

    Without SHELL, it is the one that $SHELL names. Let the shell read it when it starts:
    'eval "$(crvnn completion bash)"' in ~/.bashrc, the same with zsh in ~/.zshrc, and the second example in
    ~/.config/fish/config.fish.

    \b
    Examples:
      crvnn completion bash
      crvnn completion fish | source
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    maker = get_completion_class(name) if name in _SHELLS else None
    if maker is None:
        raise CrvnnError(
            f"cannot tell the shell from $SHELL ({name or 'not set'}); say which: crvnn completion {'|'.join(_SHELLS)}"
        )
    root = click.get_current_context().find_root().command
    click.echo(maker(root, {}, "crvnn", "_CRVNN_COMPLETE").source())
