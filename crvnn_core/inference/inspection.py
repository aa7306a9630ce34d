"""What a model did with one input, step by step, and the gold trees: all that the explorer and the report draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from attrs import frozen

from crvnn_core.engine.trace import STEP_COLUMNS, step_rows
from crvnn_core.errors import InputError
from crvnn_core.inference.predictions import Text
from crvnn_core.inference.trained import Trained
from crvnn_core.interfaces import Encoding, Example
from crvnn_core.trees import Tree, trees_of
from crvnn_core.trees.extraction import describe_conflicts
from crvnn_core.trees.scoring import Sentence, gold_sentences, nontrivial_spans
from crvnn_core.views import make_frame

if TYPE_CHECKING:
    import pandas

Matrix = list[list[float]]


@frozen
class InspectedSequence:
    """One sequence of n tokens through K steps of the encoder; K is 0 for an encoder that gives no trace."""

    tokens: tuple[str, ...]
    #: True at tokens outside the vocabulary, which share one vector.
    unknown: tuple[bool, ...]
    #: [K + 1][n] existential probabilities e before the first step and after each.
    exists: Matrix
    #: [K][n] composition probabilities c of each step.
    compose: Matrix
    tree: Tree | None
    #: [K][n][n] before each step, the probability that j is the left neighbour of i; the rest up to 1 is START's.
    left: list[Matrix] | None = None
    #: [K][n][n] likewise to the right; the rest up to 1 is END's.
    right: list[Matrix] | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON-ready data, with numbers rounded to six digits."""
        return {
            "tokens": list(self.tokens),
            "unknown": list(self.unknown),
            "exists": _rounded(self.exists),
            "compose": _rounded(self.compose),
            "tree": self.tree.plain() if self.tree is not None else None,
            "conflicts": describe_conflicts(self.tree),
            "left": _rounded(self.left),
            "right": _rounded(self.right),
        }


