"""What is known to be right about a text: its label, and its trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from crvnn_core.inference.texts import Text
from crvnn_core.inference.trained import Trained
from crvnn_core.interfaces import Example
from crvnn_core.trees.scoring import Sentence, gold_sentences, nontrivial_spans
from crvnn_core.trees.tree import Tree


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
