"""The hooks of the host. Each returns records; none registers anything by being imported.

Hooks are called once for a command, and never inside the recursion. No two plug-ins may offer the same name in a hook.
The contract of a slot's components is ``crvnn_core.testing.CHECKS["cell"]`` and so on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from crvnn_core.host.component import Component, LazyCommand, NamedSpec, Preset, RunSource, TrainedModel
    from crvnn_core.kernels import Library

PROJECT = "crvnn"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def crvnn_retrievers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer retrievers: modules that find each position's soft left and right neighbours.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Retriever``.
    """


@hookspec
def crvnn_scorers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer scorers: modules that score each position for composition with its right neighbour.

    :return: components whose ``build(width=..., **params)`` gives a ``crvnn_core.Scorer``.
    """


@hookspec
def crvnn_decisions() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer decisions: relaxations that turn scores into composition probabilities.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Decision``.
    """


@hookspec
def crvnn_cells() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer cells: modules that compose two children into their parent.

    :return: components whose ``build(width=..., **params)`` gives a ``crvnn_core.Cell``.
    """


@hookspec
def crvnn_haltings() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer haltings: modules that decide after each step which sequences take another one.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Halting``.
    """


@hookspec
def crvnn_encoders() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer encoders: modules that turn an embedded sequence into one vector.

    An encoder whose ``build`` has a parameter named ``retriever``, ``scorer``, ``decision``, ``cell`` or
    ``halting`` is given the module that the spec names for that slot.

    :return: components whose ``build(width=..., **params)`` gives a ``crvnn_core.Encoder``.
    """


@hookspec
def crvnn_embeddings() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer embeddings: tables of initial token vectors, random or pretrained.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Embedding``.
    """


@hookspec
def crvnn_tasks() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer tasks: datasets of labelled sequences, with their vocabulary, classes and splits.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Task``.
    """


@hookspec
def crvnn_objectives() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer objectives: what computes the loss of a batch, from its labels alone or along trees.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Objective``; one that takes ``task`` is given
        the run's task.
    """


@hookspec
def crvnn_optimizers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer optimizers.

    :return: components whose ``build(params, **settings)`` gives a ``torch.optim.Optimizer``.
    """


@hookspec
def crvnn_observers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer observers: objects with callbacks for training steps, evaluations and messages.

    Those that the spec names are built by ``assemble``.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Observer``.
    """


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
