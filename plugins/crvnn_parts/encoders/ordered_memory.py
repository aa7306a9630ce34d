"""Ordered Memory (Shen et al., 2019): a soft stack of subtrees that is updated at every token.

In the paper's terms, with slot N on top and x the token: p is the attention of the token over the slots that the
last token's p left reachable; its cumulative sums from below and from above, here ``rising`` and ``falling``, are the
gates with which each slot is rewritten and erased; M is the content ``stored`` in the slots, and the candidates, here
``built``, are the trees of the token and all slots up to each.

    M_i     = (1 - falling_i) M_i + falling_i built_i               (the old M, and built of the last token)
    built_i = (1 - rising_i) x + rising_i cell(built_{i-1}, M_i)    (the new M; built_0 = x)

Below the lowest slot with p > 0, rising is 0 and falling 1: M_i is the last token and built_i the new one. So only the
slots from there to the top are computed and kept in memory.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

from crvnn_core import Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Probability, Range, check_ranges
from crvnn_parts.encoders.sequences.lstm import packed
from crvnn_parts.layers import first_derivatives, needs_torch_layers

layer_norm_backward = torch.ops.aten.native_layer_norm_backward
threshold_backward = torch.ops.aten.threshold_backward.grad_input


@frozen(eq=False)
class Memory:
    """The slots that are kept, lowest first, after one token. L slots, B sequences."""

    stored: Tensor  # [L, B, d]
    built: Tensor  # [1 + L, B, d], first the token itself: built_i of every slot that is not kept
    rising: Tensor  # [L, B]

    @classmethod
    def of(cls, token: Tensor) -> Memory:
        """The memory after the first token [B, d]: no slots."""
        return cls(token.new_empty(0, *token.shape), token.unsqueeze(0), token.new_empty(0, len(token)))

    def of_first(self, rows: int) -> Memory:
        """The memory of the first ``rows`` sequences."""
        if rows == self.rising.shape[1]:
            return self
        return Memory(self.stored[:, :rows], self.built[:, :rows], self.rising[:, :rows])


class OrderedMemory(Encoder):
    """The Ordered Memory of Shen et al. (2019), as a baseline; the vector is the top slot after the last token.

    :param slots: size of the memory, in subtrees.
    :param dropout: after the ReLUs of the cell and of the attention.
    :param cutoff: a slot is masked when its probability of being reachable is smaller than this, as in the authors'
        code; 0 for no cutoff.
    """

    live_settings = ("slots", "cutoff")

    @check_ranges
    def __init__(
        self,
        width: int,
        slots: Annotated[int, Range(ge=2)] = 21,
        dropout: Probability = 0.0,
        cutoff: Annotated[float, Range(ge=0, lt=1)] = 1e-5,
    ) -> None:
        super().__init__(width)
        self.slots, self.cutoff = slots, cutoff
        self.token_map = nn.Linear(width, width)
        self.query, self.query_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.key, self.key_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.score = nn.Linear(width, 1, bias=False)  # softmax is invariant to a bias common to all slots
        self.expand = nn.Linear(2 * width, 4 * width)
        self.gates = nn.Linear(4 * width, 4 * width)
        self.norm = nn.LayerNorm(width)  # shared by tokens and trees, as in the authors' code
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        pack = packed(inputs, lengths)
        rows = pack.batch_sizes.tolist()  # active sequences at each position; on the host, no synchronisation
        # The memory has the dtype of the weights, which under autocast is wider than that of their outputs.
        tokens = self.norm(self.token_map(pack.data).to(self.norm.weight.dtype))
        queries = self.query_norm(self.query(tokens).to(tokens.dtype))
        transposed = self._transposed(tokens)
        memory, ended, held = None, [], []
        for token, query, left in zip(tokens.split(rows), queries.split(rows), [*rows[1:], 0], strict=True):
            if memory is None:
                memory = Memory.of(token)
            else:
                memory = self.read(memory.of_first(len(token)), token, query, transposed)
            if trace:
                held.append((memory.rising >= 0.5).sum(0))
            if left < len(token):  # sorted by length, so these have no further token
                ended.append(memory.built[-1, left:])
        vector = torch.cat(ended[::-1]).to(inputs.dtype)
        vector = vector if pack.unsorted_indices is None else vector[pack.unsorted_indices]
        joins = _joins(held, pack.unsorted_indices) if trace else None
        return Encoding(vector, vector.new_zeros(len(vector)), mask.sum(1), joins=joins)

    def _transposed(self, tokens: Tensor) -> tuple[Tensor, Tensor] | None:
        """The cell's weights as contiguous transposed copies, made once per forward pass; else ``None``."""
        if needs_torch_layers(tokens, self.expand.weight) or (self.training and self.dropout.p):
            return None
        from_below = self.expand.weight.detach()[:, : self.width]
        return from_below.t().contiguous(), self.gates.weight.detach().t().contiguous()

    def read(
        self, memory: Memory, token: Tensor, query: Tensor, transposed: tuple[Tensor, Tensor] | None = None
    ) -> Memory:
        """The memory after one more token [B, d]."""
        reach = F.pad(memory.rising, (0, 0, 0, 1), value=1.0)  # [1 + L, B]; the top is always reachable
        reach = reach.masked_fill(reach < self.cutoff, 0)
        unused = self._out_of_reach(reach)
        built, reach = memory.built[unused:], reach[unused:]
        chosen = self.choice(built, query, reach)
        rising = chosen.cumsum(0)
        falling = (1 - rising + chosen).unsqueeze(-1)
        if unused:
            stored = torch.lerp(memory.stored[unused - 1 :], built, falling)
        else:  # one more slot; it stores the last token
            stored = torch.cat([built[:1], torch.lerp(memory.stored, built[1:], falling[1:])])
        if transposed is None:
            return Memory(stored, self.rebuilt(token, stored, rising), rising)
        weights = (self.expand.weight, self.expand.bias, self.gates.weight, self.gates.bias, *transposed)
        norm = (self.norm.weight, self.norm.bias, self.norm.eps)
        built = _Rebuilt.apply(token, stored, rising, *weights, *norm)  # type: ignore[no-untyped-call]
        return Memory(stored, built, rising)

    def _out_of_reach(self, reach: Tensor) -> int:
        """How many of the lowest slots no sequence can reach; the only synchronisation with the device per token."""
        beyond = max(len(reach) - self.slots, 0)
        if reach.is_meta or not self.cutoff:
            return beyond
        return max(beyond, int((reach == 0).all(1).sum()))

    def choice(self, built: Tensor, query: Tensor, reach: Tensor) -> Tensor:
        """p [L, B]: attention of the token's query [B, d] over the trees ``built`` [L, B, d], where ``reach`` > 0."""
        keys = self.key_norm(self.key(built).to(built.dtype))
        scores = self.score(self.dropout(torch.relu(keys + query))).squeeze(-1).to(reach.dtype)
        scores = (scores / self.width**0.5).masked_fill(reach == 0, -torch.inf)
        weights = torch.softmax(scores, 0) * reach
        return weights / weights.sum(0)

    def rebuilt(self, token: Tensor, stored: Tensor, rising: Tensor) -> Tensor:
        """The token, then its trees with the slots up to each [1 + L, B, d]."""
        built = [token]
        for slot, share in zip(stored, rising.unsqueeze(-1), strict=True):
            built.append(token + share * (self.composed(built[-1], slot) - token))
        return torch.stack(built)

    def composed(self, below: Tensor, slot: Tensor) -> Tensor:
        """The gated recursive cell: the parent [B, d] of the tree ``below`` and the content of a slot."""
        inner = self.dropout(torch.relu(self.expand(torch.cat([below, slot], -1))))
        gates, new = self.gates(inner).split([3 * self.width, self.width], -1)
        keep_below, keep_slot, take_new = torch.sigmoid(gates).chunk(3, -1)
        tree: Tensor = self.norm(keep_below * below + keep_slot * slot + take_new * new)
        return tree


