"""The parts of a recursion. Shapes: B sequences, n positions, d = width, s = a cell's state width."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn


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

    def multiply_adds(self, values: Tensor) -> int | None:
        """The multiply-adds of ``left`` or ``right`` of these values, at most; ``None`` to count torch's operations.

        Override this where compiled code does the work, which cannot be counted as it runs.
        """
        return None


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

    def traceable(self) -> Retriever:
        """A retriever with the same result that torch traces once for all lengths: no Python code that depends on n.

        By default this one. Define it where ``forward`` chooses or recurses by the number of positions.
        """
        return self


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
    #: Whether c_i c_j of two neighbours is at most 1/2 while every e is 0 or 1. If not, both may be composed in one
    #: step: a conflict, in which what the left one carried is lost.
    excludes_conflicts: bool = False

    if TYPE_CHECKING:

        def __call__(
            self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor
        ) -> Tensor: ...

    @abstractmethod
    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        """``scores`` u, ``eligible`` (bool) and ``exists`` e, all [B, n] -> c [B, n] in [0, 1], 0 where not eligible.

        A decision that normalises over the row weighs positions by ``exists``, which is 0 under padding: then taking
        out positions with e = 0 changes nothing, as the engine does with ``shortcuts``.
        """

    def likelihood(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        """The probabilities of composing [B, n] whose likelihood supervised decisions maximise; by default c.

        Define it where c saturates at 0 or 1 and its gradient vanishes: give c before that.
        """
        return self(scores, near, eligible, exists)


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
    """Decides, after a step, which sequences take another one."""

    #: No sequence takes more steps than this, whatever ``forward`` says; ``None`` for no limit.
    limit: int | None = None
    #: Whether it reads ``vectors``. One that does not is called before they are computed, and in the last step
    #: only those of last tokens are.
    needs_vectors: bool = True

    if TYPE_CHECKING:

        def __call__(self, exists: Tensor, vectors: Tensor, step: int) -> Tensor: ...

    @abstractmethod
    def forward(self, exists: Tensor, vectors: Tensor, step: int) -> Tensor:
        """After step number ``step``: bool [B], true for another step.

        ``exists`` [B, n] is 0 where there is no token; ``vectors`` [B, n, d] are the cell's read-outs, 0 where
        ``exists`` is. Positions with e = 0 may be missing, so sums over positions are safe and means are not.
        """


class StatefulHalting(Halting):
    """A halting with a state of its own for each sequence, which the engine carries from step to step.

    The state [B, ...] is a tensor of any shape and type behind its first dimension. Its rows leave the batch with their
    sequences. Nothing is kept in the module: it may be called twice for a step, and batches may alternate.
    """

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]
            self, exists: Tensor, vectors: Tensor, step: int, state: Tensor
        ) -> tuple[Tensor, Tensor]: ...

    @abstractmethod
    def initial_state(self, exists: Tensor, vectors: Tensor) -> Tensor:
        """The state [B, ...] before the first step; ``exists`` is 1 at every token, ``vectors`` are of leaves."""

    @abstractmethod
    def forward(  # type: ignore[override]
        self, exists: Tensor, vectors: Tensor, step: int, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What ``Halting.forward`` returns, and the next state, from the state before."""


class Scheduled(nn.Module):
    """A module that looks at ``progress``: 0 when training begins, 1 when it ends; saved with the weights."""

    progress: Tensor

    def add_progress(self) -> None:
        """Call this in ``__init__``."""
        self.register_buffer("progress", torch.zeros(()))


def set_progress(model: nn.Module, fraction: float) -> None:
    """Tell every scheduled part of a model how far training has come."""
    for module in model.modules():
        if isinstance(module, Scheduled):
            module.progress.fill_(fraction)
