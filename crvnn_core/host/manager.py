"""The plug-in manager: finds plug-ins, checks and registers them, and calls their hooks through pluggy.

Records and errors are attributed to the plug-in that they come from.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, TypeVar

import pluggy
from attrs import frozen

from crvnn_core.delays import telling_of_delay
from crvnn_core.errors import FAILURES, CrvnnWarning, PluginError, nearest, raised_at
from crvnn_core.host import hooks

_R = TypeVar("_R")
_UNKNOWN = "an unknown package"
#: Ends the record of a plug-in that is an object of the program.
IN_MEMORY = " (in memory)"


@frozen
class Source:
    """Where a record comes from: the plug-in, and the name and version of its package."""

    plugin: str
    package: str
    version: str
    in_memory: bool = False  # an object of the program, which no installed package has

    def __str__(self) -> str:
        return f"{self.package} {self.version}".strip()

    @property
    def recorded(self) -> str:
        """Package and version, as the environment of a run records them."""
        return f"{self}{IN_MEMORY}" if self.in_memory else str(self)

    @property
    def title(self) -> str:
        """The plug-in and its package, for messages."""
        return f"plug-in '{self.plugin}' ({self})"


#: A record, and the plug-in that made it.
Offered = tuple[Source, Any]


class HookError(PluginError):
    """A hook failed; the message names it and its plug-in."""


@contextlib.contextmanager
def naming(title: str, source: Source) -> Iterator[None]:
    """Turn whatever a plug-in raises into an error that begins with ``title``."""
    try:
        yield
    except HookError:  # of a plug-in that this one wraps
        raise
    except FAILURES as error:
        raise HookError(f"{title} raised {raised_at(error)}", [source]) from error


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
        self._calling = ""  # the hook and the plug-in that are being called

    def admit(self, plugin: object, source: Source) -> None:
        """Register a plug-in after checking that each of its hooks exists."""
        _check_hooks(plugin, source)
        name = f"{source.plugin} of {source.package}"  # two packages may give their plug-ins the same name
        try:
            self.register(plugin, name=name)
        except (pluggy.PluginValidationError, ValueError) as error:
            if isinstance(error, pluggy.PluginValidationError):
                self.unregister(name=name)  # pluggy registers the hooks before the wrong one
            raise PluginError(f"{source.title} cannot be registered: {error}") from error
        for hook in self.get_hookcallers(plugin) or ():
            for own in hook.get_hookimpls():
                if own.plugin is plugin:
                    adapted = self._wrapper if own.wrapper else self._implementation
                    title = f"{hook.name} of {source.title}"
                    own.function = adapted(own.function, title, source)  # type: ignore[misc, arg-type]

    def _implementation(
        self, function: Callable[[], Any], title: str, source: Source
    ) -> Callable[[], list[Offered]]:
        """The function of a hook, with ``source`` beside each record and ``title`` in its errors."""

        def call() -> list[Offered]:
            self._calling = title
            with naming(title, source):
                returned = function()
                if not isinstance(returned, Iterable):
                    raise HookError(f"{title} returned {returned!r}, which is no list", [source])
                return [(source, record) for record in returned]

        return call

    def _wrapper(
        self, function: Callable[[], Generator[None, Any, Any]], title: str, source: Source
    ) -> Callable[[], Generator[None, list[list[Offered]], list[list[Offered]]]]:
        """The same for a wrapper, which is given a list of records for each plug-in and returns such lists.

        Records are told apart by identity: one that it passes on keeps its source, and one that it makes is its own.
        """
        once = HookError(f"{title}, a wrapper, must yield exactly once", [source])

        def call() -> Generator[None, list[list[Offered]], list[list[Offered]]]:
            self._calling = title
            sources: dict[int, list[Source]] = {}
            with naming(title, source):
                generator = function()
                if next(generator, once) is once:
                    raise once
                try:
                    offered = yield
                except BaseException as error:
                    resume: Callable[[], None] = partial(generator.throw, error)
                else:
                    resume = partial(generator.send, [[record for _, record in pairs] for pairs in offered])
                    for owner, record in (pair for pairs in offered for pair in pairs):
                        sources.setdefault(id(record), []).append(owner)
                try:
                    resume()
                except StopIteration as stop:
                    returned = stop.value
                else:
                    generator.close()
                    raise once
                lists = list(returned) if isinstance(returned, Iterable) else [returned]
                if not all(isinstance(records, Iterable) for records in lists):
                    raise HookError(
                        f"{title}, a wrapper, returned {returned!r}; it must return a list of lists of records, "
                        "one for each plug-in, as it receives from 'yield'",
                        [source],
                    )

                def owner_of(record: object) -> Source:
                    owners = sources.get(id(record), [source])
                    return (
                        owners.pop(0) if len(owners) > 1 else owners[0]
                    )  # several may offer the same object

                return [[(owner_of(record), record) for record in records] for records in lists]

        return call

    def offers(self, hook: str) -> list[Offered]:
        """Call ``hook``: every record that plug-ins returned, each with the plug-in that made it."""
        with _printing_to_stderr(), telling_of_delay(lambda: self._calling or hook):
            returned: list[list[Offered]] = getattr(self.hook, hook)()
        return [pair for pairs in returned for pair in pairs]

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
        packages: dict[Distribution | None, tuple[str, str]] = {None: (_UNKNOWN, "")}
        for entry in sorted(_installed(), key=lambda found: found.name):
            if entry.dist and entry.dist not in packages:  # metadata, which contain a README, are parsed once
                packages[entry.dist] = (entry.dist.name, entry.dist.version)
            _admit_installed(host, entry, Source(entry.name, *packages[entry.dist]))
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
        guess = nearest(name, known, cutoff=0.85) if own and not name.startswith("_") else ""
        if name in known or guess:
            guess = "" if name in known else guess
            raise PluginError(
                f"{source.title}: '{name}' lacks its '@crvnn_core.hookimpl', so it would never be called.{guess}"
            )
