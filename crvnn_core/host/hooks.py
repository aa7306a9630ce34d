"""The hooks of the host. Each returns records; none registers anything by being imported."""

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

    Called once per command, never inside the recursion.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Retriever``.
        Two plug-ins may not offer the same name.

    Contract: ``crvnn_core.testing.CHECKS["retriever"]``.
    """


@hookspec
def crvnn_scorers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer scorers: modules that score each position for composition with its right neighbour.

    Called once per command, never inside the recursion.

    :return: components whose ``build(width=..., **params)`` gives a ``crvnn_core.Scorer``.

    Contract: ``crvnn_core.testing.CHECKS["scorer"]``.
    """


@hookspec
def crvnn_decisions() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer decisions: relaxations that turn scores into composition probabilities.

    Called once per command, never inside the recursion.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Decision``.

    Contract: ``crvnn_core.testing.CHECKS["decision"]``.
    """


@hookspec
def crvnn_cells() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer cells: modules that compose two children into their parent.

    Called once per command, never inside the recursion.

    :return: components whose ``build(width=..., **params)`` gives a ``crvnn_core.Cell``.

    Contract: ``crvnn_core.testing.CHECKS["cell"]``.
    """


@hookspec
def crvnn_haltings() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer haltings: modules that decide after each step which sequences take another one.

    Called once per command, never inside the recursion.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Halting``.

    Contract: ``crvnn_core.testing.CHECKS["halting"]``.
    """


@hookspec
def crvnn_encoders() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer encoders: modules that turn an embedded sequence into one vector.

    An encoder whose ``build`` has a parameter named ``retriever``, ``scorer``, ``decision``, ``cell`` or
    ``halting`` is given the module that the spec names for that slot.

    :return: components whose ``build(width=..., **params)`` gives a ``crvnn_core.Encoder``.

    Contract: ``crvnn_core.testing.CHECKS["encoder"]``.
    """


@hookspec
def crvnn_embeddings() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer embeddings: tables of initial token vectors, random or pretrained.

    Called once per command.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Embedding``.

    Contract: ``crvnn_core.testing.CHECKS["embedding"]``.
    """


@hookspec
def crvnn_tasks() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer tasks: datasets of labelled sequences, with their vocabulary, classes and splits.

    Called once per command.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Task``.

    Contract: ``crvnn_core.testing.CHECKS["task"]``.
    """


@hookspec
def crvnn_objectives() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer objectives: what computes the loss of a batch, from its labels alone or along trees.

    Called once per command.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Objective``; one that takes ``task`` is given
        the run's task.

    Contract: ``crvnn_core.testing.CHECKS["objective"]``.
    """


@hookspec
def crvnn_optimizers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer optimizers.

    Called once per command.

    :return: components whose ``build(params, **settings)`` gives a ``torch.optim.Optimizer``.

    Contract: ``crvnn_core.testing.CHECKS["optimizer"]``.
    """


@hookspec
def crvnn_observers() -> Iterable[Component]:  # type: ignore[empty-body]
    """Offer observers: objects with callbacks for training steps, evaluations and messages.

    Called once per command; those that the spec names are built by ``assemble``.

    :return: components whose ``build(**params)`` gives a ``crvnn_core.Observer``.

    Contract: ``crvnn_core.testing.CHECKS["observer"]``.
    """


@hookspec
def crvnn_models() -> Iterable[TrainedModel]:  # type: ignore[empty-body]
    """Offer trained models: run directories that come with a package, used by name (``crvnn predict listops ...``).

    Called once per command.

    :return: ``crvnn_core.TrainedModel`` records with the path of a run directory.
        Two plug-ins may not offer the same name.
    """


@hookspec
def crvnn_specs() -> Iterable[NamedSpec]:  # type: ignore[empty-body]
    """Offer specs: TOML files that come with a package, used by name (``crvnn train listops-soft``).

    Called once per command.

    :return: ``crvnn_core.NamedSpec`` records with the path of a spec file.
        Two plug-ins may not offer the same name.
    """


@hookspec
def crvnn_run_sources() -> Iterable[RunSource]:  # type: ignore[empty-body]
    """Offer places that runs are fetched from, by the scheme of an address (``crvnn predict hf:owner/name ...``).

    Called once per command. ``http:``, ``https:`` and zip files need no plug-in.

    :return: ``crvnn_core.RunSource`` records, whose ``fetch`` takes an address and returns a run directory.
        Two plug-ins may not offer the same name.
    """


@hookspec
def crvnn_presets() -> Iterable[Preset]:  # type: ignore[empty-body]
    """Offer presets: named variants that set several slots at once.

    Called once per command.

    :return: presets; a spec chooses one with ``preset = "name"``.
    """


@hookspec
def crvnn_kernels() -> Iterable[Library]:  # type: ignore[empty-body]
    """Offer libraries of compiled back ends, for ``crvnn doctor`` to build.

    Called by ``crvnn doctor``; a library that is built serves whether or not it is offered.

    :return: ``crvnn_core.kernels.Library`` records.
        Two plug-ins may not offer the same name.
    """


@hookspec
def crvnn_commands() -> Iterable[click.Command | LazyCommand]:  # type: ignore[empty-body]
    """Offer commands for the ``crvnn`` command line.

    Called by ``crvnn --help`` and for every command that is not the core's, so import heavy modules inside the command.

    :return: click commands, or ``crvnn_core.LazyCommand`` records, whose modules are imported when they are called;
        a name that another command has is an error.
    """
