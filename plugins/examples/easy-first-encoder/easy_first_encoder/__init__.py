"""Offers the encoder 'easy-first-encoder' to crvnn."""

from collections.abc import Iterable

from crvnn_core import Component, hookimpl


@hookimpl
def crvnn_encoders() -> Iterable[Component]:
    return [
        Component(
            "easy-first-encoder",
            "easy_first_encoder.encoder:EasyFirst",
            summary="merges the best-scoring neighbouring pair, one pair a step",
        )
    ]
