"""The ordered-neurons LSTM, whose forget gates give distances between tokens and so a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Count, Probability, check_ranges
from crvnn_parts.encoders.sequences.lstm import TraceableLayers, packed


class ONLSTM(Encoder):
    """The ordered-neurons LSTM, ON-LSTM (Shen et al., 2019); the vector is its output at the last token.

    Master gates, one number for each chunk of neighbouring units, order the memory from what is soon overwritten to
    what is kept long: ``f~ = cumsum(softmax(.))``, ``i~ = 1 - cumsum(softmax(.))``, ``w = f~ i~``. With the gates f, i,
    o and the candidate g of an LSTM, ``c <- (f w + f~ - w) c + (i w + i~ - w) g`` and ``h = o tanh(c)``. (i~ of the
    last chunk is 0, so that chunk stays empty, as in the paper.)

    The distance between a token and the one before it is ``1 - mean(f~)``; the tree splits at the greatest distance
    first, then each side likewise, the left one of equal distances first. Of several layers the middle one is used: the
    second of three, as in the paper.

    :param layers: stacked layers.
    :param chunk: units per number of a master gate; it must divide the width, with two chunks or more.
    :param dropout: between layers.
    """

    live_settings = ()

    @check_ranges
    def __init__(self, width: int, layers: Count = 1, chunk: Count = 8, dropout: Probability = 0.0) -> None:
        super().__init__(width)
        if width % chunk or chunk == width:
            possible = [each for each in range(1, width // 2 + 1) if width % each == 0]
            what = f"one of {', '.join(map(str, possible))}" if possible else "smaller than the width"
            raise ValueError(
                f"chunk must divide the width, which is {width}, into two chunks or more: {what}; got {chunk}"
            )
        if dropout and layers == 1:
            raise ValueError(
                f"dropout is applied between layers, so it needs at least 2; got {dropout} with 1 layer"
            )
        self.layers = nn.ModuleList(_Layer(width, chunk) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        pack = packed(inputs, lengths)
        rows = pack.batch_sizes.tolist()  # active sequences at each position; on the host, no synchronisation
        given, distances = pack.data, []
        for number, layer in enumerate(self.layers):
            outputs, distance = layer(given if number == 0 else self.dropout(given), rows)
            given = torch.cat(outputs)
            distances.append(distance)
        # The longest sequences come first, so those that end at a position are the last of its rows.
        ended = [output[left:] for output, left in zip(outputs, [*rows[1:], 0], strict=True)]
        vector = torch.cat(ended[::-1]).to(inputs.dtype)
        if pack.unsorted_indices is not None:
            vector = vector.index_select(0, pack.unsorted_indices)
        chosen = distances[len(distances) // 2]
        joins = _joins(PackedSequence(chosen, *pack[1:]), lengths) if trace else None
        return Encoding(vector, vector.new_zeros(len(vector)), mask.sum(1), joins=joins)

    def next_states(self, token: Tensor, outputs: Tensor, memories: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Output and memory of each layer after one more token [B, d], from those before it [layers, B, d]."""
        states, layers = [], cast(Iterable[_Layer], self.layers)
        for layer, output, memory in zip(layers, outputs, memories, strict=True):
            h, c, _ = layer.step(layer.project(token), output, memory)
            states.append((h, c))
            token = self.dropout(h)
        return states

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        if depth is not None:
            return super().traceable(depth=depth)
        return TraceableLayers(self, self.next_states, len(self.layers))


class _Layer(nn.Module):
    def __init__(self, width: int, chunk: int) -> None:
        super().__init__()
        self.width, self.chunks = width, width // chunk
        gates = 4 * width + 2 * self.chunks
        self.of_input, self.of_state = nn.Linear(width, gates), nn.Linear(width, gates, bias=False)

    def forward(self, tokens: Tensor, rows: Sequence[int]) -> tuple[list[Tensor], Tensor]:
        """Outputs at each position, and the distances [sum of rows], of packed tokens [sum of rows, d]."""
        given = self.project(tokens)
        outputs, distances = [], []
        h = c = given.new_zeros(rows[0], self.width)
        for now in torch.split(given, list(rows)):
            h, c, distance = self.step(now, h[: len(now)], c[: len(now)])
            outputs.append(h)
            distances.append(distance)
        return outputs, torch.cat(distances)

    def project(self, tokens: Tensor) -> Tensor:
        """What tokens [..., d] contribute to the gates, in the dtype of the weights, also under autocast."""
        projected: Tensor = self.of_input(tokens)
        return projected.to(self.of_input.weight.dtype)

    def step(self, given: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next output and memory [B, d], and the distance [B] from the token before."""
        gates = given + self.of_state(h).to(given.dtype)
        masters, gates = torch.split(gates, [2 * self.chunks, 4 * self.width], -1)
        forget, write = torch.unflatten(masters, -1, (2, self.chunks)).softmax(-1).cumsum(-1).unbind(-2)
        f_master, i_master = forget.unsqueeze(-1), 1 - write.unsqueeze(-1)  # [B, chunks, 1]
        overlap = f_master * i_master
        f, i, o, g = torch.unflatten(gates, -1, (4, self.chunks, -1)).unbind(-3)  # [B, chunks, chunk]
        f = torch.sigmoid(f) * overlap + (f_master - overlap)
        i = torch.sigmoid(i) * overlap + (i_master - overlap)
        memory = f * torch.unflatten(c, -1, (self.chunks, -1)) + i * torch.tanh(g)
        output = torch.sigmoid(o) * torch.tanh(memory)
        return output.flatten(-2), memory.flatten(-2), 1 - forget.mean(-1)


def _joins(distances: PackedSequence, lengths: Sequence[int]) -> list[list[int]]:
    """For each sequence its positions in the order of joining: the nearest tokens first.

    That is the tree of splitting top-down at the greatest distance, since the last to join is the root's split.
    """
    rows = pad_packed_sequence(distances, batch_first=True)[0].tolist()
    return [
        sorted(range(length - 1), key=lambda place: (row[place + 1], -place))
        for row, length in zip(rows, lengths, strict=True)
    ]
