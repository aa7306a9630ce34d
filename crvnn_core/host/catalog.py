"""Everything that the plug-ins offer, by slot and name, each with the plug-in that it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import field, frozen

from crvnn_core.errors import PluginError, UnknownNameError, nearest
from crvnn_core.host.component import Component, LazyCommand, NamedSpec, Preset, RunSource, TrainedModel
from crvnn_core.host.manager import BrokenPlugin, Host, Source, package_of
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME, find_slot

if TYPE_CHECKING:
    import click

    from crvnn_core.kernels import Library


#: What plug-ins offer by name besides the components of slots.
KINDS = ("preset", "spec", "model")
#: The schemes of addresses that need no plug-in.
WEB = ("http", "https")


@frozen
class Offer:
    """A component, its slot, and the plug-in that it comes from."""

    slot: str
    component: Component
    source: Source

    def __str__(self) -> str:
        return f"{self.slot} '{self.component.name}' ({self.source})"


@frozen
class Catalog:
    """Everything that the plug-ins offer, by slot and name."""

    components: dict[str, dict[str, Offer]]
    presets: dict[str, tuple[Preset, Source]]
    models: dict[str, tuple[TrainedModel, Source]] = field(factory=dict)
    broken: tuple[BrokenPlugin, ...] = field(default=())
    specs: dict[str, tuple[NamedSpec, Source]] = field(factory=dict)
    run_sources: dict[str, tuple[RunSource, Source]] = field(factory=dict)
    #: The plug-ins that are single files (``--plugin``).
    files: tuple[Path, ...] = ()

    def find(self, slot: str, name: str) -> Offer:
        """The component called ``name`` in ``slot``; an error that suggests the nearest name if there is none."""
        offers = self.components[find_slot(slot).name]
        if name not in offers:
            raise UnknownNameError("\n".join(self.unknown(slot, name)))
        return offers[name]

    def encoder_parts(self, names: Iterable[str]) -> set[str]:
        """The slots whose components encoders of these names ask for."""
        asked = [self.find("encoder", name).component.parameters() for name in names]
        return {slot for slot in ENCODER_PARTS for parameters in asked if slot in parameters}

    def unknown(self, slot: str, name: str) -> tuple[str, str]:
        """What is wrong with ``name``, and what exists, or might if a plug-in were not broken."""
        broken = " and ".join(f"'{each.source.plugin}' ({each.source})" for each in self.broken)
        left_out = f" Left out, because of an error: {broken}." if broken else ""
        return (
            f"no {slot} is called '{name}'.{nearest(name, self.components[slot])}",
            f"Installed: {', '.join(self.components[slot])}. 'crvnn list {slot}' describes them.{left_out}",
        )

    def records(self, kind: str) -> Mapping[str, tuple[Any, Source]]:
        """What plug-ins offer of a kind, a slot or one of ``KINDS``, by name; each with the plug-in that it is from."""
        if kind in KINDS:
            records: Mapping[str, tuple[Any, Source]] = getattr(self, f"{kind}s")
            return records
        return {name: (offer.component, offer.source) for name, offer in self.components[kind].items()}

    def defaults(self, slot: str) -> list[str]:
        """The components that a spec gets where it names none: at most one, unless the slot takes several."""
        return [name for name, offer in self.components[slot].items() if offer.component.default]

    @property
    def default_preset(self) -> str | None:
        """The preset of a spec that names none."""
        return next((name for name, (preset, _) in self.presets.items() if preset.default), None)


def read_catalog(host: Host) -> Catalog:
    """Ask every plug-in what it offers.

    An installed plug-in whose hook fails, or that offers a name or default of the core's, is left out with a warning;
    so are both of two that offer the same name, as neither has the better claim. For one that was asked for, as a
    file or an object, it is an error.
    """
    return host.without_faulty(lambda: _read_catalog(host))


def _read_catalog(host: Host) -> Catalog:
    components: dict[str, dict[str, Offer]] = {}
    for slot in SLOT_BY_NAME.values():
        found = _named(host, slot.hook, slot.name, Component)
        if not slot.many:
            _check_default(slot.name, found)
        components[slot.name] = {
            name: Offer(slot.name, component, source) for name, (component, source) in found.items()
        }
    presets = _named(host, "crvnn_presets", "preset", Preset)
    _check_default("preset", presets)
    models = _named(host, "crvnn_models", "model", TrainedModel)
    specs = _named(host, "crvnn_specs", "spec", NamedSpec)
    sources = _named(host, "crvnn_run_sources", "source of runs", RunSource, WEB)
    return Catalog(components, presets, models, tuple(host.broken), specs, sources, tuple(host.files))


def read_commands(host: Host, taken: Iterable[str]) -> dict[str, tuple[click.Command | LazyCommand, Source]]:
    """The commands that plug-ins offer, by name, with the plug-ins that they come from.

    :param taken: names of the core's own commands, which no plug-in may offer.
    """
    import click

    kinds = (click.Command, LazyCommand)
    return host.without_faulty(lambda: _named(host, "crvnn_commands", "command", kinds, taken))


def read_libraries(host: Host) -> list[Library]:
    """The engine's library of compiled back ends, and those that plug-ins offer."""
    from crvnn_core.engine.operations import ENGINE
    from crvnn_core.kernels import Library

    found = host.without_faulty(
        lambda: _named(host, "crvnn_kernels", "library of kernels", Library, [ENGINE.name])
    )
    return [ENGINE, *(library for library, _ in found.values())]


_R = TypeVar("_R")


def _named(
    host: Host, hook: str, what: str, kind: type[_R] | tuple[type[_R], ...], taken: Iterable[str] = ()
) -> dict[str, tuple[_R, Source]]:
    """The records of a hook and their sources, by name, in alphabetical order.

    :param taken: names of what the core itself has.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    found: dict[str, tuple[_R, Source]] = {}
    for source, record in host.offers(hook):
        if not isinstance(record, kinds):
            raise PluginError(
                f"{hook} of {source.title} returned {record!r}; it must return an iterable of "
                f"{' or '.join(each.__name__ for each in kinds)} records",
                [source],
            )
        name = str(record.name)  # type: ignore[attr-defined]
        if name in found and found[name][1] == source:
            raise PluginError(f"{source.title} offers the {what} '{name}' twice", [source])
        if name in found or name in taken:
            first = found[name][1] if name in found else Source("crvnn", *package_of("crvnn", "crvnn"))
            raise PluginError(
                f"two plug-ins offer a {what} called '{name}': '{first.plugin}' ({first}) and "
                f"'{source.plugin}' ({source}). Rename one of them, or uninstall its package.",
                _blamed(first, source),
            )
        found[name] = (record, source)
    return dict(sorted(found.items()))


def _check_default(what: str, found: dict[str, tuple[Any, Source]]) -> None:
    """Raise ``PluginError`` if several records claim to be the default."""
    claims = {f"'{name}' of {source.title}": source for name, (one, source) in found.items() if one.default}
    if len(claims) > 1:
        raise PluginError(
            f"there can be one default {what}, but {' and '.join(claims)} have 'default=True'. "
            "Remove it from all but one, or uninstall a package.",
            _blamed(*claims.values()),
        )


def _blamed(*sources: Source) -> list[Source]:
    """Who is to blame for a clash: those beside the core, whose own plug-ins come first."""
    core, _ = package_of("crvnn", "crvnn")
    return [source for source in sources if source.package != core]
