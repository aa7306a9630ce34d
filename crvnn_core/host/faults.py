"""Whose code raised an exception: the component of a plug-in, found by the frames of the traceback."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

from crvnn_core.errors import PluginError, raised_at
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.manager import package_of

#: Modules of the core that call commands, which may be those of plug-ins and may raise or exit as they like.
_CALLERS = ("crvnn_core.cli",)


def fault(error: BaseException, catalog: Catalog) -> PluginError | None:
    """An error that names the component which raised ``error``, its plug-in and the last line of its own code.

    ``None`` if no component raised it, or one of crvnn's own did: that is a bug, which keeps its traceback.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    called = next((i for i, (frame, _) in enumerate(frames) if _is_core(frame)), len(frames))
    packages = _packages(catalog)
    for frame, line in reversed(frames[called:]):
        offers = packages.get(_root(_module(frame)), [])
        if not offers:
            continue
        offer = _component([each for each, _ in frames], frame, offers)
        title = offer.source.title if offer else offers[0].source.title
        if offer:
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


def _is_core(frame: FrameType) -> bool:
    module = _module(frame)
    return _root(module) == "crvnn_core" and module not in _CALLERS


def _packages(catalog: Catalog) -> dict[str, list[Offer]]:
    """The components of other packages than crvnn, by the top-level module of their code."""
    core, _ = package_of("crvnn", otherwise="crvnn")
    found: dict[str, list[Offer]] = {}
    for offer in (offer for offers in catalog.components.values() for offer in offers.values()):
        root = _root(_home(offer))
        if offer.source.package != core and root not in ("crvnn_core", "torch", "builtins", "functools"):
            found.setdefault(root, []).append(offer)
    return found


def _component(frames: Sequence[FrameType], frame: FrameType, offers: Sequence[Offer]) -> Offer | None:
    """The component whose method is the innermost of the frames; else the only one in the module of ``frame``."""
    for each in reversed(frames):
        for kind in type(each.f_locals.get("self")).__mro__:  # the class itself before those it inherits from
            found = [offer for offer in offers if (kind.__module__, kind.__qualname__) == _class(offer)]
            if found:
                return found[0] if len(found) == 1 else None
    near = [offer for offer in offers if _home(offer) == _module(frame)] or offers
    return near[0] if len(near) == 1 else None


def _class(offer: Offer) -> tuple[str, str]:
    """The module and the name of the class or function that builds a component."""
    build = offer.component.build
    name = build.partition(":")[2] if isinstance(build, str) else getattr(build, "__qualname__", "")
    return _home(offer), name


def _home(offer: Offer) -> str:
    """The module that a component is defined in."""
    build = offer.component.build
    return build.partition(":")[0] if isinstance(build, str) else str(getattr(build, "__module__", ""))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _root(module: str) -> str:
    return module.partition(".")[0]
