"""What training is given: tasks with their examples, embeddings, objectives, and observers."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from torch import Tensor, nn

from crvnn_core.errors import CrvnnError

if TYPE_CHECKING:
    from crvnn_core.model.batch import Batch
    from crvnn_core.model.model import Model, Output
    from crvnn_core.trees import Tree


@frozen
class Example:
    """One or two token sequences, and the index of their class."""

    sequences: tuple[tuple[str, ...], ...]
    label: int


@frozen
class InputRow:
    """A row of a file to predict: one or two texts with their tokens, or the fault of a malformed row."""

    #: On which the row begins, from 1; 0 if the task does not say.
    line: int = 0
    texts: tuple[str, ...] = ()
    #: The tokens of each text.
    sequences: tuple[tuple[str, ...], ...] = ()
    #: The label in the file, if there is one.
    gold: str = ""
    #: What else the row has, by column: an identifier, say.
    columns: Mapping[str, Any] = field(factory=dict)
    fault: str = ""


class Task(ABC):
    """A source of examples, and what else is known about them.

    A task is built without looking at its data: a trained model is used where its training data is not. What
    ``vocabulary`` and ``classes`` need from the data is read when they are first used, and a saved model sets
    both to what it was trained with.
    """

    #: Every token that training meets; tokens outside it become one shared unknown.
    vocabulary: Sequence[str]
    #: What the labels 0, 1, ... stand for.
    classes: Sequence[str]
    #: Names of the splits, the first of which is for training.
    splits: Sequence[str] = ("train", "dev", "test")
    #: The split that decides during training: which weights are best, when to stop. It may be absent.
    development: str = "dev"
    #: How a user gives that split more rows, for the note that it has too few to choose weights by.
    development_advice: str = ""
    #: Sequences in an example: 1, or 2 for tasks on pairs.
    arity: int = 1
    #: Tokens that only mark the structure of a sequence, such as parentheses. An encoder that composes along gold trees
    #: (``gold-tree``) leaves them out; to every other they are tokens as all others are.
    structure_tokens: frozenset[str] = frozenset()

    @abstractmethod
    def examples(self, split: str, seed: int) -> Iterator[Example]:
        """The examples of a split, from first to last; what is random about them depends on ``seed`` alone."""

    def epoch(self, seed: int, number: int) -> Iterable[Example]:
        """The training examples of epoch ``number`` (from 0), in the order to be seen.

        By default all of the training split, shuffled anew each time. A generator may give new ones instead.
        """
        rows = list(self.examples(self.splits[0], seed))
        random.Random(f"epoch {seed} {number}").shuffle(rows)
        return rows

    def read(self, path: Path) -> Iterator[Example]:
        """The examples in a file of the form that this task reads."""
        raise CrvnnError("this task reads no files")

    def inputs(self, path: Path) -> Iterable[InputRow] | None:
        """The rows of a file to predict, which need no label; ``None`` if it is not of the form that this task reads.

        By default the examples that ``read`` gives, if it can read the first of them.
        """
        try:
            examples = iter(self.read(path))
            first = next(examples)
        except (CrvnnError, OSError, ValueError, LookupError, StopIteration):
            return None
        return (
            InputRow(
                texts=tuple(" ".join(tokens) for tokens in example.sequences),
                sequences=example.sequences,
                gold=str(self.classes[example.label]),
            )
            for example in chain([first], examples)
        )

    def why_missing(self, split: str) -> str:
        """Why a split is not among ``splits`` although it could be, for messages: a file that is not there, say."""
        return ""

    def bucket(self, example: Example) -> str:
        """The group that an example is counted in when results are reported; empty for none."""
        return ""

    def gold(self, example: Example) -> tuple[Tree | None, ...]:
        """The right tree of each sequence, over all of its tokens; ``None`` where nobody has said.

        Found trees are scored against them, the objective ``gold-trees`` supervises decisions on them, and an encoder
        with ``needs_trees`` composes along them. It is called for users' texts as well, whose label means nothing.
        """
        return (None,) * len(example.sequences)

    def gold_label(self, sequences: tuple[tuple[str, ...], ...]) -> int | None:
        """The label of sequences that no file labels, computed from them; ``None`` where that cannot be done.

        Pages show by it whether the prediction for a user's text is correct.
        """
        return None

    def constituents(self, example: Example) -> tuple[frozenset[tuple[int, int]] | None, ...]:
        """Spans (start, end) that each sequence has by itself, where the rest of its gold tree is a convention.

        ``None`` where nothing is a convention, or nobody has said.
        """
        return (None,) * len(example.sequences)

    def tokenize(self, text: str) -> tuple[str, ...]:
        """A user's text as tokens."""
        return tuple(text.split())

    def head(self, width: int, dropout: float) -> nn.Module | None:
        """A module from one sentence vector [B, d] per sequence to logits [B, classes].

        ``None`` stands for ``crvnn_core.Head`` with two layers.
        """
        return None


