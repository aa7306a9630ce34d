"""What models do with examples: who is taken for whom, how deep they go, and which examples are worth showing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from attrs import field, frozen

from crvnn_core.errors import CrvnnError, InputError, SpecError, UnknownNameError
from crvnn_core.host.manager import Catalog
from crvnn_core.inference.inspection import Inspection, inspect
from crvnn_core.inference.trained import Text, Trained, load, pair_texts
from crvnn_core.interfaces import Example
from crvnn_core.runs.records import Variant
from crvnn_core.training.data import example_length
from crvnn_core.training.memory import TOKEN_BUDGET, within_budget
from crvnn_core.trees.scoring import Sentence, gold_sentences

#: Tokens of a sequence whose tree and steps are drawn: of a user's text, and of an example of the data.
MOST_TOKENS, SHOWN_TOKENS = 120, 32


@frozen
class Seen:
    """What a model said of one example."""

    length: float  # tokens; of a pair, the mean of both
    steps: float
    gold: str
    said: str

    @property
    def right(self) -> bool:
        """Whether it said what it should."""
        return self.gold == self.said


@frozen
class Look:
    """The first run of a variant, asked about examples."""

    variant: Variant
    trained: Trained | None = field(default=None, repr=False)
    seen: tuple[Seen, ...] = ()
    #: Why there is no model here.
    problem: str = ""


@frozen
class Shown:
    """One input and what each model makes of it."""

    text: Text
    #: What it is, if that is known.
    gold: str | None
    #: Of each model its answer, or why it gives none.
    answers: tuple[Inspection | str, ...]
    #: The right tree of each sequence, where somebody has said.
    trees: tuple[Sentence | None, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether any model gives another answer than the right one."""
        said = (answer.label for answer in self.answers if isinstance(answer, Inspection))
        return self.gold is not None and any(label != self.gold for label in said)


@frozen
class Sample:
    """Examples of a split, or why there are none."""

    split: str
    examples: tuple[Example, ...] = ()
    #: How many the split has.
    of: int = 0
    problem: str = ""


def load_first(variant: Variant, catalog: Catalog, sets: Sequence[str]) -> Look:
    """The model of a variant's first run that has weights, if there is one."""
    trained = [run for run in variant.runs if run.directory.weights.exists()]
    try:
        return Look(variant, load((trained or variant.runs)[0].directory.path, catalog, sets))
    except UnknownNameError:
        raise
    except SpecError as error:
        if any(problem.where.startswith("--set") for problem in error.problems):
            raise
        return Look(variant, problem=str(error))
    except CrvnnError as error:
        return Look(variant, problem=str(error))


def check_classes(looks: Sequence[Look]) -> None:
    """Complain if models of one task tell different classes apart: their data is not the same."""
    models = [look for look in looks if look.trained is not None]
    classes = [tuple(look.trained.task.classes) for look in models if look.trained]
    for look, found in zip(models, classes, strict=True):
        if found != classes[0]:
            first, other = models[0].variant.name, look.variant.name
            raise InputError(
                f"{first} tells {_listed(classes[0])} apart, {other} {_listed(found)}: they are about different data"
            )


