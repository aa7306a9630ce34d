"""The paper's formulation (Algorithm 1, Eqs. 1-11) in plain torch: a contender to be measured against, and an oracle.

Every step builds the n x n matrices of Eq. 5, the cell runs on every position, and a sequence that has halted stays in
the batch until the last one halts. It has no arithmetic in common with the engine, only the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

from crvnn_core import CrvnnError, Encoder, Encoding, Recursion
from crvnn_plugins.cells.gated import GatedCell
from crvnn_plugins.decisions.sigmoids import Modulated, Sigmoid, Stretched
from crvnn_plugins.haltings import Never, Threshold
from crvnn_plugins.retrievers.dense import AdhocDense
from crvnn_plugins.retrievers.interval import Adhoc
from crvnn_plugins.scorers import WindowScorer

Part = TypeVar("Part")


class DenseEngine(Encoder):
    """The dense formulation of a recursion, over the parameters of that recursion."""

    def __init__(self, engine: Recursion) -> None:
        super().__init__(engine.width)
        _known("retriever", engine.retriever, Adhoc, AdhocDense)
        self.cell = _known("cell", engine.cell, GatedCell)
        self.scorer = _known("scorer", engine.scorer, WindowScorer)
        self.decision = _known("decision", engine.decision, Sigmoid, Modulated, Stretched)
        self.halting = _known("halting", engine.halting, Threshold, Never)
        self.start, self.end = engine.start, engine.end
        self.halt_penalty, self.penalise = engine.halt_penalty, engine.penalise
        self.max_steps, self.extra_steps = engine.max_steps, engine.extra_steps

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        """No trace is kept, whether asked for or not."""
        lengths: list[int] = mask.sum(1).tolist()
        budgets = [self._budget(length) for length in lengths]
        nodes, where = self._begin(inputs[:, : max(lengths)], mask[:, : max(lengths)])
        exists = where.present.to(nodes.dtype)  # e [B, n]
        gained = torch.zeros_like(exists)
        steps, willing = [0] * len(lengths), [True] * len(lengths)
        while True:
            going = [go and step < most for go, step, most in zip(willing, steps, budgets, strict=True)]
            if not any(going):
                break
            alive = None if all(going) else torch.tensor(going, device=nodes.device).unsqueeze(1)  # [B, 1]
            nodes, exists, gained = self._step(nodes, exists, gained, where, alive)
            asked = self._willing(exists, where.tokens)
            for row, go in enumerate(going):
                if go:
                    steps[row] += 1
                    willing[row] = asked[row]
        rows = torch.arange(len(lengths), device=nodes.device)
        return Encoding(
            vector=nodes[rows, where.last],
            penalty=self._penalty(exists, where, torch.tensor(willing, device=nodes.device)),
            steps=torch.tensor(steps, device=nodes.device),
        )

    def _begin(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, _Places]:
        """Leaves between START and END, and what each position may do."""
        inputs = inputs.masked_fill(~mask.unsqueeze(-1), 0)
        count = mask.sum(1, keepdim=True)  # [B, 1]
        offset = 0
        if self.start is not None and self.end is not None:
            offset = 1
            inputs = F.pad(inputs, (0, 0, 1, 1))
            place = torch.arange(inputs.shape[1], device=inputs.device).unsqueeze(-1)  # [n, 1]
            inputs = torch.where(place == 0, self.start.to(inputs.dtype), inputs)
            inputs = torch.where(place == count.unsqueeze(-1) + 1, self.end.to(inputs.dtype), inputs)
        leaves = F.linear(inputs, self.cell.leaf_map.weight, self.cell.leaf_map.bias)
        norm = self.cell.leaf_norm
        place = torch.arange(inputs.shape[1], device=inputs.device) - offset  # 0 at the first token
        where = _Places(
            present=place < count + offset,
            tokens=(place >= 0) & (place < count),
            eligible=(place >= 0) & (place < count - 1),
            last=count.squeeze(1) - 1 + offset,
        )
        return F.layer_norm(leaves, norm.normalized_shape, norm.weight, norm.bias, norm.eps), where

    def _step(
        self, nodes: Tensor, exists: Tensor, gained: Tensor, where: _Places, alive: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One pass of Algorithm 1 over every position; sequences that are not ``alive`` stay as they are."""
        to_left, to_right = neighbour_matrices(exists)
        left = to_left @ nodes  # once, for the scorer and for the cell
        scores = self._scores(nodes, left, to_left, to_right, gained)
        compose = self._decide(scores, to_left, to_right, where.eligible)  # c [B, n]
        if alive is not None:
            compose = compose * alive
        gained = _on_columns(to_left, compose) * where.tokens  # left(c) [B, n]
        nodes = torch.lerp(nodes, self._compose(left, nodes), gained.unsqueeze(-1))
        return nodes, exists * (1 - compose), gained

    def _scores(
        self, nodes: Tensor, left: Tensor, to_left: Tensor, to_right: Tensor, gained: Tensor
    ) -> Tensor:
        """Eq. 8 and the transition features: u [B, n]."""
        scorer = self.scorer
        lefts, rights = [left][: scorer.reach], [nodes]
        while len(lefts) < scorer.reach:
            lefts.append(to_left @ lefts[-1])
        while len(rights) <= scorer.reach:
            rights.append(to_right @ rights[-1])
        window = torch.cat([*reversed(lefts), *rights], -1)  # left_m ... left_1, self, right_1 ... right_m
        weight, bias = scorer.convolution.weight, scorer.convolution.bias
        if scorer.composed is None or scorer.untouched is None:
            mixed = F.linear(window, weight, bias)
        else:  # features between "untouched" and "composed", by how far the position is a new parent
            split = window.shape[-1]
            new, old = weight[:, split:] @ scorer.composed, weight[:, split:] @ scorer.untouched
            mixed = F.linear(window, weight[:, :split], bias + old)
            mixed = torch.addcmul(mixed, gained.unsqueeze(-1), new - old)
        active = _activate(mixed, scorer.activation)
        return F.linear(active, scorer.score.weight, scorer.score.bias).squeeze(-1)

    def _decide(self, scores: Tensor, to_left: Tensor, to_right: Tensor, eligible: Tensor) -> Tensor:
        """Eqs. 9 and 10, or the published code's form of 10; stretched and clipped if the decision is: c [B, n]."""
        decision = self.decision
        form = "none"
        if isinstance(decision, Modulated):
            form = decision.form
        elif isinstance(decision, Stretched):
            form = decision.modulation
            if self.training and decision.noise:
                noise = torch.logit(torch.rand_like(scores).clamp(1e-6, 1 - 1e-6))
                scores = scores + decision.noise * noise
        if form == "none":
            chosen = torch.sigmoid(scores)
        elif form == "paper":
            rivals = torch.stack([_on_columns(to_left, scores), _on_columns(to_right, scores)])
            chosen = torch.sigmoid(scores - F.softplus(torch.logsumexp(rivals, 0)))  # softplus adds the 1
        else:
            scores = scores.masked_fill(~eligible, -torch.inf)
            highest = scores.detach().amax(1, keepdim=True).clamp(min=0)
            strength = torch.exp(scores - highest)
            rivals = _on_columns(to_left, strength) + _on_columns(to_right, strength)
            nobody = torch.exp(-highest).clamp(min=1e-30)
            chosen = strength / (strength + rivals + nobody)
        chosen = chosen * eligible
        if isinstance(decision, Stretched):
            chosen = ((1 + 2 * decision.stretch) * chosen - decision.stretch).clamp(0, 1) * eligible
        return chosen

    def _compose(self, left: Tensor, right: Tensor) -> Tensor:
        """Eq. 11, the gated recursive cell: parents [B, n, d]."""
        cell = self.cell
        inner = F.linear(torch.cat([left, right], -1), cell.expand.weight, cell.expand.bias)
        inner = _activate(inner, cell.activation)
        if cell.dropout.p:
            inner = F.dropout(inner, cell.dropout.p, self.training)
        mapped = F.linear(inner, cell.gates.weight, cell.gates.bias)
        new = mapped[..., 3 * self.width :]
        keep_left, keep_right, take_new = torch.sigmoid(mapped[..., : 3 * self.width]).chunk(3, -1)
        mixed = torch.addcmul(torch.addcmul(keep_left * left, keep_right, right), take_new, new)
        norm = cell.norm
        return F.layer_norm(mixed, norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def _willing(self, exists: Tensor, tokens: Tensor) -> list[bool]:
        """Algorithm 2: which sequences the halting lets go on."""
        if isinstance(self.halting, Threshold):
            left: list[bool] = (((exists.detach() > self.halting.epsilon) & tokens).sum(1) > 1).tolist()
            return left
        return [True] * len(exists)

    def _penalty(self, exists: Tensor, where: _Places, unhalted: Tensor) -> Tensor:
        """What still exists beside the last token, as a cross-entropy [B]."""
        if not self.halt_penalty:
            return exists.new_zeros(len(exists))
        ending = exists.gather(1, where.last.unsqueeze(1)).squeeze(1)
        penalty = -self.halt_penalty * torch.log(ending / (exists * where.tokens).sum(1))
        return penalty * unhalted if self.penalise == "unhalted" else penalty

    def _budget(self, length: int) -> int:
        limits = [length - 1 + self.extra_steps, self.max_steps or None, self.halting.limit]
        return min(limit for limit in limits if limit is not None)


@dataclass(eq=False)
class _Places:
    """What each position may do; it stays the same from step to step."""

    present: Tensor  # [B, n] bool: not padding
    tokens: Tensor  # [B, n] bool: a real token
    eligible: Tensor  # [B, n] bool: a real token but the last
    last: Tensor  # [B] position of the last token


def neighbour_matrices(exists: Tensor) -> tuple[Tensor, Tensor]:
    """p_ij of Eq. 5 towards the left and towards the right, [B, n, n] each.

    With E the prefix sums of e, min(1, E_b - E_a) is what lies between two borders, up to one whole position; a p_ij is
    the difference of two of these. That is Eq. 5 in four passes over n x n for both sides, where its cases written out
    with ``where``, ``cumsum`` and ``triu`` take sixteen.
    """
    borders = F.pad(exists.cumsum(1), (1, 0))  # E_0 ... E_n [B, n + 1]
    between = (borders.unsqueeze(1) - borders.unsqueeze(2)).clamp(0, 1)  # [B, n + 1, n + 1]
    to_right = between[:, 1:, 1:] - between[:, 1:, :-1]
    to_left = (between[:, :-1, :-1] - between[:, 1:, :-1]).mT
    return to_left, to_right


def _on_columns(matrix: Tensor, values: Tensor) -> Tensor:
    """[B, n, n] times [B, n]."""
    return (matrix @ values.unsqueeze(-1)).squeeze(-1)


def _activate(values: Tensor, name: str) -> Tensor:
    if name == "relu":
        return F.relu(values)
    return F.gelu(values, approximate="tanh" if name == "gelu-tanh" else "none")


def _known(slot: str, part: object, *kinds: type[Part]) -> Part:
    """The part, if the dense engine has equations for it."""
    for kind in kinds:
        if isinstance(part, kind):
            return part
    listed = " or ".join(kind.__name__ for kind in kinds)
    raise CrvnnError(f"the dense engine has equations for the {slot} {listed}, not for {type(part).__name__}")
