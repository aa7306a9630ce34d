"""Encoders, and what they return. Shapes: B sequences, n tokens, d = width."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from crvnn_core.errors import CrvnnError
from crvnn_core.interfaces.parts import Part

if TYPE_CHECKING:
    from crvnn_core.engine.trace import Trace


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
    #: From ``sample``, the trees that were composed along: ``levels`` [B, n] as ``Encoder.forward`` takes them.
    levels: Tensor | None = None
    #: When composing along given trees: the mean negative log-likelihood [B] of the decisions that build them.
    decision_loss: Tensor | None = None
    #: From an encoder that samples decisions, in training: the log-probability [B] of those it sampled. The loss gets a
    #: term with the gradient of the expected cross-entropy with respect to them (REINFORCE).
    log_probability: Tensor | None = None
    #: Beside ``log_probability``: vectors [B, d], such as those of the most likely decisions, without gradient. The
    #: head classifies them too, and ``Encoder.relative_cost`` is given their cross-entropy.
    baseline: Tensor | None = None


class Encoder(Part):
    """Turns embedded sequences into one vector each."""

    #: Whether ``forward`` takes ``hard=True``: decisions are binary then, and composition follows one tree.
    hard_inference: bool = False
    #: Whether decisions can be supervised: ``forward`` takes ``levels``, and ``sample`` is defined.
    tree_supervision: bool = False
    #: Whether it composes along given trees only: ``forward`` is always given ``levels``, made from ``Task.gold``.
    needs_trees: bool = False

    if TYPE_CHECKING:

        def __call__(
            self,
            inputs: Tensor,
            mask: Tensor,
            *,
            trace: bool = False,
            hard: bool = False,
            levels: Tensor | None = None,
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

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        """A module from inputs [B, n, d] and mask [B, n] to vectors [B, d] that torch traces once for all B and n.

        ``crvnn share export`` asks for it. By default it calls ``forward``; define it where ``forward`` reads lengths
        from the data, or has Python code that depends on them. Raise ``CrvnnError`` with the reason if that cannot be.

        :param hard: as ``forward`` does with ``hard=True``.
        :param depth: without a loop that depends on data: unrolled to this many steps.
        """
        if self.needs_trees:
            raise CrvnnError("it composes along the trees of its task, which an exported file is not given")
        if depth is not None:
            raise CrvnnError("it has no recursion whose depth could be fixed")
        return _Vectors(self, {"hard": True} if hard else {})

    def sample(self, inputs: Tensor, mask: Tensor, noise: float, cohesion: Tensor | None = None) -> Encoding:
        """Compose along one random tree for each sequence, without gradients; ``levels`` of the result are the trees.

        :param noise: by which Gumbel noise on the scores is multiplied; with 0 the tree is not random.
        :param cohesion: integers [B, n], of each token with its right neighbour, which limit the trees: no two
            nodes join while one of them has a higher cohesion with its neighbour on the other side. Tokens between
            which it is higher than at both ends become a constituent.
        """
        raise NotImplementedError(f"{type(self).__name__} samples no trees")

    def relative_cost(self, cost: Tensor, baseline: Tensor | None) -> Tensor:
        """How much worse than expected the sampled decisions were [B]: the factor of their log-probability.

        By default ``cost - baseline``, or ``cost`` without a baseline. It is called without gradients, once for each
        forward pass in which the encodings have a ``log_probability``. To subtract or divide by running statistics,
        override it and keep them in buffers: they are saved then, and those of the first process are used in all. An
        encoder that wraps another calls that of the other.

        :param cost: the cross-entropy [B] of each example.
        :param baseline: that of the vectors ``Encoding.baseline``, if the encodings have them.
        """
        return cost if baseline is None else cost - baseline

    @abstractmethod
    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        """``inputs`` [B, n, d], ``mask`` [B, n] true at tokens, padding on the right.

        With ``trace``, show the tree: as a ``Trace``, or as ``joins``; neither where there is none. An encoder with
        ``hard_inference`` takes ``hard`` as well; no other is ever given it. One with ``tree_supervision`` takes
        ``levels`` [B, n] and composes along the trees that they describe: in step k = 1, 2, ... every token whose level
        is k joins its right neighbour with all that has joined it; the last token and padding have level 0. One with
        ``needs_trees`` is given ``levels`` in every call, where the level of a node is one more than the higher one of
        its children.
        """


def expect_hard_inference(encoder: Encoder, name: str) -> None:
    """Refuse hard inference with an encoder that does not declare it; ``name`` is what the message calls it."""
    if not encoder.hard_inference:
        raise CrvnnError(
            f"the encoder '{name}' offers no hard inference; an encoder offers it by setting "
            "'hard_inference = True' and taking 'hard' in its forward"
        )


def expect_tree_supervision(encoder: Encoder) -> None:
    """Refuse to compose along given or sampled trees with an encoder that does not declare it."""
    if encoder.needs_trees:
        raise CrvnnError(
            f"the encoder {type(encoder).__name__} always composes along the task's gold trees: it has no decisions "
            "that could be supervised or sampled"
        )
    if not encoder.tree_supervision:
        raise CrvnnError(
            f"the encoder {type(encoder).__name__} cannot compose along given trees; an encoder offers it by setting "
            "'tree_supervision = True', taking 'levels' in its forward and defining 'sample'"
        )


class _Vectors(nn.Module):
    """The vectors of an encoder's encodings."""

    def __init__(self, encoder: Encoder, options: dict[str, Any]) -> None:
        super().__init__()
        self.encoder, self.options = encoder, options

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(inputs, mask, **self.options).vector
