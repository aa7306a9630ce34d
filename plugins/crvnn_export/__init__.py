"""Models for other programs and other people: ``crvnn export``, ``crvnn pack``, ``crvnn push``, and ``hf:`` addresses.

``graphs/`` writes models as ONNX and as programs of torch.export, and checks them; ``sharing/`` writes runs as zip
files and to the Hugging Face hub. Nothing here imports torch, onnx or huggingface_hub until it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import LazyCommand, RunSource, hookimpl


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "export",
            "crvnn_export.graphs.command:export_command",
            summary="Write a model for other runtimes, as ONNX or pt2.",
        ),
        LazyCommand(
            "pack",
            "crvnn_export.sharing.commands:pack_command",
            summary="Write a run as a zip file that every command takes.",
        ),
        LazyCommand(
            "push",
            "crvnn_export.sharing.commands:push_command",
            summary="Upload a run to the Hugging Face hub.",
        ),
    ]


@hookimpl
def crvnn_run_sources() -> Iterable[RunSource]:
    return [
        RunSource(
            "hf", "crvnn_export.sharing.hub:fetch", summary="the Hugging Face hub: hf:owner/name@revision"
        )
    ]
