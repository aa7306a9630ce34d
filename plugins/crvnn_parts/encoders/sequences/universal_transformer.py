"""The Universal Transformer: one layer repeated, and for each token as many steps as it needs."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Bias, Count, Probability, Range, Weight, check_ranges
from crvnn_core.precision import at_least_float32
from crvnn_parts.encoders.sequences.transformer import Traceable, check_heads, positions


class UniversalTransformer(Encoder):
    """The Universal Transformer (Dehghani et al., 2019) with adaptive computation time (ACT; Graves, 2016).

    One Transformer layer, with the LayerNorm after attention and feed-forward, is applied again and again to
    ``h + position + step``, both sinusoidal. After step t a token halts with probability ``p_t = sigmoid(w h_t + b)``:
    it takes its N-th step and no more when these sum to at least 1 - ``epsilon``, and at ``max_steps`` at the latest.
    Its output is ``sum of p_t h_t for t < N, plus R h_N`` with the remainder ``R = 1 - sum of p_t for t < N``; others
    go on attending to its last state. The vector is the mean of the outputs at the tokens, and the penalty ``tau``
    times the mean of N + R.

    :param max_steps: the most steps a token can take.
    :param heads: attention heads; they must divide the width.
    :param dropout: in the layer, as in ``nn.TransformerEncoderLayer``.
    :param tau: weight of the penalty on steps, 0 for none.
    :param halting_bias: the initial b. A low one lets training begin with many steps; otherwise ACT tends to too few.
    :param epsilon: what may be missing of a sum of 1 for a token to halt.
    """

    live_settings = ("max_steps", "epsilon")

    @check_ranges
    def __init__(
        self,
        width: int,
        max_steps: Annotated[int, Range(ge=2)] = 15,
        heads: Count = 4,
        dropout: Probability = 0.0,
        tau: Weight = 0.001,
        halting_bias: Bias = -3.0,
        epsilon: Annotated[float, Range(ge=0, lt=1)] = 0.01,
    ) -> None:
        super().__init__(width)
        check_heads(heads, width)
        self.max_steps, self.tau, self.epsilon = max_steps, tau, epsilon
        self.layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True
        )
        self.halting = nn.Linear(width, 1, bias=False)
        # Not the layer's own bias, which 'model.initialisation = "torch"' would draw anew.
        self.halting_bias = nn.Parameter(torch.tensor(halting_bias))

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        n = max(lengths)
        inputs, mask = inputs[:, :n], mask[:, :n]
        outputs, taken, remainder = self.ponder(inputs, mask, min(lengths) < n, stop=not inputs.is_meta)
        cost = (taken + remainder).masked_fill(~mask, 0).sum(1) / mask.sum(1)
        return Encoding(_mean(outputs, mask).to(inputs.dtype), self.tau * cost, taken.amax(1))

    def ponder(
        self, inputs: Tensor, mask: Tensor, padded: bool = True, stop: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs [B, n, d], steps N [B, n] and remainders R [B, n] of the tokens.

        :param padded: whether there is padding.
        :param stop: end when every token has halted, which the host has to read after each step.
        """
        padding = ~mask
        state = inputs.masked_fill(padding.unsqueeze(-1), 0).to(self.halting.weight.dtype)
        place = positions(inputs.shape[1], self.width, state)
        time = positions(self.max_steps + 1, self.width, state)
        running, taken = mask, torch.zeros_like(mask, dtype=torch.long)
        outputs = torch.zeros_like(at_least_float32(state))
        remainder = torch.ones_like(outputs[..., 0])  # 1 - sum of p_t so far
        for step in range(1, self.max_steps + 1):
            given = state + place + time[step]
            moved = self.layer(given, src_key_padding_mask=padding if padded else None).to(state.dtype)
            state = torch.where(running.unsqueeze(-1), moved, state)
            p = torch.sigmoid(at_least_float32(self.halting(state).squeeze(-1)) + self.halting_bias)
            taken = taken + running
            goes_on = running & (remainder - p > self.epsilon) & (step < self.max_steps)
            weight = torch.where(goes_on, p, remainder) * running
            outputs = outputs + weight.unsqueeze(-1) * state
            remainder = torch.where(goes_on, remainder - p, remainder)
            running = goes_on
            if stop and not bool(running.any()):
                break
        return outputs, taken, remainder

    def vectors(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """The mean [B, d] of the outputs at the tokens, with nothing read by the host."""
        return _mean(self.ponder(inputs, mask)[0], mask).to(inputs.dtype)

    def step_limit(self, length: int) -> int:
        return self.max_steps

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        return Traceable(self) if depth is None else super().traceable(depth=depth)


def _mean(outputs: Tensor, mask: Tensor) -> Tensor:
    total = outputs.masked_fill(~mask.unsqueeze(-1), 0).sum(1)
    return total / mask.sum(1, keepdim=True)
