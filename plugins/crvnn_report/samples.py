"""Samples of a split: those that every model predicts, and the few of them whose trees are shown."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from crvnn_core.errors import CrvnnError, InputError, UnknownNameError
from crvnn_core.inference.texts import Text
from crvnn_core.inference.trained import Trained
from crvnn_core.interfaces import Example
from crvnn_core.training.data import example_length
from crvnn_report.models import VariantModel

#: Tokens up to which the sequences of an example can be shown.
MOST_TOKENS = 32


@frozen
class Sample:
    """Examples of a split, or the reason why there are none."""

    split: str
    examples: tuple[Example, ...] = ()
    #: How many examples the split has.
    split_size: int = 0
    problem: str = ""


def draw_sample(trained: Trained, split: str | None, most: int) -> Sample:
    """At most ``most`` examples, spread evenly over a split (by default the task's last one).

    Missing data is a reason in ``Sample.problem``; a split that the task does not have is an error.
    """
    try:
        name = split or trained.task.splits[-1]
        examples = trained.examples(name)
    except UnknownNameError:
        raise
    except CrvnnError as error:
        return Sample(split or "", problem=str(error))
    if len(examples) <= most:
        return Sample(name, tuple(examples), len(examples))
    chosen = tuple(examples[place * len(examples) // most] for place in range(most))
    return Sample(name, chosen, len(examples))


def choose_examples(
    trained: Trained, examples: Sequence[Example], models: Sequence[VariantModel], most: int
) -> list[int]:
    """Indices of examples to show, of various lengths; up to half of them such that a model is wrong."""
    short = [
        index
        for index, example in enumerate(examples)
        if all(2 < len(sequence) <= MOST_TOKENS for sequence in example.sequences)
        and example_text(trained, example) is not None
    ]
    short.sort(key=lambda index: example_length(examples[index]))
    predictions = [model.predictions for model in models if model.predictions]
    wrong = [index for index in short if not all(one[index].correct for one in predictions)]
    correct = [index for index in short if all(one[index].correct for one in predictions)]
    half = _spread(wrong, examples, most // 2)
    return _spread(correct, examples, most - len(half)) + half


def example_text(trained: Trained, example: Example) -> Text | None:
    """The text that the task tokenizes into an example; ``None`` if joining its tokens does not give it."""
    texts = tuple(" ".join(sequence) for sequence in example.sequences)
    try:
        again = tuple(tuple(trained.task.tokenize(text)) for text in texts)
    except InputError:
        return None
    if again != example.sequences:
        return None
    return (texts[0], texts[1]) if len(texts) == 2 else texts[0]


def _spread(indices: Sequence[int], examples: Sequence[Example], most: int) -> list[int]:
    """At most ``most`` of the indices, ordered by length, of evenly spread lengths and different sequences."""
    different = list({examples[index].sequences: index for index in reversed(indices)}.values())[::-1]
    if len(different) <= most:
        return different
    lengths = {index: example_length(examples[index]) for index in different}
    shortest, longest = lengths[different[0]], lengths[different[-1]]
    chosen: list[int] = []
    for place in range(most):
        wanted = shortest + (place + 0.5) / most * (longest - shortest)
        left = [index for index in different if index not in chosen]
        chosen.append(min(left, key=lambda index: abs(lengths[index] - wanted)))
    return sorted(chosen, key=different.index)
