"""Copies of the plug-in files that a run was trained with. They are never run unless the user names them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from crvnn_core.errors import CrvnnError, MissingPluginError, SpecError, UnknownNameError
from crvnn_core.files import write_atomically
from crvnn_core.host.attribution import IN_MEMORY
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

    Files with the same content count as loaded, wherever they are. Of a run without such files it is an error that
    names the plug-ins that were objects of the program which trained it.
    """
    try:
        yield
    except (SpecError, UnknownNameError) as error:
        known = {offer.source.recorded for offers in catalog.components.values() for offer in offers.values()}
        loaded = {path.read_bytes() for path in catalog.files if path.is_file()}
        files = [path for path in kept_plugin_files(run) if path.read_bytes() not in loaded]
        given = [name for name in _defined_in_memory(run) if name not in known]
        if not files and not given:
            raise
        if not files:
            names = ", ".join(name.removesuffix(IN_MEMORY) for name in given)
            raise UnknownNameError(
                f"{error}\n{run.path} was trained with parts that were defined in memory, by the program that trained "
                f"it ({names}); a run keeps no code of theirs. Load it where they are defined, with the same plug-in: "
                f"crvnn.load({str(run.path)!r}, crvnn.catalog(PLUGIN)). For the command line put it into a file: "
                "crvnn --plugin FILE ..."
            ) from None
        several = len(files) > 1
        raise MissingPluginError(
            f"{run.path} was trained with {'plug-in files that are' if several else 'a plug-in file that is'} not "
            f"loaded. The run keeps {'copies' if several else 'a copy'}, and crvnn runs no code that comes with a run "
            f"unless you say so: look at {'them' if several else 'it'}",
            plugin_options(files),
            str(error),
            files,
        ) from None


def _defined_in_memory(run: RunDirectory) -> list[str]:
    """The plug-ins that the program defined which trained a run, as its environment records them."""
    try:
        found = run.read_json(run.environment).get("components", [])
    except CrvnnError:  # only a record, without which the run can be loaded
        return []
    return [name for name in found if isinstance(name, str) and name.endswith(IN_MEMORY)]
