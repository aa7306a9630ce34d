"""A complete model: embedding, encoder and head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import crvnn_core.display.traces  # noqa: F401  # draws the traces of models in a notebook
from crvnn_core.engine.checks import expect_finite
from crvnn_core.errors import ContractError, InputError
from crvnn_core.evaluation_mode import evaluating
from crvnn_core.interfaces import Encoder, Encoding, Example, Task
from crvnn_core.interfaces.encoder import expect_hard_inference as expect_hard_inference
from crvnn_core.interfaces.encoder import expect_tree_supervision as expect_tree_supervision
from crvnn_core.kernels import fixed_weights
from crvnn_core.model.batch import RESERVED, UNKNOWN, Batch, Tokens, Vocabulary, collate, collate_trees
from crvnn_core.precision import at_least_float32
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import TreeSource

#: Activations of a head by their names in specs.
ACTIVATIONS = {"gelu": nn.GELU, "elu": nn.ELU, "relu": nn.ReLU}


class Head(nn.Module):
    """An MLP from sentence vectors to logits; for a pair, from [a; b; |a - b|; a * b].

    :param layers: 1 or 2 affine layers.
    :param activation: between two layers: gelu, elu or relu.
    """

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        arity: int = 1,
        layers: int = 2,
        activation: str = "gelu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        features = width if arity == 1 else 4 * width
        middle: list[nn.Module] = (
            [nn.Dropout(dropout), nn.Linear(features, width), ACTIVATIONS[activation]()]
            if layers == 2
            else []
        )
        last = nn.Linear(width if layers == 2 else features, classes)
        self.layers = nn.Sequential(*middle, nn.Dropout(dropout), last)

    def forward(self, *vectors: Tensor) -> Tensor:
        """One or two sentence vectors [B, d] -> logits [B, classes]."""
        if len(vectors) == 2:
            one, two = vectors
            vectors = (torch.cat([one, two, (one - two).abs(), one * two], -1),)
        logits: Tensor = self.layers(vectors[0])
        return logits


def head_of(task: Task, width: int, dropout: float) -> nn.Module:
    """The head that a task makes, else one of two layers."""
    own = task.head(width, dropout)
    return Head(width, len(task.classes), arity=task.arity, dropout=dropout) if own is None else own


@dataclass(eq=False)
class Output:
    """Logits for a batch, and the encodings of its sequences."""

    logits: Tensor  # [B, classes]
    encodings: tuple[Encoding, ...]
    #: Logits of the encodings' baselines, where they have them.
    baseline: Tensor | None = None
    #: The encoder's, where decisions were sampled to learn from.
    relative_cost: Callable[[Tensor, Tensor | None], Tensor] | None = None

    def loss(self, labels: Tensor) -> Tensor:
        """Cross-entropy and the encoder's penalty, averaged over the batch and over the sequences of a pair.

        Where decisions were sampled, its gradient is an estimate of that of the expected loss.
        """
        entropy = nn.functional.cross_entropy(at_least_float32(self.logits), labels)
        penalty = torch.stack([encoding.penalty.mean() for encoding in self.encodings]).mean()
        if self.relative_cost is None:
            return entropy + penalty
        return entropy + penalty + self._reinforcement(self.relative_cost, labels)

    def _reinforcement(
        self, relative_cost: Callable[[Tensor, Tensor | None], Tensor], labels: Tensor
    ) -> Tensor:
        """REINFORCE: 0, with the gradient of the expected cross-entropy with respect to the sampled decisions."""
        with torch.no_grad():
            cost = _cross_entropies(self.logits, labels)
            baseline = None if self.baseline is None else _cross_entropies(self.baseline, labels)
            relative = relative_cost(cost, baseline)
        # The sequences of a pair are sampled independently, so their log-probabilities add up.
        sampled = [e.log_probability for e in self.encodings if e.log_probability is not None]
        surrogate = (relative * torch.stack(sampled).sum(0)).mean()
        return surrogate - surrogate.detach()  # so that the loss that is shown stays the cross-entropy


def _cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(at_least_float32(logits), labels, reduction="none")


class TokenVectors(nn.Module):
    """An embedding table for known tokens, and one trained vector that unknown tokens share."""

    def __init__(self, vectors: Tensor, trainable: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(vectors, requires_grad=trainable)  # [tokens, e]
        self.unknown = nn.Parameter(torch.randn(vectors.shape[1], dtype=vectors.dtype) * _spread(vectors))

    def forward(self, ids: Tensor) -> Tensor:
        """Token numbers [B, n] -> vectors [B, n, e]."""
        known = nn.functional.embedding((ids - RESERVED).clamp(min=0), self.weight)
        return torch.where((ids == UNKNOWN).unsqueeze(-1), self.unknown, known)


def _spread(vectors: Tensor) -> Tensor | float:
    return vectors.std() if vectors.numel() > 1 else 1.0


class Model(nn.Module):
    """Embeds tokens, encodes each sequence, and classifies with the head.

    :param tokens: those that have a vector of their own.
    :param projection: whether an affine map lies between token vectors and encoder.
    """

    if TYPE_CHECKING:

        def __call__(
            self,
            batch: Batch,
            *,
            trace: bool = False,
            hard: bool = False,
            levels: Sequence[Tensor] | None = None,
        ) -> Output: ...

    def __init__(
        self,
        tokens: Sequence[str],
        embed: TokenVectors,
        encoder: Encoder,
        head: nn.Module,
        *,
        width: int,
        dropout: float = 0.0,
        projection: bool = True,
    ) -> None:
        super().__init__()
        self.vocabulary = Vocabulary(tokens)
        self.embed = embed
        self.project = nn.Linear(embed.weight.shape[1], width) if projection else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.encoder = encoder
        self.head = head
        #: Where trees come from, if the encoder declares ``needs_trees``.
        self.tree_source = TreeSource()

    def batch(self, examples: Sequence[Example], trees: Sequence[Sequence[Tree]] | None = None) -> Batch:
        """Examples as a batch on the CPU, with their trees if the encoder declares ``needs_trees``.

        :param trees: of the sequences of each example; by default the task's gold trees.
        """
        if not self.encoder.needs_trees:
            return collate(examples, self.vocabulary)
        source = self.tree_source
        trees = trees or [source.trees(example) for example in examples]
        return collate_trees(examples, self.vocabulary, trees, source.composed)

    def forward(
        self,
        batch: Batch,
        *,
        trace: bool = False,
        hard: bool = False,
        levels: Sequence[Tensor] | None = None,
    ) -> Output:
        """Logits for a batch, and the encodings that they were computed from.

        :param trace: ask the encoder for its trace as well.
        :param hard: hard inference, for an encoder that declares ``hard_inference``.
        :param levels: trees of the sequences to compose along, for an encoder that declares ``tree_supervision``.
        """
        if hard:
            expect_hard_inference(self.encoder, type(self.encoder).__name__)
        if levels is not None:
            expect_tree_supervision(self.encoder)
        asked = "decision_loss" if levels is not None else "vector"
        options: dict[str, Any] = {"trace": trace, **({"hard": True} if hard else {})}
        if self.encoder.needs_trees:
            levels = [tokens.expected_levels() for tokens in batch.sequences]
        encodings = []
        with fixed_weights():
            for place, tokens in enumerate(batch.sequences):
                along: dict[str, Any] = {"levels": levels[place]} if levels is not None else {}
                encodings.append(self.encoder(self._vectors(tokens), tokens.mask, **options, **along))
                if trace and tokens.trees is not None:  # over all tokens, those of structure too
                    encodings[-1].joins = [[node.split - 1 for node in tree.nodes] for tree in tokens.trees]
        self._expect(encodings, asked)
        return self._output(encodings)

    @torch.no_grad()
    def sample(self, batch: Batch, noise: float, cohesion: Sequence[Tensor] | None = None) -> Output:
        """Logits for a batch along random trees, whose ``levels`` are in the encodings; without dropout or gradients.

        :param noise: by which Gumbel noise on the scores is multiplied.
        :param cohesion: limits the trees; for each column of sequences [B, n], as ``Encoder.sample`` takes it.
        """
        expect_tree_supervision(self.encoder)
        columns = len(batch.sequences)
        limits: list[dict[str, Tensor]] = (
            [{}] * columns if cohesion is None else [{"cohesion": limit} for limit in cohesion]
        )
        if len(limits) != columns:
            raise InputError(
                f"cohesion is for {len(limits)} columns of sequences, and the batch has {columns}"
            )
        model = evaluating(self)
        try:
            encodings = tuple(
                model.encoder.sample(model._vectors(tokens), tokens.mask, noise, **limit)
                for tokens, limit in zip(batch.sequences, limits, strict=True)
            )
            self._expect(encodings, "levels")
            return model._output(encodings)
        finally:
            torch.clear_autocast_cache()  # some versions of torch would reuse weights cast without gradients

    def _expect(self, encodings: Sequence[Encoding], name: str) -> None:
        """Refuse what the encoder returned if it is no ``Encoding``, or has nothing of this name."""
        for encoding in encodings:
            if not isinstance(encoding, Encoding):
                kinds = f"{type(self.encoder).__name__} returned a {type(encoding).__name__}"
                raise ContractError(f"encoder {kinds}, not an Encoding", "encoder")
            if getattr(encoding, name) is None:
                kind = type(self.encoder).__name__
                raise ContractError(f"encoder {kind} returned an Encoding without {name}", "encoder")

    def _vectors(self, tokens: Tokens) -> Tensor:
        inputs: Tensor = self.dropout(self.project(self.embed(tokens.ids)))
        return inputs

    def _output(self, encodings: Sequence[Encoding]) -> Output:
        output = Output(self.head(*(encoding.vector for encoding in encodings)), tuple(encodings))
        if any(encoding.log_probability is not None for encoding in encodings):
            output.relative_cost = self.encoder.relative_cost
            baselines = [encoding.baseline for encoding in encodings if encoding.baseline is not None]
            if len(baselines) == len(encodings):
                with torch.no_grad():
                    output.baseline = evaluating(self.head)(*baselines)
        return output

    def probabilities(self, *columns: Sequence[Sequence[str]]) -> Tensor:
        """Class probabilities [B, classes] for token sequences; two columns for a task on pairs."""
        return self.predict(*columns).logits.softmax(-1)

    @torch.no_grad()
    def predict(self, *columns: Sequence[Sequence[str]], trace: bool = False, hard: bool = False) -> Output:
        """The output for token sequences, in evaluation mode and without gradients; two columns for pairs.

        :param trace: ask the encoder for its trace as well.
        :param hard: hard inference, for an encoder that declares ``hard_inference``.
        """
        batch = self.batch([Example(sequences, 0) for sequences in zip(*columns, strict=True)])
        output = evaluating(self)(batch.to(self.embed.weight.device), trace=trace, hard=hard)
        expect_finite(output.logits)
        return output

    @torch.no_grad()
    def encode(self, sequences: Sequence[Sequence[str]], *, hard: bool = False) -> Tensor:
        """The sentence vectors [B, d] of token sequences, in evaluation mode and without gradients.

        :param hard: hard inference, for an encoder that declares ``hard_inference``.
        """
        if hard:
            expect_hard_inference(self.encoder, type(self.encoder).__name__)
        arity = self.tree_source.arity if self.encoder.needs_trees else 1  # of a pair, each sequence is both
        batch = self.batch([Example((tuple(sequence),) * arity, 0) for sequence in sequences])
        tokens, model = batch.sequences[0].to(self.embed.weight.device), evaluating(self)
        options: dict[str, Any] = {"hard": True} if hard else {}
        if self.encoder.needs_trees:
            options["levels"] = tokens.expected_levels()
        with fixed_weights():
            encoding = model.encoder(model._vectors(tokens), tokens.mask, **options)
        self._expect([encoding], "vector")
        expect_finite(encoding.vector)
        return encoding.vector
