"""The plug-in host: finds plug-ins, asks each what it offers, and keeps account of who offered what."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy
from attrs import field, frozen

from crvnn_core.errors import FAILURES, PluginError, UnknownNameError, nearest, raised_at
from crvnn_core.host import hooks
from crvnn_core.host.component import Component, Preset, TrainedModel
from crvnn_core.host.slots import SLOT_BY_NAME, find_slot

if TYPE_CHECKING:
    import click

    from crvnn_core.kernels import Library


@frozen
class Source:
    """Where an offer comes from: the plug-in, and the package and version that carry it."""

    plugin: str
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}".strip()


@frozen
class BrokenPlugin:
    """A plug-in that could not be imported, and why."""

    source: Source
    reason: str

    def __str__(self) -> str:
        return f"plug-in '{self.source.plugin}' of {self.source} could not be imported: {self.reason}"


class Host(pluggy.PluginManager):
    """A plug-in manager that knows where each plug-in came from and which ones failed to import."""

    def __init__(self) -> None:
        super().__init__(hooks.PROJECT)
        self.add_hookspecs(hooks)
        self.sources: dict[str, Source] = {}
        self.broken: list[BrokenPlugin] = []

    def admit(self, plugin: object, source: Source) -> None:
        """Register a plug-in after checking that each of its hooks is one of ours."""
        _check_hooks(plugin, source)
        name = f"{source.plugin} of {source.package}"  # two packages may well choose one name
        try:
            self.register(plugin, name=name)
        except (ValueError, pluggy.PluginValidationError) as error:
            raise PluginError(
                f"plug-in '{source.plugin}' ({source}) cannot be registered: {error}"
            ) from error
        self.sources[name] = source

    def offers(self, hook: str) -> Iterator[tuple[Source, Any]]:
        """What each plug-in returns from ``hook``, with its source."""
        for implementation in getattr(self.hook, hook).get_hookimpls():
            source = self.sources[implementation.plugin_name]
            try:
                returned = implementation.function()
                records = list(returned) if isinstance(returned, Iterable) else None
            except FAILURES as error:
                raise PluginError(
                    f"{hook} of plug-in '{source.plugin}' ({source}) raised {raised_at(error)}"
                ) from error
            if records is None:
                raise PluginError(
                    f"{hook} of plug-in '{source.plugin}' ({source}) returned {returned!r}, which is no list"
                )
            yield from ((source, record) for record in records)


def create_plugin_manager(*plugins: object, entry_points: bool = True, files: Iterable[Path] = ()) -> Host:
    """A manager with the installed plug-ins, and any objects and one-off files given here."""
    host = Host()
    if entry_points:
        for entry in sorted(_installed(), key=lambda found: found.name):
            _admit_installed(host, entry)
    for path in files:
        module = _import_file(Path(path))
        host.admit(module, Source(str(path), str(path), ""))
        if host.get_hookcallers(module) == []:
            raise PluginError(
                f"--plugin {path}: the file offers nothing; mark its hooks with '@crvnn_core.hookimpl'"
            )
    for plugin in plugins:
        name = getattr(plugin, "__name__", type(plugin).__name__)
        host.admit(plugin, Source(name, *_package_of(name.partition(".")[0])))
    return host


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=hooks.PROJECT)


def _admit_installed(host: Host, entry: EntryPoint) -> None:
    source = Source(
        entry.name, entry.dist.name if entry.dist else "?", entry.dist.version if entry.dist else "?"
    )
    try:
        plugin = entry.load()
    except FAILURES as error:  # whatever a stranger's module raises must not take the others down
        host.broken.append(BrokenPlugin(source, raised_at(error)))
        return
    host.admit(plugin, source)


def _import_file(path: Path) -> object:
    if not path.is_file():
        raise PluginError(f"--plugin {path}: there is no such file")
    spec = importlib.util.spec_from_file_location(f"crvnn_file_{path.stem.replace('-', '_')}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"--plugin {path}: a plug-in file is a Python file and ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except FAILURES as error:
        del sys.modules[spec.name]
        raise PluginError(f"--plugin {path}: the file could not be imported: {raised_at(error)}") from error
    return module


def _package_of(name: str) -> tuple[str, str]:
    try:
        return name, version(name)
    except PackageNotFoundError:
        return name, ""


def _check_hooks(plugin: object, source: Source) -> None:
    """Refuse a misspelt hook, and a hook function that lacks its ``@hookimpl``."""
    known = [name for name in vars(hooks) if name.startswith("crvnn_")]
    for name, value in inspect.getmembers(plugin, inspect.isroutine):
        marked = getattr(value, f"{hooks.PROJECT}_impl", None)
        name = (marked and marked["specname"]) or name
        if marked and name not in known:
            raise PluginError(
                f"plug-in '{source.plugin}' ({source}): there is no hook '{name}'.{nearest(name, known)}\n"
                f"Hooks: {', '.join(known)}."
            )
        own = getattr(value, "__module__", None) == getattr(plugin, "__name__", None)
        guess = nearest(name, known, cutoff=0.85) if own else ""
        if not marked and (name in known or guess):
            guess = "" if name in known else guess
            raise PluginError(
                f"plug-in '{source.plugin}' ({source}): '{name}' lacks its '@crvnn_core.hookimpl', "
                f"so it would never be called.{guess}"
            )


@frozen
class Offer:
    """A component, the slot it fills, and where it comes from."""

    slot: str
    component: Component
    source: Source

    def __str__(self) -> str:
        return f"{self.slot} '{self.component.name}' ({self.source})"


@frozen
class Catalog:
    """Everything the plug-ins offer, by slot and name."""

    components: dict[str, dict[str, Offer]]
    presets: dict[str, tuple[Preset, Source]]
    models: dict[str, tuple[TrainedModel, Source]] = field(factory=dict)
    broken: tuple[BrokenPlugin, ...] = field(default=())

    def find(self, slot: str, name: str) -> Offer:
        """The component called ``name`` in ``slot``; an error that knows the nearest name if there is none."""
        offers = self.components[find_slot(slot).name]
        if name not in offers:
            raise UnknownNameError("\n".join(self.unknown(slot, name)))
        return offers[name]

    def unknown(self, slot: str, name: str) -> tuple[str, str]:
        """What is wrong with ``name``, and what exists."""
        return (
            f"no {slot} is called '{name}'.{nearest(name, self.components[slot])}",
            f"Installed: {', '.join(self.components[slot])}. 'crvnn list {slot}' describes them.",
        )

    def preset(self, name: str) -> Preset:
        """The preset called ``name``."""
        if name not in self.presets:
            raise UnknownNameError(
                f"no preset is called '{name}'.{nearest(name, self.presets)}\nInstalled: {', '.join(self.presets)}."
            )
        return self.presets[name][0]


def read_catalog(host: Host) -> Catalog:
    """Ask every plug-in what it offers. Two that offer one name are an error that names both."""
    components: dict[str, dict[str, Offer]] = {}
    for slot in SLOT_BY_NAME.values():
        taken: dict[str, Offer] = {}
        for source, record in host.offers(slot.hook):
            _expect(record, Component, slot.hook, source)
            if record.name in taken:
                raise _clash(slot.name, record.name, taken[record.name].source, source)
            taken[record.name] = Offer(slot.name, record, source)
        components[slot.name] = dict(sorted(taken.items()))
    presets = _named(host, "preset", Preset)
    models = _named(host, "model", TrainedModel)
    return Catalog(components, presets, models, tuple(host.broken))


_R = TypeVar("_R", Preset, TrainedModel)


def _named(host: Host, what: str, kind: type[_R]) -> dict[str, tuple[_R, Source]]:
    """Records that are no components, by name."""
    found: dict[str, tuple[_R, Source]] = {}
    for source, record in host.offers(f"crvnn_{what}s"):
        _expect(record, kind, f"crvnn_{what}s", source)
        if record.name in found:
            raise _clash(what, record.name, found[record.name][1], source)
        found[record.name] = (record, source)
    return found


def read_commands(host: Host, taken: Iterable[str]) -> dict[str, click.Command]:
    """The commands that plug-ins offer, none of which may hide another."""
    import click

    owners = dict.fromkeys(taken, Source("crvnn", *_package_of("crvnn")))
    commands: dict[str, click.Command] = {}
    for source, record in host.offers("crvnn_commands"):
        _expect(record, click.Command, "crvnn_commands", source)
        name = str(record.name)
        if name in owners:
            raise _clash("command", name, owners[name], source)
        owners[name] = source
        commands[name] = record
    return commands


def read_libraries(host: Host) -> list[Library]:
    """The engine's library of compiled back ends, and those that plug-ins offer, none of which may hide another."""
    from crvnn_core.engine.native import ENGINE
    from crvnn_core.kernels import Library

    owners = {ENGINE.name: Source("crvnn", *_package_of("crvnn"))}
    libraries = [ENGINE]
    for source, record in host.offers("crvnn_kernels"):
        _expect(record, Library, "crvnn_kernels", source)
        if record.name in owners:
            raise _clash("library of kernels", record.name, owners[record.name], source)
        owners[record.name] = source
        libraries.append(record)
    return libraries


def _expect(record: object, kind: type, hook: str, source: Source) -> None:
    if not isinstance(record, kind):
        raise PluginError(
            f"{hook} of plug-in '{source.plugin}' ({source}) returned {record!r}; "
            f"it must return an iterable of {kind.__name__} records"
        )


def _clash(slot: str, name: str, first: Source, second: Source) -> PluginError:
    if first == second:
        return PluginError(f"plug-in '{first.plugin}' ({first}) offers the {slot} '{name}' twice")
    return PluginError(
        f"two plug-ins offer a {slot} called '{name}': '{first.plugin}' ({first}) and "
        f"'{second.plugin}' ({second}). Rename one of them, or uninstall its package."
    )
