"""Baselines without trees: torch's LSTM and Transformer encoder."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Count, Probability, check_ranges
from crvnn_core.engine.traceable import while_loop
from crvnn_core.precision import at_least_float32


def packed(inputs: Tensor, lengths: list[int]) -> PackedSequence:
    """The tokens [sum of lengths, d] without padding, position by position, the longest sequences first."""
    n = max(lengths)
    if n > min(lengths):
        return pack_padded_sequence(inputs, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    return PackedSequence(inputs[:, :n].transpose(0, 1).flatten(0, 1), torch.full((n,), len(lengths)))


class LSTMEncoder(Encoder):
    """torch's LSTM of the model's width, from left to right; the vector is its output at the last token.

    :param layers: stacked LSTM layers.
    :param dropout: between layers.
    """

    live_settings = ()

    @check_ranges
    def __init__(self, width: int, layers: Count = 1, dropout: Probability = 0.0) -> None:
        super().__init__(width)
        if dropout and layers == 1:
            raise ValueError(
                f"dropout is applied between layers, so it needs at least 2; got {dropout} with 1 layer"
            )
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        n = max(lengths)
        # Packing takes time, and a batch without padding does not need it.
        _, (last, _) = self.lstm(inputs[:, :n] if min(lengths) == n else packed(inputs, lengths))
        return _encoding(last[-1].to(inputs.dtype), mask)

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        return _TraceableLSTM(self.lstm) if depth is None else super().traceable(depth=depth)


class _TraceableLSTM(nn.Module):
    """The layers position by position, in a loop that torch can trace: it would unroll ``nn.LSTM`` to one length."""

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        lstm, tokens = self.lstm, inputs.masked_fill(~mask.unsqueeze(-1), 0).transpose(0, 1)  # [n, B, d]

        def step(position: Tensor, outputs: Tensor, memories: Tensor) -> tuple[Tensor, ...]:
            given, states = tokens.index_select(0, position)[0], []
            for layer, weights in enumerate(lstm.all_weights):
                states.append(torch.lstm_cell(given, (outputs[layer], memories[layer]), *weights))
                given = nn.functional.dropout(states[-1][0], lstm.dropout, self.training)
            there = mask.index_select(1, position)
            new_outputs, new_memories = (torch.stack(each) for each in zip(*states, strict=True))
            return (
                position + 1,
                torch.where(there, new_outputs, outputs),
                torch.where(there, new_memories, memories),
            )

        position = torch.zeros(1, dtype=torch.long, device=inputs.device)
        zeros = inputs.new_zeros(lstm.num_layers, inputs.shape[0], lstm.hidden_size)
        begin = (position, zeros, zeros.clone())
        _, outputs, _ = while_loop(lambda at, *_: (at < tokens.shape[0]).all(), step, begin)
        return outputs[-1]


class TransformerEncoder(Encoder):
    """torch's Transformer encoder of the model's width; the vector is the mean of its outputs at the tokens.

    The mean, because attention is bidirectional: no output summarizes the sequence more than another, and gradients of
    the mean reach every token directly.

    :param layers: encoder layers, with the LayerNorm before attention and feed-forward (``norm_first``).
    :param heads: attention heads; they must divide the width.
    :param dropout: in every layer, as in ``nn.TransformerEncoderLayer``.
    """

    live_settings = ()

    @check_ranges
    def __init__(self, width: int, layers: Count = 2, heads: Count = 4, dropout: Probability = 0.0) -> None:
        super().__init__(width)
        if width % heads:
            raise ValueError(f"heads must divide the width, which is {width}; got {heads}")
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        # torch does not support nested tensors together with norm_first, and would warn.
        self.stack = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        for weight in self.stack.parameters():
            if weight.dim() > 1:  # torch copies one layer; draw different weights for each
                nn.init.xavier_uniform_(weight)

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        n = max(lengths)
        return _encoding(self.mean(inputs[:, :n], mask[:, :n], padded=min(lengths) < n), mask)

    def mean(self, inputs: Tensor, mask: Tensor, padded: bool = True) -> Tensor:
        """The mean [B, d] of the outputs at the tokens.

        :param padded: whether there is padding: without it, torch can use its fastest attention kernel.
        """
        padding = ~mask
        placed = inputs.masked_fill(padding.unsqueeze(-1), 0) + positions(inputs.shape[1], self.width, inputs)
        outputs = self.stack(placed, src_key_padding_mask=padding if padded else None)
        total = at_least_float32(outputs).masked_fill(padding.unsqueeze(-1), 0).sum(1)
        return (total / mask.sum(1, keepdim=True)).to(inputs.dtype)

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        return _TraceableTransformer(self) if depth is None else super().traceable(depth=depth)


class _TraceableTransformer(nn.Module):
    def __init__(self, encoder: TransformerEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return self.encoder.mean(inputs, mask)


def positions(n: int, width: int, like: Tensor) -> Tensor:
    """Sinusoidal position embeddings [n, d], with wavelengths from 2 pi to 10,000 times that."""
    half = (width + 1) // 2
    position = torch.arange(n, device=like.device, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(half, device=like.device) * (-math.log(10_000) / max(half - 1, 1)))
    return torch.cat([torch.sin(position * frequency), torch.cos(position * frequency)], 1)[:, :width].to(
        like.dtype
    )


def _encoding(vector: Tensor, mask: Tensor) -> Encoding:
    """The encoding of vectors [B, d], without penalty; steps are the number of tokens."""
    return Encoding(vector, vector.new_zeros(len(vector)), mask.sum(1))
