"""The paper's formulation (Algorithm 1, Eqs. 1-11) in plain torch: a baseline for benchmarks, and an oracle for tests.

Every step builds the n x n matrices of Eq. 5, the cell runs on every position, and a sequence that has halted stays in
the batch until the last one halts. It shares no code with the engine, only the parameters.

Symbols: e existential probability (``exists``), u score (``scores``), c composition probability (``compose``), and
``left_c`` for left(c), the weight with which a position becomes a parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

from crvnn_core import CrvnnError, Encoder, Encoding
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Modulated, Sigmoid, Stretched
from crvnn_parts.haltings import Never, Threshold
from crvnn_parts.operations.modulated import GUARD, LINEAR_ABOVE
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer

Part = TypeVar("Part")


class DenseEngine(Encoder):
    """The dense formulation of a recursion, over the parameters of that recursion.

    :param recursion: an encoder with the parts and settings of ``crvnn``; an error if there are no equations for one.
    """

    def __init__(self, recursion: Encoder) -> None:
        super().__init__(recursion.width)
        _known(recursion, "retriever", Adhoc, AdhocDense)
        self.cell = _known(recursion, "cell", GatedCell)
        self.scorer = _known(recursion, "scorer", WindowScorer)
        self.decision = _known(recursion, "decision", Sigmoid, Modulated, Stretched)
        self.halting = _known(recursion, "halting", Threshold, Never)
        settings: Any = recursion
        self.start: Tensor | None = settings.start
        self.end: Tensor | None = settings.end
        self.halt_penalty: float = settings.halt_penalty
        self.penalise: str = settings.penalise
        self.max_steps: int = settings.max_steps
        self.extra_steps: int = settings.extra_steps

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        """The encoding of a batch. No trace is recorded, whether asked for or not."""
        lengths: list[int] = mask.sum(1).tolist()
        limits = [self.step_limit(length) for length in lengths]
        nodes, places = self._begin(inputs[:, : max(lengths)], mask[:, : max(lengths)])
        exists = places.present.to(nodes.dtype)  # e [B, n]
        left_c = torch.zeros_like(exists)
        steps, unhalted = [0] * len(lengths), [True] * len(lengths)
        while True:
            active = [go and step < limit for go, step, limit in zip(unhalted, steps, limits, strict=True)]
            if not any(active):
                break
            alive = None if all(active) else torch.tensor(active, device=nodes.device).unsqueeze(1)  # [B, 1]
            nodes, exists, left_c = self._step(nodes, exists, left_c, places, alive)
            answers = self._unhalted(exists, places.tokens)
            for row, go in enumerate(active):
                if go:
                    steps[row] += 1
                    unhalted[row] = answers[row]
        rows = torch.arange(len(lengths), device=nodes.device)
        return Encoding(
            vector=nodes[rows, places.last],
            penalty=self._penalty(exists, places, torch.tensor(unhalted, device=nodes.device)),
            steps=torch.tensor(steps, device=nodes.device),
        )

    def step_limit(self, length: int) -> int:
        limits = [length - 1 + self.extra_steps, self.max_steps or None, self.halting.limit]
        return min(limit for limit in limits if limit is not None)

    def _begin(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, _Places]:
        """Leaves between START and END, and the masks of positions."""
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
        places = _Places(
            present=place < count + offset,
            tokens=(place >= 0) & (place < count),
            eligible=(place >= 0) & (place < count - 1),
            last=count.squeeze(1) - 1 + offset,
        )
        return F.layer_norm(leaves, norm.normalized_shape, norm.weight, norm.bias, norm.eps), places

    def _step(
        self, nodes: Tensor, exists: Tensor, left_c: Tensor, places: _Places, alive: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step of Algorithm 1 on every position: nodes, e and left(c); sequences not ``alive`` do not change."""
        to_left, to_right = neighbour_matrices(exists)
        left = to_left @ nodes  # shared by the scorer and the cell
        scores = self._scores(nodes, left, to_left, to_right, left_c)
        compose = self._decide(scores, to_left, to_right, places)  # c [B, n]
        if alive is not None:
            compose = compose * alive
        left_c = _on_columns(to_left, compose) * places.tokens  # left(c) [B, n]
        nodes = torch.lerp(nodes, self._compose(left, nodes), left_c.unsqueeze(-1))
        return nodes, exists * (1 - compose), left_c

    def _scores(
        self, nodes: Tensor, left: Tensor, to_left: Tensor, to_right: Tensor, left_c: Tensor
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
        else:  # transition features: from "untouched" to "composed" by left(c), folded into the bias
            split = window.shape[-1]
            new, old = weight[:, split:] @ scorer.composed, weight[:, split:] @ scorer.untouched
            mixed = F.linear(window, weight[:, :split], bias + old)
            mixed = torch.addcmul(mixed, left_c.unsqueeze(-1), new - old)
        active = _activate(mixed, scorer.activation)
        return F.linear(active, scorer.score.weight, scorer.score.bias).squeeze(-1)

    def _decide(self, scores: Tensor, to_left: Tensor, to_right: Tensor, places: _Places) -> Tensor:
        """Eqs. 9 and 10, or another form of 10; stretched and clipped if the decision is: c [B, n]."""
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
            chosen = torch.sigmoid(
                scores - F.softplus(torch.logsumexp(rivals, 0))
            )  # softplus(x) = log(1 + exp(x))
        else:
            if form == "bounded":
                above = (scores - LINEAR_ABOVE).clamp(min=0)  # where exp(u) is continued along its tangent
                scores = torch.where(above > 0, LINEAR_ABOVE + torch.log1p(above), scores)
                highest = scores.masked_fill(~places.eligible, 0).amax(1, keepdim=True).clamp(min=0)
            else:
                highest = scores.masked_fill(~places.present, 0).amax(1, keepdim=True).clamp(min=0)
            strength = torch.exp(scores.masked_fill(~places.eligible, -torch.inf) - highest)
            rivals = _on_columns(to_left, strength) + _on_columns(to_right, strength)
            guard = GUARD if form == "reference" else 0
            chosen = strength / (strength + rivals + torch.exp(-highest) + guard)
        chosen = chosen * places.eligible
        if isinstance(decision, Stretched):
            chosen = ((1 + 2 * decision.stretch) * chosen - decision.stretch).clamp(0, 1) * places.eligible
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

    def _unhalted(self, exists: Tensor, tokens: Tensor) -> list[bool]:
        """Algorithm 2: whether each sequence continues."""
        if isinstance(self.halting, Threshold):
            several = ((exists.detach() > self.halting.epsilon) & tokens).sum(1) > 1
            continues: list[bool] = several.tolist()
            return continues
        return [True] * len(exists)

    def _penalty(self, exists: Tensor, places: _Places, unhalted: Tensor) -> Tensor:
        """The halting penalty [B]: cross-entropy of the last token among all that still exist."""
        if not self.halt_penalty:
            return exists.new_zeros(len(exists))
        ending = exists.gather(1, places.last.unsqueeze(1)).squeeze(1)
        penalty = -self.halt_penalty * torch.log(ending / (exists * places.tokens).sum(1))
        return penalty * unhalted if self.penalise == "unhalted" else penalty


@dataclass(eq=False)
class _Places:
    """Masks of positions, constant over the steps."""

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


def _known(encoder: Encoder, slot: str, *kinds: type[Part]) -> Part:
    """A part of an encoder, if there are equations for it here."""
    part = getattr(encoder, slot, None)
    for kind in kinds:
        if isinstance(part, kind):
            return part
    listed = " or ".join(kind.__name__ for kind in kinds)
    found = "none" if part is None else type(part).__name__
    raise CrvnnError(
        f"the dense engine has equations for the {slot} {listed}; {type(encoder).__name__} has {found}"
    )
