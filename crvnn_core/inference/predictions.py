"""What a model says about texts."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from crvnn_core.display import Shown
from crvnn_core.inference.texts import Text
from crvnn_core.trees import Tree


@frozen
class Prediction(Shown):
    """A model's prediction for one text, or for one pair of texts."""

    label: str
    probabilities: dict[str, float]
    #: One for each sequence; ``None`` from an encoder that composes along no tree.
    trees: tuple[Tree | None, ...]
    text: Text
    #: The tokens of each sequence.
    tokens: tuple[tuple[str, ...], ...]
    #: The tokens outside the model's vocabulary, each of them once, in order of appearance.
    unknown: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree | None:
        """The tree of the (first) sequence."""
        return self.trees[0]

    def plain(self) -> dict[str, Any]:
        """For JSON; trees in brackets."""
        return {
            "text": self.text,
            "label": self.label,
            "probabilities": self.probabilities,
            "trees": [None if tree is None else str(tree) for tree in self.trees],
            "tokens": self.tokens,
            "unknown": self.unknown,
        }


class Predictions(list[Prediction], Shown):
    """The predictions for several texts, in their order."""
