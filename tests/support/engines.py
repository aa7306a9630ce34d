"""Recursions of simple and of built-in parts, and inputs for them."""

import torch

from crvnn_core import Decision, Recursion, StatefulHalting
from crvnn_core.testing.parts import PlainCell, PlainDecision, PlainHalting, PlainScorer, ScriptedDecision
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Modulated
from crvnn_parts.haltings import Threshold
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer

RETRIEVERS = ("adhoc", "adhoc-dense", "log-space", "log-space-dense", "windowed")


class Converged(StatefulHalting):
    """Halts when the sum of the vectors, weighted by existence, no longer changes much."""

    def __init__(self, tolerance=0.05):
        super().__init__()
        self.tolerance = tolerance

    def initial_state(self, exists, vectors):
        return (exists.unsqueeze(-1) * vectors).sum(1)

    def forward(self, exists, vectors, step, before):
        now = self.initial_state(exists, vectors)
        return (now - before).norm(dim=1) > self.tolerance, now


class Highest(Decision):
    """Composes for sure what scores higher than its neighbours, so that every step joins something."""

    def forward(self, scores, near, eligible, exists):
        strength = torch.exp(scores) * eligible
        left, _, right = near.window(strength, 1)
        return ((strength > left) & (strength > right)).to(scores.dtype)


def engine(width=4, **parts):
    torch.manual_seed(3)
    scripted = isinstance(parts.get("decision"), ScriptedDecision)  # which counts positions
    options = {"boundaries": False, "shortcuts": not scripted, **parts}
    defaults = {
        "retriever": Adhoc(),
        "scorer": PlainScorer(width),
        "decision": PlainDecision(),
        "cell": PlainCell(width),
        "halting": PlainHalting(),
    }
    return Recursion(width, **{**defaults, **options}).eval()


def tokens(n, width=1):
    inputs = torch.zeros(1, n, width)
    inputs[0, :, 0] = torch.arange(n)
    return inputs, torch.ones(1, n, dtype=torch.bool)


def mask_of(lengths):
    """[B, n], true at the tokens of sequences of these lengths."""
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def batch(lengths, width=4, seed=1, dtype=torch.float64):
    """Random inputs of these lengths, padding included, and their mask."""
    generator = torch.Generator().manual_seed(seed)
    mask = mask_of(lengths)
    return torch.randn(*mask.shape, width, dtype=dtype, generator=generator), mask


def sharp(width=4, *, sharpness=10.0, seed=2, cell=GatedCell, **parts):
    """A recursion of built-in parts in float64, whose scores are far apart; ``cell`` is built with the width."""
    torch.manual_seed(seed)
    scorer = WindowScorer(width, transition=3)
    with torch.no_grad():
        scorer.score.weight *= sharpness
    defaults = {"retriever": Adhoc(), "decision": Modulated(), "halting": Threshold()}
    return Recursion(width, scorer=scorer, cell=cell(width), **{**defaults, **parts}).double().eval()


def loop_in_python(condition, step, carried):
    """``while_loop`` without torch's graph, which would take seconds to make."""
    while condition(*carried):
        carried = step(*carried)
    return carried
