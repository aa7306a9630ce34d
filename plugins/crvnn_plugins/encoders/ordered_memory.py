"""Ordered Memory (Shen et al., 2019): a soft stack of subtrees that is rebuilt at every token.

In the paper's terms, with slot N on top and x the token: p says which slot the token chooses among those that the
last choice left within reach; its sums from below and from above, here ``rising`` and ``falling``, say how far each
slot is rewritten and erased; M is what the slots have ``stored``, and the candidates, here ``built``, are the trees
that the token makes with the slots up to each.

    M_i     = (1 - falling_i) M_i + falling_i built_i               (the old M, built by the token before)
    built_i = (1 - rising_i) x + rising_i cell(built_{i-1}, M_i)    (the new M; built_0 = x)

Below the lowest slot that can be chosen, rising is 0 and falling 1: such a slot stores the last token, and builds
the new one. So only the slots from there to the top are ever held, and the rest of the arithmetic is left out.
"""

from __future__ import annotations

from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_plugins.encoders.sequential import packed
from crvnn_plugins.layers import plainly

layer_norm_backward = torch.ops.aten.native_layer_norm_backward
threshold_backward = torch.ops.aten.threshold_backward.grad_input


@frozen(eq=False)
class Memory:
    """The slots that matter, lowest first, as one token leaves them. L slots, B sequences."""

    stored: Tensor  # [L, B, d]
    built: Tensor  # [1 + L, B, d], the token itself in front: it is what every slot further down has built
    rising: Tensor  # [L, B]

    @classmethod
    def of(cls, token: Tensor) -> Memory:
        """After the first token [B, d], which finds no slot to be composed with."""
        return cls(token.new_empty(0, *token.shape), token.unsqueeze(0), token.new_empty(0, len(token)))

    def of_first(self, rows: int) -> Memory:
        """The same for the first ``rows`` of the sequences."""
        if rows == self.rising.shape[1]:
            return self
        return Memory(self.stored[:, :rows], self.built[:, :rows], self.rising[:, :rows])