class Embedding(ABC):
    """Where the vectors of tokens begin: at random, or in somebody's file.

    It is called once, when a model is built; a saved model has its vectors among its weights.
    """

    #: Whether training changes the vectors. The one for unknown tokens is always trained.
    trainable: bool = True
    #: What a user should know after ``table``: how many tokens have a vector, say.
    notes: Sequence[str] = ()

    @abstractmethod
    def table(self, tokens: Sequence[str], width: int) -> tuple[Sequence[str], Tensor]:
        """The tokens that get a vector of their own, and the vectors [tokens, any size].

        ``tokens`` is the task's vocabulary, ``width`` the model's. Tokens may be left out (they become unknown)
        and others added, which training may not meet but users may.
        """


class Objective(ABC):
    """What training minimises.

    It has no weights of its own and keeps nothing from one batch to the next, so that a run can be resumed.
    """

    def expect(self, model: Model) -> None:
        """Raise ``CrvnnError`` if a model cannot be trained with it; called once, when a run begins."""
        return

    @abstractmethod
    def loss(
        self, model: Model, forward: Callable[..., Output], batch: Batch, examples: Sequence[Example]
    ) -> tuple[Tensor, Output]:
        """The loss of a batch, averaged over its examples, and the output that the accuracy is counted on.

        :param model: for what needs no gradient.
        :param forward: the model as it is trained (on several devices, say); call it once, for what needs one.
        :param examples: what the batch was made from.
        """


class Observer:
    """Callbacks of training; override what you need.

    Each mapping may get more keys in later versions.
    """

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        """Training begins or resumes, to end at step ``steps``; ``facts`` has ``step``, where it stands.

        ``facts`` also has ``parameters`` (how many), ``directory`` (where the run is kept, or ``None``), ``spec`` (the
        resolved spec as nested tables), ``seed``, and ``components`` (the names of the components in use, by slot).
        With stages in the spec, ``steps`` is the end of the current one, ``stage`` its number from 1.
        """

    def stage_started(self, steps: int, facts: Mapping[str, Any]) -> None:
        """The next stage of the spec begins, to end at step ``steps``; ``facts`` has ``stage``, its number from 1."""

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        """Step number ``step`` (from 1) is done."""

    def evaluating(self, split: str, done: int, examples: int) -> None:
        """An evaluation has come so far: ``done`` of its ``examples``. Called at its beginning and after each batch."""

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """The model was tried on the development split after this step."""

    def noted(self, message: str) -> None:
        """Something happened that a user should know."""

    def finished(self, facts: Mapping[str, Any]) -> None:
        """Training has ended, as planned or not.

        ``facts`` has ``finished`` (whether it came to its end), ``step``, ``best_step``, ``stopped`` (why it ended
        early, or empty), ``error`` (the message of the error that ended it, or empty), and ``results``: by split
        ``total`` and ``buckets`` with the scores of the best weights, as in ``results.json``; empty if it did not
        come to its end.
        """
