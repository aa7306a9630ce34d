"""Recursion in recursion: any encoder over chunks of a sequence, then over the vectors of the chunks, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from attrs import define, field
from torch import Tensor, nn
from torch.nn.functional import pad

from crvnn_core import CrvnnError, Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Range, check_ranges
from crvnn_core.evaluation_mode import evaluating
from crvnn_core.trees.extraction import joins_of


class RecursionInRecursion(Encoder):
    """Recursion in Recursion, RIR (Ray Chowdhury and Caragea, 2023): an outer balanced tree, an inner encoder.

    The sequence is cut into chunks of ``chunk`` tokens from the left; the last one may be shorter, and is padded. The
    inner encoder turns each chunk into a vector, all chunks of all sequences in one batch. The vectors are the tokens
    of the next level, until one is left: n tokens take ``log n / log chunk`` levels, rounded up. Use it for long
    inputs, where the inner encoder alone takes too many steps or too much memory.

    The penalty, and the log-probability of sampled decisions, are the sums over all chunks; the steps of a level are
    those of its longest chunk. Inner encoders with trees give one tree of the whole sequence, hard inference is theirs.

    :param inner: the encoder of the chunks; it takes the model's parts, and its settings stand below its name:
        ``model.encoder.inner.layers``.
    :param chunk: tokens per chunk.
    """

    live_settings = ("chunk",)

    @check_ranges
    def __init__(self, width: int, inner: Encoder, chunk: Annotated[int, Range(ge=2)] = 30) -> None:
        super().__init__(width)
        if inner.width != width:
            raise ValueError(
                f"inner must give vectors as wide as its tokens, which are {width} wide, to read them again; "
                f"those of {type(inner).__name__} are {inner.width} wide"
            )
        if inner.needs_trees:
            raise ValueError(
                f"inner must find its own structure: {type(inner).__name__} composes along given trees of whole "
                "sequences, which chunks would cut"
            )
        self.inner, self.chunk = inner, chunk
        self.hard_inference = inner.hard_inference

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        options: dict[str, Any] = {"trace": trace} | ({"hard": True} if hard else {})
        results = _Results(len(lengths), self.chunk, inputs.device)
        rows = list(range(len(lengths)))  # the sequences of which there is not yet one vector
        tokens = inputs.masked_fill(~mask.unsqueeze(-1), 0)  # [rows, n, d]
        while rows:
            chunks, there, counts = self._chunks(tokens, lengths)
            encoding = self.inner(chunks, there, **options)
            results.add(encoding, rows, lengths)
            tokens = _side_by_side(encoding.vector.to(inputs.dtype), counts)
            ended, going = (
                [place for place, n in enumerate(counts) if (n > 1) is more] for more in (False, True)
            )
            results.end(tokens.index_select(0, results.index(ended))[:, 0], [rows[place] for place in ended])
            tokens = tokens.index_select(0, results.index(going))
            rows, lengths = [rows[place] for place in going], [counts[place] for place in going]
        return self._with_baseline(results, inputs, mask)

    def _with_baseline(self, results: _Results, inputs: Tensor, mask: Tensor) -> Encoding:
        """The encoding; where the inner encoder gives baselines, with the vectors of its most likely decisions."""
        encoding = results.encoding()
        if results.baseline:
            with torch.no_grad():
                encoding.baseline = evaluating(self)(inputs, mask).vector
        return encoding

    def _chunks(self, tokens: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor, list[int]]:
        """All chunks [m, k, d], sequence by sequence, their mask [m, k], and how many each sequence has."""
        size, device = min(self.chunk, max(lengths)), tokens.device
        sizes = [_sizes(length, self.chunk) for length in lengths]
        counts = [len(each) for each in sizes]
        most = max(counts)
        tokens = pad(tokens[:, : max(lengths)], (0, 0, 0, most * size - max(lengths)))
        which = [row * most + place for row, count in enumerate(counts) for place in range(count)]
        filled = torch.tensor([size for each in sizes for size in each], device=device)
        chunks = tokens.reshape(-1, size, self.width).index_select(0, torch.tensor(which, device=device))
        return chunks, torch.arange(size, device=device) < filled.unsqueeze(1), counts

    def step_limit(self, length: int) -> int | None:
        total = 0
        while True:
            sizes = _sizes(length, self.chunk)
            limits = [self.inner.step_limit(size) for size in {sizes[0], sizes[-1]}]
            if None in limits:
                return None
            total += max(limit or 0 for limit in limits)
            length = len(sizes)
            if length == 1:
                return total

    def relative_cost(self, cost: Tensor, baseline: Tensor | None) -> Tensor:
        return self.inner.relative_cost(cost, baseline)

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        raise CrvnnError("its chunks are made in Python from the length of each sequence")


def _sizes(length: int, chunk: int) -> list[int]:
    """The sizes of the chunks of so many tokens."""
    return [min(chunk, length - begin) for begin in range(0, length, chunk)]


def _side_by_side(vectors: Tensor, counts: Sequence[int]) -> Tensor:
    """The vectors [m, d] of all chunks, sequence by sequence, as [rows, most chunks, d]; zeros where there is none."""
    places, begin, nothing = [], 0, len(vectors)
    for count in counts:
        places += [*range(begin, begin + count), *[nothing] * (max(counts) - count)]
        begin += count
    index = torch.tensor(places, device=vectors.device)
    return pad(vectors, (0, 0, 0, 1)).index_select(0, index).view(len(counts), -1, vectors.shape[1])


@define
class _Results:
    """What the levels give each of B sequences, in the order of the batch."""

    size: int
    chunk: int
    device: torch.device
    #: Input tokens per token of the level.
    span: int = 1
    vectors: list[Tensor] = field(factory=list)
    rows: list[int] = field(factory=list)
    penalty: Tensor | None = None
    log_probability: Tensor | None = None
    steps: Tensor | None = None
    joins: list[list[int]] | None = None
    baseline: bool = False

    def index(self, numbers: Sequence[int]) -> Tensor:
        """The numbers as a tensor to select by."""
        return torch.tensor(numbers, dtype=torch.long, device=self.device)

    def add(self, encoding: Encoding, rows: Sequence[int], lengths: Sequence[int]) -> None:
        """Count in what the inner encoder gave for all chunks of these sequences, of so many tokens at this level."""
        sizes = [_sizes(length, self.chunk) for length in lengths]
        owner = self.index([row for row, each in zip(rows, sizes, strict=True) for _ in each])
        self.penalty = self._sum(self.penalty, encoding.penalty, owner)
        if encoding.log_probability is not None:
            self.log_probability = self._sum(self.log_probability, encoding.log_probability, owner)
            self.baseline = encoding.baseline is not None
        longest = encoding.steps.new_zeros(self.size).scatter_reduce(0, owner, encoding.steps, "amax")
        self.steps = longest if self.steps is None else self.steps + longest
        self._join(joins_of(encoding, [size for each in sizes for size in each]), rows, sizes)
        self.span *= self.chunk

    def _sum(self, total: Tensor | None, values: Tensor, owner: Tensor) -> Tensor:
        total = values.new_zeros(self.size) if total is None else total
        return total.index_add(0, owner, values.to(total.dtype))

    def _join(
        self, joins: Sequence[Sequence[int]] | None, rows: Sequence[int], sizes: Sequence[Sequence[int]]
    ) -> None:
        """Append the joins within chunks: a token of this level ends where its last input token is."""
        if joins is None:
            return
        self.joins = [[] for _ in range(self.size)] if self.joins is None else self.joins
        chunks = iter(joins)
        for row, each in zip(rows, sizes, strict=True):
            for begin in range(0, len(each) * self.chunk, self.chunk):
                self.joins[row] += [(begin + place + 1) * self.span - 1 for place in next(chunks)]

    def end(self, vectors: Tensor, rows: Sequence[int]) -> None:
        """Keep the vectors of sequences of which nothing else is left."""
        self.vectors.append(vectors)
        self.rows += rows

    def encoding(self) -> Encoding:
        """All of it."""
        assert self.penalty is not None  # there is at least one level
        assert self.steps is not None
        order = sorted(range(self.size), key=self.rows.__getitem__)
        vector = torch.cat(self.vectors).index_select(0, self.index(order))
        return Encoding(
            vector, self.penalty, self.steps, joins=self.joins, log_probability=self.log_probability
        )
