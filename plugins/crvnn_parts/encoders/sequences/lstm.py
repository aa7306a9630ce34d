"""torch's LSTM as an encoder."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Count, Probability, check_ranges
from crvnn_core.engine.traceable import while_loop


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
        vector = last[-1].to(inputs.dtype)
        return Encoding(vector, vector.new_zeros(len(vector)), mask.sum(1))

    def next_states(self, token: Tensor, outputs: Tensor, memories: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Output and memory of each layer after one more token [B, d], from those before it [layers, B, d]."""
        states = []
        for layer, weights in enumerate(self.lstm.all_weights):
            states.append(torch.lstm_cell(token, (outputs[layer], memories[layer]), *weights))
            token = nn.functional.dropout(states[-1][0], self.lstm.dropout, self.training)
        return states

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        if depth is not None:
            return super().traceable(depth=depth)
        return TraceableLayers(self, self.next_states, self.lstm.num_layers)


class TraceableLayers(nn.Module):
    """Recurrent layers position by position, in a loop that torch can trace: it would unroll ``nn.LSTM`` to one length.

    :param next_states: from a token, and outputs and memories before it, to both of each layer.
    """

    def __init__(
        self,
        encoder: Encoder,
        next_states: Callable[[Tensor, Tensor, Tensor], list[tuple[Tensor, Tensor]]],
        layers: int,
    ) -> None:
        super().__init__()
        self.encoder, self.next_states, self.layers = encoder, next_states, layers

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        tokens = inputs.masked_fill(~mask.unsqueeze(-1), 0).transpose(0, 1)  # [n, B, d]

        def step(position: Tensor, outputs: Tensor, memories: Tensor) -> tuple[Tensor, ...]:
            states = self.next_states(tokens.index_select(0, position)[0], outputs, memories)
            there = mask.index_select(1, position)
            new_outputs, new_memories = (torch.stack(each) for each in zip(*states, strict=True))
            return (
                position + 1,
                torch.where(there, new_outputs, outputs),
                torch.where(there, new_memories, memories),
            )

        position = torch.zeros(1, dtype=torch.long, device=inputs.device)
        zeros = inputs.new_zeros(self.layers, inputs.shape[0], self.encoder.width)
        begin = (position, zeros, zeros.clone())
        _, outputs, _ = while_loop(lambda at, *_: (at < tokens.shape[0]).all(), step, begin)
        return outputs[-1]