class OrderedMemory(Encoder):
    """The Ordered Memory of Shen et al. (2019), to compare with; the vector is the top of the memory at the end.

    :param slots: how many subtrees the memory can hold at once.
    :param dropout: behind the ReLU of the cell and the one of the attention.
    :param cutoff: a slot is out of reach when its chance of being within is smaller than this, as in the authors'
        code; 0 to count the smallest of chances.
    """

    live_settings = ("slots", "cutoff")

    def __init__(self, width: int, slots: int = 21, dropout: float = 0.0, cutoff: float = 1e-5) -> None:
        super().__init__(width)
        if slots < 2:
            raise ValueError(f"slots must be at least 2, or there is nothing to choose; got {slots}")
        if not 0 <= cutoff < 1:
            raise ValueError(f"cutoff must be at least 0 and below 1, got {cutoff}")
        self.slots, self.cutoff = slots, cutoff
        self.token_map = nn.Linear(width, width)
        self.query, self.query_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.key, self.key_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.score = nn.Linear(width, 1, bias=False)  # one bias for all slots would change no choice
        self.expand = nn.Linear(2 * width, 4 * width)
        self.gates = nn.Linear(4 * width, 4 * width)
        self.norm = nn.LayerNorm(width)  # of tokens and of trees alike, as in the authors' code
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        pack = packed(inputs, lengths)
        rows = pack.batch_sizes.tolist()  # sequences with a token at each position; known to the host already
        # The memory is kept in the type of the weights, which under autocast is wider than what they give.
        tokens = self.norm(self.token_map(pack.data).to(self.norm.weight.dtype))
        queries = self.query_norm(self.query(tokens).to(tokens.dtype))
        laid_out = self._laid_out(tokens)
        memory, ended, held = None, [], []
        for token, query, left in zip(tokens.split(rows), queries.split(rows), [*rows[1:], 0], strict=True):
            if memory is None:
                memory = Memory.of(token)
            else:
                memory = self.read(memory.of_first(len(token)), token, query, laid_out)
            if trace:
                held.append((memory.rising >= 0.5).sum(0))
            if left < len(token):  # the longest come first, so these have come to their end
                ended.append(memory.built[-1, left:])
        vector = torch.cat(ended[::-1]).to(inputs.dtype)
        vector = vector if pack.unsorted_indices is None else vector[pack.unsorted_indices]
        joins = _joins(held, pack.unsorted_indices) if trace else None
        return Encoding(vector, vector.new_zeros(len(vector)), mask.sum(1), joins=joins)

    def _laid_out(self, tokens: Tensor) -> tuple[Tensor, Tensor] | None:
        """The cell's weights as the products of one row want them, copied once; ``None`` to leave it to torch."""
        if plainly(tokens, self.expand.weight) or (self.training and self.dropout.p):
            return None
        from_below = self.expand.weight.detach()[:, : self.width]
        return from_below.t().contiguous(), self.gates.weight.detach().t().contiguous()

    def read(
        self, memory: Memory, token: Tensor, query: Tensor, laid_out: tuple[Tensor, Tensor] | None = None
    ) -> Memory:
        """The memory after one more token [B, d]."""
        reach = F.pad(memory.rising, (0, 0, 0, 1), value=1.0)  # [1 + L, B], the top always within it
        reach = reach.masked_fill(reach < self.cutoff, 0)
        unused = self._out_of_reach(reach)
        built, reach = memory.built[unused:], reach[unused:]
        chosen = self.choice(built, query, reach)
        rising = chosen.cumsum(0)
        falling = (1 - rising + chosen).unsqueeze(-1)
        if unused:
            stored = torch.lerp(memory.stored[unused - 1 :], built, falling)
        else:  # one slot more; it stores the last token, whatever was in it
            stored = torch.cat([built[:1], torch.lerp(memory.stored, built[1:], falling[1:])])
        if laid_out is None:
            return Memory(stored, self.rebuilt(token, stored, rising), rising)
        weights = (self.expand.weight, self.expand.bias, self.gates.weight, self.gates.bias, *laid_out)
        norm = (self.norm.weight, self.norm.bias, self.norm.eps)
        built = _Rebuilt.apply(token, stored, rising, *weights, *norm)  # type: ignore[no-untyped-call]
        return Memory(stored, built, rising)

    def _out_of_reach(self, reach: Tensor) -> int:
        """How many of the lowest slots no sequence can choose; this is the one look at values for each token."""
        beyond = max(len(reach) - self.slots, 0)
        if reach.is_meta or not self.cutoff:
            return beyond
        return max(beyond, int((reach == 0).all(1).sum()))

    def choice(self, built: Tensor, query: Tensor, reach: Tensor) -> Tensor:
        """p [L, B]: attention of the token's query [B, d] to what the slots have built [L, B, d], within reach."""
        keys = self.key_norm(self.key(built).to(built.dtype))
        scores = self.score(self.dropout(torch.relu(keys + query))).squeeze(-1).to(reach.dtype)
        scores = (scores / self.width**0.5).masked_fill(reach == 0, -torch.inf)
        weights = torch.softmax(scores, 0) * reach
        return weights / weights.sum(0)

    def rebuilt(self, token: Tensor, stored: Tensor, rising: Tensor) -> Tensor:
        """The token, and the trees that it makes with the slots up to each, [1 + L, B, d]."""
        built = [token]
        for slot, share in zip(stored, rising.unsqueeze(-1), strict=True):
            built.append(token + share * (self.composed(built[-1], slot) - token))
        return torch.stack(built)

    def composed(self, below: Tensor, slot: Tensor) -> Tensor:
        """The gated recursive cell: what comes from below and what a slot has stored, as one tree [B, d]."""
        inner = self.dropout(torch.relu(self.expand(torch.cat([below, slot], -1))))
        gates, new = self.gates(inner).split([3 * self.width, self.width], -1)
        keep_below, keep_slot, take_new = torch.sigmoid(gates).chunk(3, -1)
        tree: Tensor = self.norm(keep_below * below + keep_slot * slot + take_new * new)
        return tree


def _joins(held: list[Tensor], order: Tensor | None) -> list[list[int]]:
    """The positions of each sequence that join their right neighbours, from how many trees each token finds stored.

    A token that chooses a slot composes all trees within reach below it into one, and stays apart itself. So the
    memory is a stack, which shrinks to the slots from the chosen one to the top before the token is put on it; a slot
    counts when it has more likely been chosen from, or one below it, than not. In the end all become one.
    """
    sizes = [sizes.tolist() for sizes in held]  # those of the longest sequences first
    found = [_stacked([row[place] for row in sizes if place < len(row)]) for place in range(len(sizes[0]))]
    return found if order is None else [found[place] for place in order.tolist()]


def _stacked(sizes: list[int]) -> list[int]:
    joins: list[int] = []
    ends: list[int] = []  # the last token of each tree on the stack
    for position, size in enumerate([*sizes, 1]):
        while len(ends) > max(size, 1):
            last = ends.pop()
            joins.append(ends[-1])
            ends[-1] = last
        ends.append(position)
    return joins


