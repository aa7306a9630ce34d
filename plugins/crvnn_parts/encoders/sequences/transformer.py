"""torch's Transformer encoder."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Count, Probability, check_ranges
from crvnn_core.precision import at_least_float32


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
        check_heads(heads, width)
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
        vector = self.vectors(inputs[:, :n], mask[:, :n], padded=min(lengths) < n)
        return Encoding(vector, vector.new_zeros(len(vector)), mask.sum(1))

    def vectors(self, inputs: Tensor, mask: Tensor, padded: bool = True) -> Tensor:
        """The mean [B, d] of the outputs at the tokens.

        :param padded: whether there is padding: without it, torch can use its fastest attention kernel.
        """
        padding = ~mask
        placed = inputs.masked_fill(padding.unsqueeze(-1), 0) + positions(inputs.shape[1], self.width, inputs)
        outputs = self.stack(placed, src_key_padding_mask=padding if padded else None)
        total = at_least_float32(outputs).masked_fill(padding.unsqueeze(-1), 0).sum(1)
        return (total / mask.sum(1, keepdim=True)).to(inputs.dtype)

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        return Traceable(self) if depth is None else super().traceable(depth=depth)


def check_heads(heads: int, width: int) -> None:
    """Raise ``ValueError`` for a number of heads that does not divide the width."""
    if width % heads:
        raise ValueError(f"heads must divide the width, which is {width}; got {heads}")


class Traceable(nn.Module):
    """The ``vectors`` of an encoder, a method that reads nothing from the data on the host."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        vectors: Tensor = self.encoder.vectors(inputs, mask)  # type: ignore[operator]
        return vectors


def positions(n: int, width: int, like: Tensor) -> Tensor:
    """Sinusoidal position embeddings [n, d], with wavelengths from 2 pi to 10,000 times that."""
    half = (width + 1) // 2
    position = torch.arange(n, device=like.device, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(half, device=like.device) * (-math.log(10_000) / max(half - 1, 1)))
    return torch.cat([torch.sin(position * frequency), torch.cos(position * frequency)], 1)[:, :width].to(
        like.dtype
    )
