"""The records that plug-ins offer: components, presets, specs, trained models, sources of runs and commands."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import Attribute, field, frozen

from crvnn_core.annotations import parameters_of
from crvnn_core.host.slots import SLOT_BY_NAME

if TYPE_CHECKING:
    import click


def _check_name(instance: object, attribute: object, value: str) -> None:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", value):
        raise ValueError(
            f"a name is made of small letters, digits and hyphens, as in 'my-cell'; got {value!r}"
        )


def _check_loadable(instance: object, attribute: Attribute[Any], value: Callable[..., Any] | str) -> None:
    if not (callable(value) or _is_reference(value)):
        raise ValueError(f"{attribute.name} must be a callable or 'package.module:Name', not {value!r}")


def _check_importable(instance: object, attribute: Attribute[Any], value: str) -> None:
    if not _is_reference(value):
        raise ValueError(f"{attribute.name} must be 'package.module:name', not {value!r}")


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.count(":") == 1


def _imported(value: Callable[..., Any] | str) -> Any:
    return pkgutil.resolve_name(value) if isinstance(value, str) else value


@frozen
class Record:
    """What a plug-in offers by name, with a line about it."""

    name: str = field(validator=_check_name)
    summary: str = field(default="", kw_only=True)


@frozen
class Component(Record):
    """What a plug-in offers: a name for specs, and how to build the module.

    ``build`` is the class (or a function), or ``"package.module:Class"``, which is imported only when the
    component is used: that keeps ``crvnn --help`` and ``crvnn list`` quick. ``example`` holds arguments
    for the contract to build it with, needed only where a parameter has no default. ``default`` makes it
    what a spec gets where it names none of its slot; only one component of a slot can be that, except of
    observers.
    """

    build: Callable[..., Any] | str = field(validator=_check_loadable)
    example: Mapping[str, Any] = field(factory=dict, kw_only=True)
    default: bool = field(default=False, kw_only=True)

    def load(self) -> Callable[..., Any]:
        """``build`` as a callable, imported if it is given by name."""
        build: Callable[..., Any] = _imported(self.build)
        return build

    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of ``build`` by name, with annotations resolved where they can be."""
        return parameters_of(self.load())

    def settings(self, slot: str) -> dict[str, inspect.Parameter]:
        """The parameters that a spec can set: all but those that ``assemble`` fills in for ``slot``."""
        filled_in = SLOT_BY_NAME[slot].filled_in
        return {name: p for name, p in self.parameters().items() if name not in filled_in}

    def make(self, available: Mapping[str, Any], **settings: Any) -> Any:
        """Build the component with ``settings``, and with the ``available`` arguments that it has parameters for."""
        wanted = self.parameters()
        filled = {name: value for name, value in available.items() if name in wanted}
        return self.load()(**{**filled, **settings})


@frozen
class TrainedModel(Record):
    """A run directory that is shipped with a package and loaded by name."""

    path: str


@frozen
class NamedSpec(Record):
    """A spec file that is shipped with a package and used by name: ``crvnn train listops-soft``."""

    path: str
    #: The data that it needs, and how to get it; empty for none.
    data: str = field(default="", kw_only=True)
    #: How long training takes, and on what.
    duration: str = field(default="", kw_only=True)


@frozen
class RunSource(Record):
    """A place that runs are fetched from: addresses that begin with its name and a colon, as ``hf:owner/name``.

    ``fetch`` takes the rest of the address (without ``//``) and returns a run directory; it is a function, or
    ``"package.module:function"``, which is imported only when it is called.
    """

    fetch: Callable[[str], Path] | str = field(validator=_check_loadable)

    def load(self) -> Callable[[str], Path]:
        """``fetch`` as a function, imported if it is given by name."""
        fetch: Callable[[str], Path] = _imported(self.fetch)
        return fetch


@frozen
class LazyCommand(Record):
    """A command that is imported when it is called; ``crvnn --help`` shows its name and summary without that.

    ``command`` is ``"package.module:name"`` of a click command.
    """

    command: str = field(validator=_check_importable)
    summary: str = field(kw_only=True)
    #: The heading of ``crvnn --help`` that it stands under: Compose, Train, Look, Share and measure, or another.
    group: str = field(default="", kw_only=True)

    def load(self) -> click.Command:
        """The click command, imported, with the summary as its short help."""
        loaded: click.Command = _imported(self.command)
        loaded.short_help = self.summary
        return loaded


@frozen
class Preset(Record):
    """A named variant: the part of a spec's ``[model]`` table that it sets.

    ``default`` makes it the preset of specs that name none; only one preset can be that.
    """

    model: Mapping[str, Any]
    default: bool = field(default=False, kw_only=True)
