"""Trees of a user's texts, parsed by a trained model and written to files, and what is known to be right about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from crvnn_core.errors import InputError
from crvnn_core.files import write_atomically
from crvnn_core.inference.predictions import Prediction
from crvnn_core.inference.texts import Text, gold_label, verdict
from crvnn_core.inference.trained import Trained
from crvnn_core.interfaces import Example
from crvnn_core.trees.extraction import describe_conflicts
from crvnn_core.trees.formats import ONE_LINE
from crvnn_core.trees.scoring import Sentence, gold_sentences, nontrivial_spans
from crvnn_core.trees.tree import Tree

#: The most tokens of a text that ``parse`` takes: longer trees take minutes and cannot be read.
MOST_TOKENS = 5000


@frozen
class Parse:
    """The tree of a text, or of both texts of a pair."""

    text: Text
    trees: tuple[Tree, ...]
    #: For each tree the positions of tokens outside the model's vocabulary.
    unknown: tuple[frozenset[int], ...]
    prediction: Prediction
    #: The true label; empty where the task cannot tell.
    gold: str = ""
    #: How each tree agrees with the gold tree, in words; empty where there is none.
    agreement: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The predicted label."""
        return self.prediction.label

    @property
    def verdict(self) -> str:
        """Whether the label is correct, and how the trees agree with the gold ones; empty where nothing is known."""
        label = f"label {self.label}, {verdict(self.label, self.gold)}. " if self.gold else ""
        return f"{label}{self.agreements}".rstrip()

    @property
    def agreements(self) -> str:
        """How the trees agree with the gold ones, in words; empty where there are none."""
        trees = [
            f"Tree {number}: {text}" if len(self.agreement) > 1 else text
            for number, text in enumerate(self.agreement, 1)
            if text
        ]
        return " ".join(trees)

    @property
    def conflicts(self) -> str:
        """The conflicts of the trees in words; empty if there are none."""
        return " ".join(filter(None, map(describe_conflicts, self.trees)))

    @property
    def unknown_tokens(self) -> list[str]:
        """The tokens outside the model's vocabulary, each of them once, in order of appearance."""
        pairs = zip(self.trees, self.unknown, strict=True)
        found = (tree.tokens[place] for tree, places in pairs for place in sorted(places))
        return list(dict.fromkeys(found))

    def written(self, form: str) -> list[str]:
        """Each tree in one of the ``FORMATS``."""
        pairs = zip(self.trees, self.unknown, strict=True)
        return [tree.to(form, unknown=places).rstrip("\n") for tree, places in pairs]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        pairs = zip(self.trees, self.unknown, strict=True)
        trees = [
            {
                "brackets": str(tree),
                **tree.plain(),
                "unknown": sorted(places),
                "conflicts": describe_conflicts(tree),
            }
            for tree, places in pairs
        ]
        judged = {"gold": self.gold, "correct": self.label == self.gold} if self.gold else {}
        agreement = {"agreement": list(self.agreement)} if any(self.agreement) else {}
        return {"text": self.text, "label": self.label, **judged, **agreement, "trees": trees}


def parse(
    trained: Trained,
    texts: Sequence[Text | Example],
    *,
    hard: bool = False,
    done: Callable[[int], None] | None = None,
) -> list[Parse]:
    """The tree along which a model composes each text, as ``crvnn predict --trees`` shows it.

    :param texts: pairs of texts for a task on pairs; or examples, whose labels do not matter.
    :param hard: hard inference: binary decisions, composition along one tree.
    :param done: is called with the number of texts after each batch.
    """
    examples = [trained.example(text, number) for number, text in enumerate(texts)]
    for number, example in enumerate(examples, 1):
        longest = max(map(len, example.sequences))
        if longest > MOST_TOKENS:
            raise InputError(f"text {number} has {longest:,} tokens; up to {MOST_TOKENS:,} can be parsed")
    answers = trained.predict(examples, done, hard=hard)
    return [_parse(trained, *each) for each in zip(texts, examples, answers, strict=True)]


def _parse(trained: Trained, text: Text | Example, example: Example, answer: Prediction) -> Parse:
    trees, gold = trained.whole_trees(answer), read_gold(trained, example)
    return Parse(
        answer.text if isinstance(text, Example) else text,
        trees,
        tuple(trained.unknown(tree.tokens) for tree in trees),
        answer,
        gold=gold.label or "",
        agreement=tuple(agreement(*each) for each in zip(trees, gold.sentences, strict=True)),
    )


def write_parses(parses: Sequence[Parse], path: Path, form: str) -> list[Path]:
    """Write trees to a file and return its path.

    Several trees in a format that is not ``ONE_LINE`` go to numbered files (``tree-1.svg``, ...), all of which are
    returned.
    """
    trees = [tree for parse in parses for tree in parse.written(form)]
    if form == "json" and path.suffix.lower() == ".json" and len(trees) > 1:
        files = {path: "[\n" + ",\n".join(trees) + "\n]"}  # a .json file holds one value
    elif len(trees) == 1 or form in ONE_LINE:
        files = {path: "\n".join(trees)}
    else:
        numbered = enumerate(trees, 1)
        files = {path.with_name(f"{path.stem}-{number}{path.suffix}"): tree for number, tree in numbered}
    for file, text in files.items():
        write_atomically(file, f"{text}\n")
    return list(files)


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
    return Gold(gold_label(trained.task, example.sequences), gold_sentences(trained.task, example))


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
