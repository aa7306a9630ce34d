"""Datasets and vectors of torchtext as a task and an embedding; needs the extra ``torchtext``."""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import Component, hookimpl


@hookimpl
def crvnn_embeddings() -> Iterable[Component]:
    return [
        Component(
            "torchtext",
            "crvnn_torchtext.vectors:TorchTextVectors",
            summary="pretrained vectors that torchtext downloads (needs the extra 'torchtext')",
            example={"vectors": "glove.6B.50d"},
        )
    ]


@hookimpl
def crvnn_tasks() -> Iterable[Component]:
    return [
        Component(
            "torchtext",
            "crvnn_torchtext.task:TorchTextTask",
            summary="a dataset of torchtext's (needs the extra 'torchtext')",
            example={"dataset": "trec"},
        )
    ]
