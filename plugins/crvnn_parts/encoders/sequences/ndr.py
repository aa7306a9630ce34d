"""The Neural Data Router: geometric attention, which stops at the nearest match, and a copy gate."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Bias, Count, Probability, check_ranges
from crvnn_core.precision import at_least_float32
from crvnn_parts.encoders.sequences.transformer import Traceable, check_heads


class NDR(Encoder):
    """The Neural Data Router (Csordás et al., 2022): a Transformer whose layers share their weights.

    Attention is geometric: ``A_ij = s_ij prod of (1 - s_ik) over all k nearer to i than j``, so that each token reads
    from the nearest one that matches. Matches are ``s_ij = sigmoid(alpha q_i k_j + beta D_ij + gamma)``, in which D_ij
    depends on token i and on whether j is to its left or right; there are no other positions. Nearness goes outwards
    from i: ``i + 1, i - 1, i + 2, i - 2, ...``; of two tokens at the same distance the right one is nearer, as in the
    paper, and ``A_ii = 0``. With ``n = LN(x + att(x))`` and ``u = LN(W2 relu(W1 n))`` the copy gate
    ``g = sigmoid(V2 relu(V1 n))`` chooses between a token's new and old state: ``x <- g u + (1 - g) x``. The vector is
    the state of the last token.

    :param layers: how often the layer is applied; it should exceed the depth of what is to be computed.
    :param heads: attention heads; they must divide the width.
    :param dropout: of what attention reads, and within both feed-forward networks.
    :param gate_bias: the initial bias of the copy gate; a low one copies at first.
    """

    live_settings = ("layers",)

    @check_ranges
    def __init__(
        self,
        width: int,
        layers: Count = 8,
        heads: Count = 4,
        dropout: Probability = 0.0,
        gate_bias: Bias = -3.0,
    ) -> None:
        super().__init__(width)
        check_heads(heads, width)
        self.layers, self.heads = layers, heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.direction = nn.Linear(width, 2 * heads)  # D_ij to the left and to the right
        self.alpha = nn.Parameter(torch.tensor((width // heads) ** -0.5))
        self.beta = nn.Parameter(torch.tensor(1.0))
        self.gamma = nn.Parameter(torch.tensor(0.0))
        self.merge = nn.Linear(width, width, bias=False)
        self.norm, self.update_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.update_in, self.update_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gate_in, self.gate_out = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        # Not a layer's own bias, which 'model.initialisation = "torch"' would draw anew.
        self.gate_bias = nn.Parameter(torch.full((width,), gate_bias))
        self.dropout = nn.Dropout(dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        n = max(checked_lengths(inputs, mask, self.width))
        vector = self.vectors(inputs[:, :n], mask[:, :n])
        steps = torch.full_like(mask[:, 0], self.layers, dtype=torch.long)
        return Encoding(vector, vector.new_zeros(len(vector)), steps)

    def vectors(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """The state [B, d] of the last token after all layers; nothing is read by the host."""
        x = inputs.masked_fill(~mask.unsqueeze(-1), 0).to(self.norm.weight.dtype)
        order = scan_order(inputs.shape[1], inputs.device)
        for _ in range(self.layers):
            x = self.layer(x, mask, order)
        last = (mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, self.width)
        return x.gather(1, last).squeeze(1).to(inputs.dtype)

    def step_limit(self, length: int) -> int:
        return self.layers

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        return Traceable(self) if depth is None else super().traceable(depth=depth)

    def layer(self, x: Tensor, mask: Tensor, order: Tensor) -> Tensor:
        """The states [B, n, d] after one more layer."""
        attended = self.merge(self._attended(x, mask, order))
        middle = self.norm(x + self.dropout(attended).to(x.dtype))
        update = self.update_norm(self.update_out(self.dropout(torch.relu(self.update_in(middle)))))
        gate = self.gate_out(self.dropout(torch.relu(self.gate_in(middle)))).to(x.dtype) + self.gate_bias
        return torch.lerp(x, update.to(x.dtype), torch.sigmoid(gate))

    def _attended(self, x: Tensor, mask: Tensor, order: Tensor) -> Tensor:
        """What all heads read at each position [B, n, d]."""
        q, k, v = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [B, heads, n, d / heads]
            for each in (self.query(x), *self.key_value(x).chunk(2, -1))
        )
        left, right = self.direction(x).unflatten(-1, (2, self.heads)).permute(2, 0, 3, 1).unsqueeze(-1)
        n = x.shape[1]
        place = torch.arange(n, device=x.device)
        direction = torch.where(place > place.unsqueeze(1), right, left)  # [B, heads, n, n]
        matches = at_least_float32(q @ k.transpose(-1, -2)) * self.alpha + direction * self.beta + self.gamma
        weights = geometric_attention(matches, mask[:, None, None, :], order)
        read: Tensor = weights.to(v.dtype) @ v
        return read.transpose(1, 2).flatten(2)


def scan_order(n: int, device: torch.device) -> Tensor:
    """For each position i of n all positions [n, n] from i outwards: i, i + 1, i - 1, i + 2, i - 2, ..."""
    place = torch.arange(n, device=device)
    offset = place - place.unsqueeze(1)
    return (2 * offset.abs() - (offset > 0).long()).argsort(1)


def geometric_attention(scores: Tensor, tokens: Tensor, order: Tensor) -> Tensor:
    """``A_ij = s_ij prod of (1 - s_ik) over k nearer to i than j``, for ``s = sigmoid(scores)`` [..., n, n].

    The product is a cumulative sum of logarithms in the order of nearness, so nothing is subtracted that could cancel.

    :param tokens: [..., 1, n], false at padding, which is skipped as is position i itself.
    :param order: of positions, from ``scan_order``.
    """
    skipped = ~tokens | torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    matches = F.logsigmoid(scores).masked_fill(skipped, -torch.inf)
    misses = F.logsigmoid(-scores).masked_fill(skipped, 0)
    passed = misses.gather(-1, order.expand_as(misses)).cumsum(-1)
    # The first in order is i itself, which counts 0: so what comes before a place is the sum up to the one before it.
    before = (order.argsort(1) - 1).clamp(min=0)
    return torch.exp(matches + passed.gather(-1, before.expand_as(passed)))
