"""torch's LSTM as an encoder."""

from __future__ import annotations

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
