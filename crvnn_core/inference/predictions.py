"""Texts that a user gives to a trained model, one for each input or two for a task on pairs, and its predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import frozen

from crvnn_core.errors import InputError
from crvnn_core.interfaces import Example, Task
from crvnn_core.trees import Tree
from crvnn_core.views import make_frame

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
#: A text, or two of them for a task on pairs.
Text = str | tuple[str, str]

_ROWS = 50  # of predictions that are drawn


def as_text(texts: Sequence[str]) -> Text:
    """One text as it is, two as a pair."""
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


def pair_texts(texts: Sequence[str], task: Task) -> list[Text]:
    """Texts as ``Trained.predict`` takes them: as they are, or two by two for a task on pairs."""
    if task.arity == 1:
        return list(texts)
    if len(texts) % 2:
        raise InputError(f"the task is about pairs of texts; {len(texts)} cannot be paired")
    return list(zip(texts[::2], texts[1::2], strict=True))


def listed(texts: Iterable[T], method: str) -> list[T]:
    """Texts as a list; an error if a single text was given to this method."""
    if isinstance(texts, str):
        raise InputError(f"{method} takes a list of texts: [{texts!r}]")
    return list(texts)


def tokenized(
    text: Text, task: Task, number: int = 0, arities: Sequence[int] = (1, 2)
) -> tuple[tuple[str, ...], ...]:
    """The tokens of a text, or of each text of a pair.

    :param number: of the text among those of the user, from 0, for error messages.
    :param arities: how many texts there may be; by default a text or a pair, whichever the task is about.
    """
    parts = tuple(text) if isinstance(text, (tuple, list)) else (text,)
    if not all(isinstance(part, str) for part in parts) or len(parts) not in arities:
        wanted = "a text" if task.arity == 1 else "a pair of texts"
        raise InputError(f"text {number + 1}: the task asks for {wanted}, not for {text!r}")
    try:
        sequences = tuple(tuple(task.tokenize(part)) for part in parts)
    except InputError as error:
        raise InputError(f"text {number + 1}: {error}") from None
    if not all(sequences):
        raise InputError(f"text {number + 1} is empty: there is nothing to predict")
    return sequences


def as_typed(example: Example, task: Task) -> Text | None:
    """The text, or pair of texts, that the task tokenizes into an example; ``None`` if joined tokens do not give it."""
    text = as_text([" ".join(sequence) for sequence in example.sequences])
    try:
        return text if tokenized(text, task) == example.sequences else None
    except InputError:
        return None


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

    def row(self) -> dict[str, Any]:
        """A row of a table: probabilities are ``p_CLASS``, and a pair has ``text_a`` and ``text_b``."""
        ends = ("",) if isinstance(self.text, str) else ("_a", "_b")
        trees = [None if tree is None else str(tree) for tree in self.trees]
        return {
            **{f"text{end}": text for end, text in zip(ends, _texts(self), strict=True)},
            "label": self.label,
            **{f"p_{name}": chance for name, chance in self.probabilities.items()},
            **{f"tree{end}": tree for end, tree in zip(ends, trees, strict=True)},
            "unknown": " ".join(self.unknown),
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
        return make_frame(prediction.row() for prediction in self)

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
