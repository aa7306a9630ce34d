"""What a model says about texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from crvnn_core.inference.texts import Text
from crvnn_core.trees import Tree
from crvnn_core.views import make_frame

if TYPE_CHECKING:
    import pandas

_ROWS = 50  # of predictions that are drawn


@frozen
class Prediction:
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

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with one row."""
        return Predictions([self]).to_pandas()

    def _repr_html_(self) -> str:
        from crvnn_core.display.notebook import line, page, picture, probabilities, unknown_tokens

        pictures = [
            None if tree is None else tree.picture(token in self.unknown for token in tokens)
            for tree, tokens in zip(self.trees, self.tokens, strict=True)
        ]
        return page(
            *map(line, _texts(self)),
            probabilities(self.probabilities),
            unknown_tokens(self.unknown),
            *map(picture, pictures),
        )


class Predictions(list[Prediction]):
    """The predictions for several texts, in their order."""

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each text, and a column ``p_CLASS`` for each class."""
        return make_frame(map(_row, self))

    def _repr_html_(self) -> str:
        from crvnn_core.display.notebook import bar, lines, mark, more, page, table

        rows: list[tuple[object, ...]] = [
            (
                lines(_texts(one)),
                one.label,
                bar(one.probabilities[one.label]),
                mark(lines("" if tree is None else str(tree) for tree in one.trees), "tree"),
                mark(" ".join(one.unknown), "unknown"),
            )
            for one in self[:_ROWS]
        ]
        columns = ["text", "label", "probability", "tree", "unknown tokens"]
        kept = len(columns) if any(one.unknown for one in self[:_ROWS]) else len(columns) - 1
        return page(
            table(columns[:kept], [row[:kept] for row in rows]), more(_ROWS, len(self), "predictions")
        )


def _texts(prediction: Prediction) -> tuple[str, ...]:
    return (prediction.text,) if isinstance(prediction.text, str) else prediction.text


def _row(source: Prediction) -> dict[str, Any]:
    one = isinstance(source.text, str)
    texts = dict(zip(("text",) if one else ("text_a", "text_b"), _texts(source), strict=True))
    trees = dict(zip(("tree",) if one else ("tree_a", "tree_b"), source.trees, strict=True))
    return {
        **texts,
        "label": source.label,
        **{f"p_{name}": chance for name, chance in source.probabilities.items()},
        **{name: None if tree is None else str(tree) for name, tree in trees.items()},
        "unknown": " ".join(source.unknown),
    }
