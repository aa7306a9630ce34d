"""The recursion of simple components, and inputs for it."""

import torch

from crvnn_core import Recursion, StatefulHalting
from crvnn_core.testing.parts import PlainCell, PlainDecision, PlainHalting, PlainScorer, ScriptedDecision
from crvnn_parts.retrievers.interval import Adhoc

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
