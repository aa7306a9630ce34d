"""Whose code raised an exception: the plug-in, and its component, that the traceback leads to."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from collections.abc import Iterator

from crvnn_core.errors import PluginError, raised_at
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.manager import package_of


def fault(error: BaseException, catalog: Catalog) -> PluginError | None:
    """An error that names the component which raised ``error``, its plug-in and the last line of its own code.

    ``None`` if no component raised it, or one of crvnn's own did: that is a bug, which keeps its traceback.
    """
    core, _ = package_of("crvnn", otherwise="crvnn")
    frames = [
        (str(frame.f_globals.get("__name__", "")), type(frame.f_locals.get("self")).__name__, frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    # Commands of plug-ins, which the command line calls, may raise or exit as they like.
    inside = (name.startswith("crvnn_core.") and not name.startswith("crvnn_core.cli") for name, *_ in frames)
    called = next((number for number, is_core in enumerate(inside) if is_core), len(frames))
    theirs = [
        offer
        for offers in catalog.components.values()
        for offer in offers.values()
        if offer.source.package != core
    ]
    for module, _, frame, line in reversed(frames[called:]):
        offers = [offer for offer in theirs if _home(offer)[0].partition(".")[0] == module.partition(".")[0]]
        if not offers or module.partition(".")[0] in ("crvnn_core", "torch", "builtins", "functools"):
            continue
        named = [offer for _, kind, *_ in frames for offer in offers if _home(offer)[1] == kind]
        title = offers[0].source.title
        if named or len(offers) == 1:
            offer = (named or offers)[-1]
            title = f"{offer.slot} '{offer.component.name}' of {title}"
        file = frame.f_code.co_filename
        text = linecache.getline(file, line).strip()
        shown = f"\n  {line} | {text}" if text else ""
        what = f"raised {type(error).__name__}: {error}"
        if isinstance(error, SystemExit):
            what = f"tried to end the program (exit code {error.code or 0})"
        return PluginError(f"{title} {what} ({file}:{line}){shown}")
    return None


@contextlib.contextmanager
def refusing_exit(catalog: Catalog) -> Iterator[None]:
    """Within this context code that ends the program, as if it had succeeded, is an error that names it."""
    try:
        yield
    except SystemExit as error:
        raise fault(error, catalog) or PluginError(f"training was ended by {raised_at(error)}") from error


def _home(offer: Offer) -> tuple[str, str]:
    """The module, and the name, of the class or function that builds a component."""
    build = offer.component.build
    if isinstance(build, str):
        module, _, name = build.partition(":")
        return module, name
    return str(getattr(build, "__module__", "")), getattr(build, "__name__", "")
