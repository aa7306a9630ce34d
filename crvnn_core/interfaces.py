"""The interfaces of the slots. Shapes: B sequences, n positions, d = width, s = a cell's state width."""

from __future__ import annotations

import inspect
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from attrs import frozen
from torch import Tensor, nn

from crvnn_core.deprecation import Renamed, adopt_renamed
from crvnn_core.errors import ContractError, CrvnnError

if TYPE_CHECKING:
    from crvnn_core.engine.trace import Trace
    from crvnn_core.trees import Tree


class Neighbourhood(ABC):
    """Each position's soft neighbours, as two linear operators on ``[B, n]`` or ``[B, n, d]`` tensors."""

    #: Whether it keeps its answers, so that asking again about the same tensor costs nothing.
    caches: bool = False

    @abstractmethod
    def left(self, values: Tensor) -> Tensor:
        """The expected value of the closest existing position to the left; 0 where there is none."""

    @abstractmethod
    def right(self, values: Tensor) -> Tensor:
        """The expected value of the closest existing position to the right; 0 where there is none."""

    def window(self, values: Tensor, reach: int) -> list[Tensor]:
        """The values between those of ``reach`` neighbours to each side: ..., left(left(v)), left(v), v, right(v), ...

        Override this where all of them together cost less than one by one.
        """
        lefts, rights = [values], [values]
        for _ in range(reach):
            lefts.append(self.left(lefts[-1]))
            rights.append(self.right(rights[-1]))
        return [*lefts[:0:-1], *rights]

    def stacked(self, values: Tensor, reach: int) -> Tensor:
        """The same side by side [B, n, (2 reach + 1) d], for values [B, n, d]."""
        return torch.cat(self.window(values, reach), -1)


class Part(nn.Module, ABC):
    """A part of a model: an encoder, or what an encoder is built from."""

    #: The parameters of ``__init__`` that may change after training: they change the result under the same weights. The
    #: explorer has a control for each. Leave out what shapes weights or matters in training alone; ``None`` for all.
    live_settings: tuple[str, ...] | None = None


class Retriever(Part):
    """Finds each position's soft neighbours from the existential probabilities."""

    #: How many positions away it can see; ``None`` for any distance.
    reach: int | None = None

    if TYPE_CHECKING:

        def __call__(self, exists: Tensor, mask: Tensor) -> Neighbourhood: ...

    @abstractmethod
    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        """``exists`` [B, n] in [0, 1], ``mask`` [B, n] true where there is a position at all."""


class Scorer(Part):
    """Scores how much each position wants to be composed with its right neighbour."""

    if TYPE_CHECKING:

        def __call__(self, vectors: Tensor, near: Neighbourhood, left_c: Tensor) -> Tensor: ...

    @abstractmethod
    def forward(self, vectors: Tensor, near: Neighbourhood, left_c: Tensor) -> Tensor:
        """``vectors`` [B, n, d] (the cell's read-outs), ``left_c`` [B, n] (left(c) of the last step) -> u [B, n]."""


class Decision(Part):
    """Turns scores into composition probabilities."""

    #: Whether the gradient of c vanishes where c is saturated at 0 or 1, as a sigmoid's does. Only then may training
    #: leave out contributions of weight 0; a straight-through decision still learns from them.
    gradient_vanishes: bool = False
    #: Whether c can be exactly 0 or 1. Where it cannot, the engine need not look for exact zeros.
    can_saturate: bool = True

    fades, settles = Renamed("gradient_vanishes"), Renamed("can_saturate")

    if TYPE_CHECKING:

        def __call__(
            self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor
        ) -> Tensor: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        adopt_renamed(cls)

    def __init__(self) -> None:
        super().__init__()
        self._expect_four_arguments()

    @abstractmethod
    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        """``scores`` u, ``eligible`` (bool) and ``exists`` e, all [B, n] -> c [B, n] in [0, 1], 0 where not eligible.

        A decision that normalises over the row weighs positions by ``exists``, which is 0 under padding: then taking
        out positions with e = 0 changes nothing, as the engine does with ``shortcuts``.
        """

    def _expect_four_arguments(self) -> None:
        """Raise ``ContractError`` for a ``forward`` written before decisions were given ``exists``."""
        signature = inspect.signature(self.forward)
        try:
            signature.bind("scores", "near", "eligible", "exists")
        except TypeError:
            raise ContractError(
                f"decision {type(self).__name__} defines forward{signature}, but decisions are called with four "
                "arguments: change it to forward(self, scores, near, eligible, exists), where exists [B, n] is the "
                "probability that a position still exists, 0 under padding",
                "decision",
            ) from None


class Cell(Part):
    """Composes two children into their parent, and owns what a node is.

    A node is a vector of ``state_width`` numbers, of which the first ``width`` are what scorers and heads
    see, unless ``readout`` says otherwise. The engine retrieves and mixes whole states linearly.
    """

    if TYPE_CHECKING:

        def __call__(self, left: Tensor, right: Tensor) -> Tensor: ...

    def __init__(self, width: int, state_width: int | None = None) -> None:
        super().__init__()
        self.width = width
        self.state_width = state_width or width

    @abstractmethod
    def leaf(self, inputs: Tensor) -> Tensor:
        """Input vectors [..., d] -> states of leaves [..., s]."""

    @abstractmethod
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """States of two children [..., s] -> state of their parent [..., s]."""

    def readout(self, state: Tensor) -> Tensor:
        """A state [..., s] as a vector [..., d]."""
        return state if self.state_width == self.width else state[..., : self.width]


