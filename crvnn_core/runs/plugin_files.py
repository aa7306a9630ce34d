"""Copies of the plug-in files that a run was trained with. They are never run unless the user names them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from crvnn_core.errors import MissingPluginError, SpecError, UnknownNameError
from crvnn_core.files import write_atomically
from crvnn_core.host.catalog import Catalog
from crvnn_core.runs.directory import RunDirectory


def keep_plugin_files(run: RunDirectory, files: Iterable[Path]) -> None:
    """Copy plug-in files into a run directory, under their own names where these differ."""
    for path in files:
        target, number = run.plugins / path.name, 1
        while target.exists():
            number += 1
            target = run.plugins / f"{path.stem}_{number}{path.suffix}"
        write_atomically(target, path.read_text(encoding="utf-8"))


def kept_plugin_files(run: RunDirectory) -> list[Path]:
    """The copies of plug-in files in a run directory."""
    return sorted(run.plugins.glob("*.py"))


def plugin_options(files: Iterable[Path]) -> str:
    """The options of the command line that load plug-in files."""
    return " ".join(f"--plugin {shlex.quote(str(path))}" for path in files)


@contextlib.contextmanager
def naming_missing_files(run: RunDirectory, catalog: Catalog) -> Iterator[None]:
    """Within this context a name that nothing has is an error that names the run's plug-in files, if none is loaded.

    Files with the same content count as loaded, wherever they are.
    """
    try:
        yield
    except (SpecError, UnknownNameError) as error:
        loaded = {path.read_bytes() for path in catalog.files if path.is_file()}
        files = [path for path in kept_plugin_files(run) if path.read_bytes() not in loaded]
        if not files:
            raise
        several = len(files) > 1
        raise MissingPluginError(
            f"{run.path} was trained with {'plug-in files that are' if several else 'a plug-in file that is'} not "
            f"loaded. The run keeps {'copies' if several else 'a copy'}, and crvnn runs no code that comes with a run "
            f"unless you say so: look at {'them' if several else 'it'}",
            plugin_options(files),
            str(error),
            files,
        ) from None