def _joins(held: list[Tensor], order: Tensor | None) -> list[list[int]]:
    """The positions of each sequence that join their right neighbours, from the stack size at each token.

    A token that attends to a slot composes all reachable trees below it into one, and is pushed as a tree of its own.
    So the memory is a stack, reduced to the slots from the attended one to the top before each push; a slot counts if
    the cumulative probability up to it (``rising``) is at least 0.5. After the last token all trees are composed.
    """
    sizes = [sizes.tolist() for sizes in held]  # in the packed order, longest sequences first
    found = [_stacked([row[index] for row in sizes if index < len(row)]) for index in range(len(sizes[0]))]
    return found if order is None else [found[index] for index in order.tolist()]


def _stacked(sizes: list[int]) -> list[int]:
    """The joins of one sequence, from the size of its stack before each token is pushed."""
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
    """``rebuilt`` with a custom backward pass.

    Only what depends on the slot below is computed slot by slot. The other half of the first affine map, and the
    gradients of all weights, are one GEMM per token: per slot they would be outer products as large as the weights.
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
    @first_derivatives
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        token, stored, rising, inner, mixing, total, built, expand, gates, scale, shift = ctx.saved_tensors
        size, rows, width = stored.shape
        share, from_below = rising.unsqueeze(-1), expand[:, :width]
        trees, mean, rstd = torch.native_layer_norm(total, [width], scale, shift, ctx.eps)
        # The derivatives of the gated sum with respect to the gates before their sigmoids, and to the candidate.
        slope = torch.empty_like(mixing)
        torch.addcmul(mixing[:, :, :3], mixing[:, :, :3], mixing[:, :, :3], value=-1, out=slope[:, :, :3])
        slope[:, :, 0] *= built[:-1]
        slope[:, :, 1] *= stored
        slope[:, :, 2] *= mixing[:, :, 3]
        slope[:, :, 3] = mixing[:, :, 2]
        of_built, of_total = torch.empty_like(built), torch.empty_like(total)
        of_mixing, of_inner = torch.empty_like(mixing), torch.empty_like(inner)
        of_built[-1] = gradient[-1]
        # Views of all slots by unbind: indexing inside the loop costs more than the arithmetic.
        keep, flat, of_hidden = mixing[:, :, 0].unbind(), of_mixing.flatten(2).unbind(), of_inner.unbind()
        given, of_below, of_whole = gradient.unbind(), of_built.unbind(), of_total.unbind()
        shares, slopes, of_mixed, hidden = share.unbind(), slope.unbind(), of_mixing.unbind(), inner.unbind()
        norms = list(zip(total, mean, rstd, strict=True))
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
            (of_trees * ((total - mean) * rstd)).sum((0, 1)),
            of_trees.sum((0, 1)),
            None,
        )