class _Rebuilt(torch.autograd.Function):
    """``rebuilt`` with a backward pass of its own.

    Only what depends on the slot below is done slot by slot. The other half of the first product, and the gradients
    of all weights, are one product a token: slot by slot they would be outer products as large as the weights.
    """

    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        stored: Tensor,
        rising: Tensor,
        expand: Tensor,
        expand_bias: Tensor,
        gates: Tensor,
        gates_bias: Tensor,
        from_below: Tensor,
        into_gates: Tensor,
        scale: Tensor,
        shift: Tensor,
        eps: float,
    ) -> Tensor:
        size, rows, width = stored.shape
        from_slot = expand[:, width:].t()
        inner = torch.addmm(expand_bias, stored.reshape(-1, width), from_slot).view(size, rows, -1)
        mixing = token.new_empty(size, rows, 4, width)  # below, slot, new, candidate
        total, built = token.new_empty(stored.shape), token.new_empty(1 + size, rows, width)
        built[0] = below = token
        slots = zip(inner, mixing.flatten(2), mixing[:, :, :3], total, built[1:], strict=True)
        parts = zip(*mixing.unbind(2), stored, rising.unsqueeze(-1), strict=True)
        for (hidden, mixed, opened, whole, out), (low, high, take, new, slot, share) in zip(
            slots, parts, strict=True
        ):
            torch.addmm(hidden, below, from_below, out=hidden).relu_()
            torch.addmm(gates_bias, hidden, into_gates, out=mixed)
            opened.sigmoid_()
            torch.mul(low, below, out=whole).addcmul_(high, slot).addcmul_(take, new)
            below = torch.lerp(token, F.layer_norm(whole, (width,), scale, shift, eps), share, out=out)
        ctx.save_for_backward(token, stored, rising, inner, mixing, total, built, expand, gates, scale, shift)
        ctx.eps = eps
        return built

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        token, stored, rising, inner, mixing, total, built, expand, gates, scale, shift = ctx.saved_tensors
        size, rows, width = stored.shape
        share, from_below = rising.unsqueeze(-1), expand[:, :width]
        trees, mean, spread = torch.native_layer_norm(total, [width], scale, shift, ctx.eps)
        # What one unit of the total's gradient is for the gates, before their sigmoids, and for the candidate.
        slope = torch.empty_like(mixing)
        torch.addcmul(mixing[:, :, :3], mixing[:, :, :3], mixing[:, :, :3], value=-1, out=slope[:, :, :3])
        slope[:, :, 0] *= built[:-1]
        slope[:, :, 1] *= stored
        slope[:, :, 2] *= mixing[:, :, 3]
        slope[:, :, 3] = mixing[:, :, 2]
        of_built, of_total = torch.empty_like(built), torch.empty_like(total)
        of_mixing, of_inner = torch.empty_like(mixing), torch.empty_like(inner)
        of_built[-1] = gradient[-1]
        # Views of every slot at once: taken one by one inside the loop they cost more than the arithmetic.
        keep, flat, of_hidden = mixing[:, :, 0].unbind(), of_mixing.flatten(2).unbind(), of_inner.unbind()
        given, of_below, of_whole = gradient.unbind(), of_built.unbind(), of_total.unbind()
        shares, slopes, of_mixed, hidden = share.unbind(), slope.unbind(), of_mixing.unbind(), inner.unbind()
        norms = list(zip(total, mean, spread, strict=True))
        for i in reversed(range(size)):
            whole, *moments = norms[i]
            one = layer_norm_backward(
                of_below[i + 1] * shares[i], whole, [width], *moments, scale, shift, [True, False, False]
            )[0]
            of_whole[i].copy_(one)
            torch.mul(one.unsqueeze(1), slopes[i], out=of_mixed[i])
            threshold_backward(flat[i] @ gates, hidden[i], 0, grad_input=of_hidden[i])
            torch.addcmul(given[i], one, keep[i], out=of_below[i])
            torch.addmm(of_below[i], of_hidden[i], from_below, out=of_below[i])
        above = of_built[1:]
        of_trees = above * share
        lines = of_inner.view(size * rows, -1)
        children = torch.cat([built[:-1], stored], -1).view(-1, 2 * width)
        kept = (of_total * mixing[:, :, 1]).view(-1, width)
        return (
            of_built[0] + ((1 - share) * above).sum(0),
            torch.addmm(kept, lines, expand[:, width:]).view_as(stored),
            ((trees - token) * above).sum(-1),
            lines.t() @ children,
            lines.sum(0),
            of_mixing.view(-1, 4 * width).t() @ inner.view(size * rows, -1),
            of_mixing.view(-1, 4 * width).sum(0),
            None,
            None,
            (of_trees * ((total - mean) * spread)).sum((0, 1)),
            of_trees.sum((0, 1)),
            None,
        )
