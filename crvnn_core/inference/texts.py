"""Texts that a user gives to a trained model, one for each input, or two for a task on pairs, and their labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from attrs import evolve

from crvnn_core.errors import InputError, nearest
from crvnn_core.interfaces import Example, Task

#: A text, or two of them for a task on pairs.
Text = str | tuple[str, str]


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


T = TypeVar("T")


def listed(texts: Iterable[T], what: str) -> list[T]:
    """Texts as a list; an error if a single text was given to the method ``what``."""
    if isinstance(texts, str):
        raise InputError(f"{what} takes a list of texts: [{texts!r}]")
    return list(texts)


def as_example(text: Text | Example, task: Task, number: int = 0) -> Example:
    """A text, or a pair of texts, as an example whose label means nothing; an example as it is.

    :param number: of the text among those of the user, from 0, for error messages.
    """
    if isinstance(text, Example):
        return text
    sequences = tokenized(text, task, number)
    if len(sequences) != task.arity:
        raise _other_kind(text, task, number)
    return Example(sequences, 0)


def tokenized(text: Text, task: Task, number: int = 0) -> tuple[tuple[str, ...], ...]:
    """The tokens of a text, or of each text of a pair, whichever the task is about."""
    parts = tuple(text) if isinstance(text, (tuple, list)) else (text,)
    if not all(isinstance(part, str) for part in parts) or len(parts) not in (1, 2):
        raise _other_kind(text, task, number)
    try:
        sequences = tuple(tuple(task.tokenize(part)) for part in parts)
    except InputError as error:
        raise InputError(f"text {number + 1}: {error}") from None
    if not all(sequences):
        raise InputError(f"text {number + 1} is empty: there is nothing to predict")
    return sequences


def labelled(texts: Sequence[Any], labels: Iterable[Any], task: Task) -> list[Example]:
    """Texts (or pairs) and their labels as examples of a task."""
    numbers = {label: number for number, label in enumerate(task.classes)}
    given = [str(label) for label in labels]
    if len(given) != len(texts):
        raise InputError(f"there are {len(texts):,} texts and {len(given):,} labels")
    for label in given:
        if label not in numbers:
            known = f"{nearest(label, numbers)} There are {', '.join(numbers)}."
            raise InputError(f"no class is called '{label}'.{known}")
    pairs = enumerate(zip(texts, given, strict=True))
    return [evolve(as_example(text, task, place), label=numbers[label]) for place, (text, label) in pairs]


def _other_kind(text: Text, task: Task, number: int) -> InputError:
    wanted = "a text" if task.arity == 1 else "a pair of texts"
    return InputError(f"text {number + 1}: the task asks for {wanted}, not for {text!r}")
