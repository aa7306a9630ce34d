"""The window scorer against its equation."""

import pytest
import torch
from torch import nn

from crvnn_core.testing.oracles import matrices
from crvnn_parts.scorers import WindowScorer


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("transition", [0, 3])
@pytest.mark.parametrize("window", [1, 3, 5, 7])
def test_the_score_is_the_papers_convolution_over_soft_neighbours(window, transition):
    scorer = WindowScorer(4, window=window, transition=transition)
    nn.init.normal_(scorer.convolution.bias)
    vectors, left_c, near = torch.randn(2, 6, 4), torch.rand(2, 6), matrices(torch.rand(2, 6))
    seen = []
    for distance in range(-(window // 2), window // 2 + 1):
        look = vectors
        for _ in range(abs(distance)):
            look = near.left(look) if distance < 0 else near.right(look)
        seen.append(look)
    if transition:
        weight = left_c.unsqueeze(-1)
        seen.append(weight * scorer.composed + (1 - weight) * scorer.untouched)
    expected = scorer.score(nn.functional.gelu(scorer.convolution(torch.cat(seen, -1)))).squeeze(-1)
    torch.testing.assert_close(scorer(vectors, near, left_c), expected, atol=1e-5, rtol=1e-5)
