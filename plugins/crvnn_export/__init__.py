"""Models for other programs and other people: ``crvnn share export``, ``pack`` and ``push``, and ``hf:`` addresses.

``formats`` writes models as ONNX and as programs of torch.export, and checks them; ``contents`` says what belongs to a
run that is shared. Nothing here imports torch, onnx or huggingface_hub until it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import LazyCommand, RunSource, hookimpl


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "share",
            "crvnn_export.commands:share",
            summary="Export, pack or upload a model.",
            group="Share and measure",
        )
    ]


@hookimpl
def crvnn_run_sources() -> Iterable[RunSource]:
    return [RunSource("hf", "crvnn_export.hub:fetch", summary="the Hugging Face hub: hf:owner/name@revision")]
