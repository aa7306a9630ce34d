"""The contract of scorers: built-in scorers satisfy it, and each check fails for a scorer that violates it."""

import torch

from contract_cases import contract_tests
from crvnn_core.testing.parts import PlainScorer

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    *(("window", (f"window={window}",)) for window in (1, 3, 7)),
    ("window", ("transition=0",)),
    ("window", ("activation=relu",)),
    ("window", ("activation=gelu-tanh",)),
]


def altered_scorer(alter):
    class Faulty(PlainScorer):
        def forward(self, vectors, near, left_c):
            return alter(super().forward(vectors, near, left_c), vectors)

    return Faulty


#: A check, a scorer that fails it, and a part of the reason that is given.
FAULTY = [
    (
        "gives_one_score_a_position",
        altered_scorer(lambda scores, v: scores.unsqueeze(-1)),
        "the scores: [3, 7, 1]; expected [3, 7]",
    ),
    ("gives_one_score_a_position", altered_scorer(lambda scores, v: scores * torch.nan), "NaN or infinity"),
    (
        "ignores_padding",
        altered_scorer(lambda scores, v: scores + v.mean((1, 2))[:, None]),
        "with other padding",
    ),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("scorer", PlainScorer, FAULTY, VARIANTS)