class Halting(Part):
    """Says, after a step, which sequences go on."""

    #: No sequence takes more steps than this, whatever ``forward`` says; ``None`` for no limit.
    limit: int | None = None
    #: Whether ``forward`` reads ``vectors``. One that does not is called before they are computed, and after the last
    #: step only those of last tokens are.
    needs_vectors: bool = True

    looks = Renamed("needs_vectors")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        adopt_renamed(cls)

    if TYPE_CHECKING:

        def __call__(self, exists: Tensor, vectors: Tensor, step: int) -> Tensor: ...

    @abstractmethod
    def forward(self, exists: Tensor, vectors: Tensor, step: int) -> Tensor:
        """What is left after step number ``step`` -> bool [B], true to go on.

        ``exists`` [B, n] is 0 where there is no token; ``vectors`` [B, n, d] are the cell's read-outs.
        """


@dataclass(eq=False)  # not attrs: torch looks for tensors inside dataclasses, for DDP and for compiling
class Encoding:
    """What an encoder gives for a batch."""

    vector: Tensor  # [B, d]
    penalty: Tensor  # [B], to be added to the loss
    steps: Tensor  # [B], recursion steps taken
    trace: Trace | None = None
    #: From an encoder with a structure of its own, when a trace is asked for: for each sequence of n tokens the
    #: positions 0 ... n - 2 in the order in which what ends there joins what is to its right.
    joins: Sequence[Sequence[int]] | None = None


class Encoder(Part):
    """Turns embedded sequences into one vector each."""

    #: Whether ``forward`` takes ``hard=True``: decisions are binary then, and composition follows one tree.
    hard_inference: bool = False

    if TYPE_CHECKING:

        def __call__(
            self, inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = False
        ) -> Encoding: ...

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def neighbours(self, exists: Tensor, *, hard: bool = False) -> tuple[Tensor, Tensor] | None:
        """The probability that j is the left, and the right, neighbour of i, [n, n] each; ``None`` if there is none.

        Define it to show the neighbours of tokens in the explorer.

        :param exists: the existential probabilities [n] of one sequence's tokens.
        :param hard: as in hard inference, where the neighbour is the next token that still exists.
        """
        return None

    def step_limit(self, length: int) -> int | None:
        """The most steps that a sequence of ``length`` tokens can take; ``None`` if the encoder has no such limit."""
        return None

    @abstractmethod
    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        """``inputs`` [B, n, d], ``mask`` [B, n] true at tokens, padding on the right.

        With ``trace``, show the tree: as a ``Trace``, or as ``joins``; neither where there is none. An encoder with
        ``hard_inference`` takes ``hard`` as well; no other is ever given it.
        """


@frozen
class Example:
    """One or two token sequences, and the index of their class."""

    sequences: tuple[tuple[str, ...], ...]
    label: int


class Task(ABC):
    """Where examples come from, and what is asked about them.

    A task is built without looking at its data: a trained model is used where its training data is not. What
    ``vocabulary`` and ``classes`` need from the data is read when they are first asked for, and a saved model sets
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
    #: Sequences in an example: 1, or 2 for tasks on pairs.
    arity: int = 1

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

    def why_missing(self, split: str) -> str:
        """Why a split is not among ``splits`` although it could be, for messages: a file that is not there, say."""
        return ""

    def bucket(self, example: Example) -> str:
        """The group that an example is counted in when results are reported; empty for none."""
        return ""

    def gold(self, example: Example) -> tuple[Tree | None, ...]:
        """The right tree of each sequence, to score found ones against; ``None`` where nobody has said."""
        return (None,) * len(example.sequences)

    def constituents(self, example: Example) -> tuple[frozenset[tuple[int, int]] | None, ...]:
        """Spans (start, end) that each sequence has by itself, where the rest of its gold tree is a convention.

        ``None`` where nothing is a convention, or nobody has said.
        """
        return (None,) * len(example.sequences)

    def tokenize(self, text: str) -> tuple[str, ...]:
        """A user's text as tokens."""
        return tuple(text.split())

    def head(self, width: int, dropout: float) -> nn.Module:
        """A module from one sentence vector [B, d] per sequence to logits [B, classes]."""
        from crvnn_core.inference.model import Head

        return Head(width, len(self.classes), arity=self.arity, layers=2, dropout=dropout)


class Embedding(ABC):
    """Where the vectors of tokens begin: at random, or in somebody's file.

    It is asked once, when a model is made; a saved model has its vectors among its weights.
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


class Observer:
    """Is told what happens during training; override what you need."""

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        """Training begins or goes on, to end at step ``steps``; ``facts`` has ``step``, where it stands.

        ``facts`` also has ``parameters`` (how many) and ``directory`` (where the run is kept, or ``None``).
        """

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        """Step number ``step`` (from 1) is done."""

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """The model was tried on the development split after this step."""

    def noted(self, message: str) -> None:
        """Something happened that a user should know."""

    def finished(self, facts: Mapping[str, Any]) -> None:
        """Training has ended, as planned or not."""
