"""Tracing a model with torch.export, and saying which of its parts cannot be traced."""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from crvnn_core.errors import CrvnnError
from crvnn_core.interfaces.parts import Part
from crvnn_core.kernels import without
from crvnn_export.classifier import Classifier, Exportable
from crvnn_export.hub import first_line

_GUARD = re.compile(r"eval Eq\([^,]+, \d+\).*?([\w./-]+\.py):(\d+) in (\w+)")


def traced(exportable: Exportable) -> Any:
    """The model as a ``torch.export.ExportedProgram`` for any batch size and length, without compiled kernels."""
    module = exportable.module()
    with _specialisations() as guards:
        try:
            return _export(module, exportable)
        except Exception as error:
            raise CrvnnError(_explained(module, exportable, error, guards)) from error


def _export(module: Classifier, exportable: Exportable) -> Any:
    dynamic = torch.export.Dim.DYNAMIC
    shapes = [{0: dynamic, 1: dynamic}, {0: dynamic}] * exportable.trained.task.arity
    with torch.no_grad(), without(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The tensor attributes .*_flat_weights")  # torch's own, of its LSTM
        return torch.export.export(
            module, tuple(exportable.inputs(3, 11)), dynamic_shapes=(tuple(shapes),), strict=False
        )


def _explained(
    module: Classifier, exportable: Exportable, error: Exception, guards: list[tuple[str, ...]]
) -> str:
    """Which part of the model cannot be traced, and why."""
    if isinstance(error, CrvnnError):
        return f"the {_title(exportable.trained.model.encoder, exportable)} cannot be exported: {error}"
    if "specialized it to be a constant" in str(error):
        for guard in guards:
            file, line, function = guard
            part = _defined_in(module, file)
            if part is not None:
                return (
                    f"the {_title(part, exportable)} cannot be exported for all lengths: it uses the number of "
                    f"positions or sequences in Python ({file.rpartition('/')[2]}:{line} in {function}). "
                    "len(x) fixes that number; x.shape[0] need not."
                )
    part, reason = _innermost(error), error
    encoder: Any = module.encoder
    if part is None and getattr(encoder, "depth", 0) is None:  # inside a loop, torch hides the frames
        encoder.depth = 1
        try:
            _export(module, exportable)
        except Exception as again:
            part, reason = _innermost(again), again
        finally:
            encoder.depth = None
    what = _title(part, exportable) if part is not None else "model"
    return f"the {what} cannot be exported: {type(reason).__name__}: {first_line(reason)}"


def _innermost(error: BaseException) -> Part | None:
    """The part in whose method an error was raised."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, Part):
            found = owner
    return found


def _defined_in(module: nn.Module, file: str) -> Part | None:
    """The part whose class is defined in a file, of which the end of the path is known."""
    parts = [part for part in module.modules() if isinstance(part, Part)]
    return next((part for part in parts if inspect.getfile(type(part)).endswith(file.lstrip("."))), None)


def _title(part: Part, exportable: Exportable) -> str:
    """``decision 'my-decision'``, as the spec has it; the name of its class if it is no slot's."""
    model, encoder = exportable.trained.spec.model, exportable.trained.model.encoder
    for slot in ("retriever", "scorer", "decision", "cell", "halting"):
        if getattr(encoder, slot, None) is part:
            return f"{slot} '{getattr(model, slot).name}'"
    return f"encoder '{model.encoder.name}'" if part is encoder else f"part {type(part).__name__}"


@contextlib.contextmanager
def _specialisations() -> Iterator[list[tuple[str, ...]]]:
    """Collects where torch had to fix a size: file, line and function, from what it logs."""
    found: list[tuple[str, ...]] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if match := _GUARD.search(record.getMessage()):
                found.append(match.groups())

    logger, collector = logging.getLogger("torch.fx.experimental.symbolic_shapes"), Collector()
    level, propagates, others = logger.level, logger.propagate, logger.handlers[:]
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [collector]
    try:
        yield found
    finally:
        logger.setLevel(level)
        logger.propagate, logger.handlers = propagates, others
