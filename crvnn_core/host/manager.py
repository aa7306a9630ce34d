"""The plug-in manager: finds plug-ins, checks and registers them, and calls their hooks through pluggy."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, TypeVar

import pluggy
from attrs import frozen

from crvnn_core.delays import telling_of_delay
from crvnn_core.errors import FAILURES, CrvnnWarning, PluginError, nearest, raised_at
from crvnn_core.host import hooks
from crvnn_core.host.attribution import Attribution, Source

_R = TypeVar("_R")
_UNKNOWN = "an unknown package"


@frozen
class BrokenPlugin:
    """An installed plug-in that is left out, and why."""

    source: Source
    reason: str
    what: str = "is left out"

    def __str__(self) -> str:
        return f"plug-in '{self.source.plugin}' of {self.source} {self.what}: {self.reason}"

    @property
    def removal(self) -> str:
        """How to be rid of it."""
        package = self.source.package
        return "remove it" if package == _UNKNOWN else f"remove it with 'pip uninstall {package}'"


class Host(pluggy.PluginManager):
    """A pluggy manager that knows which package each record came from, and which plug-ins had to be left out.

    Hooks are called through pluggy: wrappers, ``tryfirst``, ``trylast`` and call monitoring work as its
    documentation says.
    """

    def __init__(self) -> None:
        super().__init__(hooks.PROJECT)
        self.add_hookspecs(hooks)
        self.broken: list[BrokenPlugin] = []
        self.files: list[Path] = []  # plug-ins that are single files
        self.installed: dict[Source, object] = {}  # those found by entry points
        self._attribution = Attribution()

    def admit(self, plugin: object, source: Source) -> None:
        """Register a plug-in after checking that each of its hooks exists."""
        _check_hooks(plugin, source)
        name = f"{source.plugin} of {source.package}"  # two packages may give their plug-ins the same name
        try:
            self.register(plugin, name=name)
        except pluggy.PluginValidationError as error:
            self.unregister(name=name)  # pluggy registers the hooks before the wrong one
            raise PluginError(f"{source.title} cannot be registered: {error}") from error
        except ValueError as error:
            raise PluginError(f"{source.title} cannot be registered: {error}") from error
        for hook in self.get_hookcallers(plugin) or ():
            for implementation in hook.get_hookimpls():
                if implementation.plugin is plugin:
                    self._attribute(implementation, f"{hook.name} of {source.title}", source)

    def _attribute(self, implementation: pluggy.HookImpl, title: str, source: Source) -> None:
        """Have pluggy call a function that also notes the source of the records."""
        how = self._attribution.wrapper if implementation.wrapper else self._attribution.implementation
        implementation.function = how(implementation.function, title, source)  # type: ignore[misc, arg-type]

    def offers(self, hook: str) -> list[tuple[Source, Any]]:
        """Call ``hook``: every record that plug-ins returned, each with the plug-in that made it."""
        self._attribution.clear()
        with _printing_to_stderr(), telling_of_delay(lambda: self._attribution.current or hook):
            returned: list[list[Any]] = getattr(self.hook, hook)()
        return [(self._attribution.source_of(record), record) for records in returned for record in records]

    def leave_out(self, broken: BrokenPlugin) -> None:
        """Do without an installed plug-in, with a warning."""
        plugin = self.installed.pop(broken.source, None)
        if plugin is not None:
            self.unregister(plugin)
        self.broken.append(broken)
        warnings.warn(
            f"{broken}\n  The other plug-ins work. Repair it, or {broken.removal}.",
            CrvnnWarning,
            stacklevel=2,
        )

    def without_faulty(self, read: Callable[[], _R]) -> _R:
        """What ``read`` returns once the installed plug-ins that it fails for are left out.

        A plug-in that was asked for, as a file or an object, is not left out: its error is raised.
        """
        while True:
            try:
                return read()
            except PluginError as error:
                if not error.blamed or any(source not in self.installed for source in error.blamed):
                    raise
                for source in error.blamed:
                    self.leave_out(BrokenPlugin(source, str(error)))


def create_plugin_manager(*plugins: object, entry_points: bool = True, files: Iterable[Path] = ()) -> Host:
    """A manager with the installed plug-ins, and any objects and one-off files given here."""
    host = Host()
    if entry_points:
        packages: dict[int, tuple[str, str]] = {}  # metadata, which contain a README, are parsed once
        for entry in sorted(_installed(), key=lambda found: found.name):
            if entry.dist and id(entry.dist) not in packages:
                packages[id(entry.dist)] = (entry.dist.name, entry.dist.version)
            package = packages[id(entry.dist)] if entry.dist else (_UNKNOWN, "")
            _admit_installed(host, entry, Source(entry.name, *package))
    for path in files:
        module = _import_file(Path(path))
        host.admit(module, Source(str(path), str(path), ""))
        host.files.append(Path(path))
        if not host.get_hookcallers(module):
            raise PluginError(
                f"--plugin {path}: the file offers nothing; mark its hooks with '@crvnn_core.hookimpl'"
            )
    for plugin in plugins:
        host.admit(plugin, _source_of(plugin))
    return host


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=hooks.PROJECT)


def _admit_installed(host: Host, entry: EntryPoint, source: Source) -> None:
    """Register an installed plug-in. An error in one must not disable the others."""
    try:
        with _printing_to_stderr(), telling_of_delay(lambda: f"the import of {source.title}"):
            plugin = entry.load()
    except FAILURES as error:
        host.leave_out(BrokenPlugin(source, raised_at(error), "could not be imported"))
        return
    try:
        host.admit(plugin, source)
    except PluginError as error:
        host.leave_out(BrokenPlugin(source, str(error)))
    else:
        host.installed[source] = plugin


def _printing_to_stderr() -> contextlib.AbstractContextManager[object]:
    """Redirect what plug-ins print: standard output is for results, which may be read by machines."""
    return contextlib.redirect_stdout(sys.stderr)


def _import_file(path: Path) -> object:
    if not path.is_file():
        raise PluginError(f"--plugin {path}: there is no such file")
    spec = importlib.util.spec_from_file_location(f"crvnn_file_{path.stem.replace('-', '_')}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"--plugin {path}: a plug-in file is a Python file and ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        with _printing_to_stderr(), telling_of_delay(lambda: f"the import of --plugin {path}"):
            spec.loader.exec_module(module)
    except FAILURES as error:
        del sys.modules[spec.name]
        raise PluginError(f"--plugin {path}: the file could not be imported: {raised_at(error)}") from error
    return module


def _source_of(plugin: object) -> Source:
    """The source of a plug-in given as an object: the package of its code, or its own name if none is installed."""
    named = plugin if hasattr(plugin, "__name__") else type(plugin)
    module = named.__name__ if inspect.ismodule(named) else named.__module__
    package, number = package_of(module.partition(".")[0], otherwise=named.__name__)
    return Source(named.__name__, package, number, in_memory=not number)


def package_of(module: str, otherwise: str) -> tuple[str, str]:
    """The name and version of the package that a top-level module belongs to, if one of that name is installed."""
    try:
        return module, version(module)
    except PackageNotFoundError:
        return otherwise, ""


def _check_hooks(plugin: object, source: Source) -> None:
    """Raise ``PluginError`` for a misspelt hook, and for a hook function without ``@hookimpl``."""
    known = [name for name in vars(hooks) if name.startswith("crvnn_")]
    for name, value in inspect.getmembers(plugin, inspect.isroutine):
        marked = getattr(value, f"{hooks.PROJECT}_impl", None)
        name = (marked and marked["specname"]) or name
        if marked and name not in known:
            raise PluginError(
                f"{source.title}: there is no hook '{name}'.{nearest(name, known)}\n"
                f"Hooks: {', '.join(known)}."
            )
        if marked and marked["hookwrapper"]:
            raise PluginError(
                f"{source.title}: '{name}' is an old-style wrapper; write '@hookimpl(wrapper=True)' "
                "in place of 'hookwrapper=True', and return the result"
            )
        if marked:
            continue
        own = getattr(value, "__module__", None) == getattr(plugin, "__name__", None)
        guess = nearest(name, known, cutoff=0.85) if own else ""
        if name in known or guess:
            guess = "" if name in known else guess
            raise PluginError(
                f"{source.title}: '{name}' lacks its '@crvnn_core.hookimpl', so it would never be called.{guess}"
            )
