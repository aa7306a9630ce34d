"""Models for other programs and other people: ``crvnn export``, ``crvnn pack``, ``crvnn push``, and ``hf:`` addresses.

``graphs/`` writes models as ONNX and as programs of torch.export, and checks them; ``sharing/`` writes runs as zip
files and to the Hugging Face hub. Nothing here imports torch, onnx or huggingface_hub until it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from crvnn_core import RunSource, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def crvnn_commands() -> Iterable[click.Command]:
    from crvnn_export.graphs.command import export_command
    from crvnn_export.sharing.commands import pack_command, push_command

    return [export_command, pack_command, push_command]


@hookimpl
def crvnn_run_sources() -> Iterable[RunSource]:
    return [
        RunSource(
            "hf", "crvnn_export.sharing.hub:fetch", summary="the Hugging Face hub: hf:owner/name@revision"
        )
    ]