@frozen
class Inspection:
    """A model's prediction for one input, and the steps by which its encoder got there."""

    label: str
    probabilities: dict[str, float]
    #: One, or two for a task on pairs.
    sequences: tuple[InspectedSequence, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON-ready data, with numbers rounded to six digits."""
        return {
            "label": self.label,
            "probabilities": {name: round(chance, 6) for name, chance in self.probabilities.items()},
            "sequences": [sequence.plain() for sequence in self.sequences],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each sequence, step and token."""
        rows = (
            row
            for number, sequence in enumerate(self.sequences)
            for row in step_rows(number, sequence.tokens, sequence.exists, sequence.compose)
        )
        return make_frame(rows, STEP_COLUMNS)

    def _repr_html_(self) -> str:
        from crvnn_core.display.notebook import LEGEND, mark, page, picture, probabilities, steps

        parts: list[str] = [probabilities(self.probabilities)]
        for each in self.sequences:
            if each.exists:
                names = [
                    mark(token, "unknown") if strange else token
                    for token, strange in zip(each.tokens, each.unknown, strict=True)
                ]
                parts.append(steps(names, each.exists, each.compose))
            parts.append(picture(None if each.tree is None else each.tree.picture(each.unknown)))
        return page(*parts, LEGEND)


def inspect(trained: Trained, text: Text, *, hard: bool = False, weights: bool = False) -> Inspection:
    """Predict one text, or one pair of texts, and keep every step of the encoder.

    :param hard: hard inference: binary decisions, composition along one tree.
    :param weights: keep the weights of neighbours as well, two [n, n] matrices a step, where the encoder has them.
    """
    trained.expect_hard_inference(hard)
    sequences = trained.example(text).sequences
    output = trained.model.predict(*([tokens] for tokens in sequences), trace=True, hard=hard)
    chances = output.logits[0].float().softmax(-1).tolist()
    inspected = tuple(
        _sequence(trained, tokens, encoding, hard, weights)
        for tokens, encoding in zip(sequences, output.encodings, strict=True)
    )
    by_class = dict(zip(trained.task.classes, chances, strict=True))
    return Inspection(max(by_class, key=by_class.__getitem__), by_class, inspected)


def _sequence(
    trained: Trained, tokens: tuple[str, ...], encoding: Encoding, hard: bool, weights: bool
) -> InspectedSequence:
    strange = trained.unknown(tokens)
    unknown = tuple(place in strange for place in range(len(tokens)))
    trace, (tree,) = encoding.trace, trees_of(encoding, [tokens], trained.extraction)
    if trace is None:
        return InspectedSequence(tokens, unknown, [], [], tree)
    n, steps = len(tokens), int(trace.steps[0])
    exists = trace.exists[: steps + 1, 0, :n].tolist()
    compose = trace.compose[:steps, 0, :n].tolist()
    sides = [_neighbours(trained, row, hard) for row in exists[:-1]] if weights else [None]
    found = [both for both in sides if both is not None]
    if len(found) < len(sides):
        return InspectedSequence(tokens, unknown, exists, compose, tree)
    left, right = [left for left, _ in found], [right for _, right in found]
    return InspectedSequence(tokens, unknown, exists, compose, tree, left, right)


def neighbours(trained: Trained, exists: Sequence[float], *, hard: bool = False) -> tuple[Matrix, Matrix]:
    """The probability that j is the left, and the right, neighbour of i: [n][n] each.

    :param exists: existential probabilities of n tokens: a row of ``InspectedSequence.exists``.
    :param hard: as in hard inference, where the neighbour is the next token that still exists.
    """
    found = _neighbours(trained, exists, hard)
    if found is None:
        name = trained.spec.model.encoder.name
        raise InputError(
            f"the encoder '{name}' offers no neighbours to show; an encoder offers them by defining 'neighbours'"
        )
    return found


@torch.no_grad()
def _neighbours(trained: Trained, exists: Sequence[float], hard: bool) -> tuple[Matrix, Matrix] | None:
    encoder, device = trained.model.encoder, trained.model.embed.weight.device
    found = encoder.neighbours(torch.tensor(list(exists), device=device), hard=hard)
    return None if found is None else (found[0].tolist(), found[1].tolist())


def _rounded(values: Any) -> Any:
    if isinstance(values, list):
        return [_rounded(value) for value in values]
    return values if values is None else round(values, 6)


@frozen
class Gold:
    """The gold label of one input, and the gold tree of each of its sequences; ``None`` where the task has none."""

    label: str | None
    sentences: tuple[Sentence | None, ...]

    def plain(self, trees: Sequence[Tree | None]) -> dict[str, Any]:
        """As JSON-ready data, with what ``agreement`` says of a model's trees."""
        return {
            "label": self.label,
            "trees": [None if sentence is None else sentence.gold.plain() for sentence in self.sentences],
            "agreement": [agreement(*each) for each in zip(trees, self.sentences, strict=True)],
        }


def read_gold(trained: Trained, text: Text | Example) -> Gold:
    """The gold label and trees of a text, or a pair of texts, as ``Task.gold_label`` and ``Task.gold`` give them."""
    example = trained.example(text)
    return Gold(trained.gold_label(example.sequences), gold_sentences(trained.task, example))


def agreement(tree: Tree | None, sentence: Sentence | None) -> str:
    """How many constituents of the gold tree a tree has; the whole input, which every tree has, is not counted.

    :return: a sentence, empty where there is nothing to compare.
    """
    if tree is None or sentence is None or sentence.too_short or sentence.gold.tokens != tree.tokens:
        return ""
    found, gold = nontrivial_spans(tree), nontrivial_spans(sentence.gold)
    if found == gold:
        return "This is the gold tree."
    text = f"Gold constituents: {len(found & gold)} of {len(gold)}"
    own = (sentence.constituents or frozenset()) - {(0, len(tree.tokens))}
    if own:
        text += f"; those bracketed in the input: {len(found & own)} of {len(own)}"
    return f"{text}."
