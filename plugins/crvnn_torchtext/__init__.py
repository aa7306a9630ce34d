"""torchtext's datasets and vectors as a task and an embedding, for those who have the extra ``torchtext``."""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import Component, hookimpl


@hookimpl
def crvnn_embeddings() -> Iterable[Component]:
    return [
        Component(
            "torchtext",
            "crvnn_torchtext.adapter:TorchTextVectors",
            summary="pretrained vectors that torchtext fetches (needs the extra 'torchtext')",
            example={"vectors": "glove.6B.50d"},
        )
    ]


@hookimpl
def crvnn_tasks() -> Iterable[Component]:
    return [
        Component(
            "torchtext",
            "crvnn_torchtext.adapter:TorchTextTask",
            summary="a dataset of torchtext's (needs the extra 'torchtext')",
            example={"dataset": "trec"},
        )
    ]