def sample(trained: Trained, split: str | None, most: int) -> Sample:
    """Examples of a split (by default the task's last one), spread evenly over it.

    A split that is not there for lack of data is a reason to tell; one that the task does not know is a mistake.
    """
    try:
        name = split or trained.task.splits[-1]
        examples = trained.examples(name)
    except UnknownNameError:
        raise
    except CrvnnError as error:
        return Sample(split or "", problem=str(error))
    chosen = (
        [examples[place * len(examples) // most] for place in range(most)]
        if len(examples) > most
        else examples
    )
    return Sample(name, tuple(chosen), len(examples))


def look_at(look: Look, examples: Sequence[Example], done: Callable[[int], None]) -> tuple[Seen, ...]:
    """What a model says of examples, in their order."""
    trained = look.trained
    if trained is None:
        return ()
    found: dict[int, Seen] = {}
    classes = list(trained.task.classes)
    for group in within_budget(examples, TOKEN_BUDGET):
        output = trained.model.ask(*zip(*(examples[i].sequences for i in group), strict=True))
        steps = torch.stack([encoding.steps for encoding in output.encodings]).float().mean(0).tolist()
        said = output.logits.argmax(-1).tolist()
        for row, i in enumerate(group):
            length = example_length(examples[i]) / len(examples[i].sequences)
            found[i] = Seen(length, steps[row], classes[examples[i].label], classes[said[row]])
        done(len(group))
    return tuple(found[i] for i in range(len(examples)))


def worth_showing(
    trained: Trained, examples: Sequence[Example], looks: Sequence[Look], most: int
) -> list[int]:
    """Numbers of examples to show: half of them such that a model is wrong, of several lengths, none too long."""
    readable = [
        number
        for number, example in enumerate(examples)
        if all(2 < len(sequence) <= SHOWN_TOKENS for sequence in example.sequences)
        and text_of(trained, example) is not None
    ]
    readable.sort(key=lambda number: example_length(examples[number]))
    seen = [look.seen for look in looks if look.seen]
    wrong = [number for number in readable if not all(one[number].right for one in seen)]
    right = [number for number in readable if all(one[number].right for one in seen)]
    half = _spread(wrong, examples, most // 2)
    return _spread(right, examples, most - len(half)) + half


def _spread(numbers: Sequence[int], examples: Sequence[Example], most: int) -> list[int]:
    """Some of them (they come from short to long) whose lengths are spread evenly, no two alike."""
    different = list({examples[number].sequences: number for number in reversed(numbers)}.values())[::-1]
    if len(different) <= most:
        return different
    lengths = {number: example_length(examples[number]) for number in different}
    shortest, longest = lengths[different[0]], lengths[different[-1]]
    chosen: list[int] = []
    for place in range(most):
        wanted = shortest + (place + 0.5) / most * (longest - shortest)
        left = [number for number in different if number not in chosen]
        chosen.append(min(left, key=lambda number: abs(lengths[number] - wanted)))
    return sorted(chosen, key=different.index)


def text_of(trained: Trained, example: Example) -> Text | None:
    """An example as a user would write it; nothing if its tokens would not come out of that again."""
    texts = tuple(" ".join(sequence) for sequence in example.sequences)
    try:
        again = tuple(tuple(trained.task.tokenize(text)) for text in texts)
    except InputError:
        return None
    if again != example.sequences:
        return None
    return (texts[0], texts[1]) if len(texts) == 2 else texts[0]


def questions(texts: Sequence[str], trained: Trained) -> list[Text]:
    """A user's texts; for a task on pairs, two by two. One that is too long to be drawn is an error."""
    found = pair_texts(texts, trained.task)
    for number, text in enumerate(found, 1):
        longest = max(map(len, trained.question(text).sequences))
        if longest > MOST_TOKENS:
            raise InputError(
                f"text {number} has {longest:,} tokens; a report shows texts of up to {MOST_TOKENS}"
            )
    return found


def show(text: Text, gold: str | None, looks: Sequence[Look]) -> Shown:
    """What each model makes of an input."""
    return Shown(text, gold, tuple(_answer(look, text) for look in looks), _right_trees(text, looks))


def _right_trees(text: Text, looks: Sequence[Look]) -> tuple[Sentence | None, ...]:
    trained = next(look.trained for look in looks if look.trained is not None)
    return gold_sentences(trained.task, trained.question(text))


def _answer(look: Look, text: Text) -> Inspection | str:
    if look.trained is None:
        return look.problem
    try:
        return inspect(look.trained, text)
    except InputError as error:  # of this model: its weights may be no numbers any more
        return str(error)


def confusion(seen: Sequence[Seen], classes: Sequence[str]) -> list[list[int]]:
    """How often each class (rows) was taken for each (columns)."""
    place = {name: number for number, name in enumerate(classes)}
    counts = [[0] * len(classes) for _ in classes]
    for one in seen:
        counts[place[one.gold]][place[one.said]] += 1
    return counts


def _listed(classes: Sequence[str], most: int = 6) -> str:
    return ", ".join(classes[:most]) + (" ..." if len(classes) > most else "")
