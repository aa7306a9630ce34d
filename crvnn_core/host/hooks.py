"""The hooks of the host. Each returns records; none registers anything by being imported.

Hooks are called once for a command, and never inside the recursion. No two plug-ins may offer the same name in a hook.
The contract of a slot's components is ``crvnn_core.testing.CHECKS["cell"]`` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pluggy

from crvnn_core.host.slots import SLOT_BY_NAME, Slot

if TYPE_CHECKING:
    import click

    from crvnn_core.host.component import Component, LazyCommand, NamedSpec, Preset, RunSource, TrainedModel
    from crvnn_core.kernels import Library

PROJECT = "crvnn"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


def _offering(slot: Slot) -> Callable[[], Iterable[Component]]:
    """The hook for the components of a slot: ``crvnn_cells``, ``crvnn_tasks`` and so on."""

    def hook() -> Iterable[Component]:  # type: ignore[empty-body]
        pass

    module, _, name = slot.interface.partition(":")
    kind = f"crvnn_core.{name}" if module.startswith("crvnn_core.") else f"{module}.{name}"
    names = ", ".join(f"``{name}``" for name in slot.filled_in)
    given = f"; parameters of these names are filled in: {names}" if names else ""
    hook.__name__ = slot.hook
    one = f"{'An' if slot.name[0] in 'aeiou' else 'A'} {slot.name}"
    hook.__doc__ = f"""Offer {slot.plural}. {one} {slot.help[0].lower()}{slot.help[1:]}

    :return: components whose ``build`` gives a ``{kind}``{given}.
    """
    return hookspec(hook)


globals().update({slot.hook: _offering(slot) for slot in SLOT_BY_NAME.values()})


@hookspec
def crvnn_models() -> Iterable[TrainedModel]:  # type: ignore[empty-body]
    """Offer trained models: run directories that come with a package, used by name (``crvnn predict listops ...``).

    :return: ``crvnn_core.TrainedModel`` records with the path of a run directory.
    """


@hookspec
def crvnn_specs() -> Iterable[NamedSpec]:  # type: ignore[empty-body]
    """Offer specs: TOML files that come with a package, used by name (``crvnn train listops-soft``).

    :return: ``crvnn_core.NamedSpec`` records with the path of a spec file.
    """


@hookspec
def crvnn_run_sources() -> Iterable[RunSource]:  # type: ignore[empty-body]
    """Offer places that runs are fetched from, by the scheme of an address (``crvnn predict hf:owner/name ...``).

    ``http:``, ``https:`` and zip files need no plug-in.

    :return: ``crvnn_core.RunSource`` records, whose ``fetch`` takes an address and returns a run directory.
    """


@hookspec
def crvnn_presets() -> Iterable[Preset]:  # type: ignore[empty-body]
    """Offer presets: named variants that set several slots at once.

    :return: presets; a spec chooses one with ``preset = "name"``.
    """


@hookspec
def crvnn_kernels() -> Iterable[Library]:  # type: ignore[empty-body]
    """Offer libraries of compiled back ends, for ``crvnn doctor`` to build.

    Called by ``crvnn doctor``; a library that is built serves whether or not it is offered.

    :return: ``crvnn_core.kernels.Library`` records.
    """


@hookspec
def crvnn_commands() -> Iterable[click.Command | LazyCommand]:  # type: ignore[empty-body]
    """Offer commands for the ``crvnn`` command line.

    Called by ``crvnn --help`` and for every command that is not the core's, so import heavy modules inside the command.

    :return: click commands, or ``crvnn_core.LazyCommand`` records, whose modules are imported when they are called;
        a name that another command has is an error.
    """
