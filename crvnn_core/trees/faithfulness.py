"""How far a tree accounts for a sentence vector: the gradient of the recursion beside that of composing along the tree.

With x_i the vector of token i, v the sentence vector, v' the one that the same cell composes along the tree, and w a
fixed vector of signs, g_i and g'_i are the gradients of w.v and w.v' with respect to x_i. A tree has

    faithfulness = mean over i of 2 g_i.g'_i / (|g_i|^2 + |g'_i|^2)

A token counts 1 where both gradients are the same, and 0 where it has no influence on one of the two vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crvnn_core.evaluation_mode import evaluating
from crvnn_core.interfaces import Example
from crvnn_core.training.memory import within_budget
from crvnn_core.trees.levels import levels_of
from crvnn_core.trees.tree import Tree

if TYPE_CHECKING:
    from crvnn_core.model.model import Model

#: Sequences of more tokens are left out: the graph of a recursion over n tokens may take memory for n * n nodes.
MOST_TOKENS = 500
_BUDGET = 1024  # tokens of a forward pass with its graph


def faithfulness(
    model: Model, trees: Sequence[Tree], done: Callable[[int], None] | None = None
) -> float | None:
    """The mean faithfulness of a model's trees over at least two tokens; ``None`` if there is none.

    So it is of an encoder that composes along nothing but its trees, or cannot compose along given ones
    (``tree_supervision``).

    :param done: is called with the number of trees after each batch.
    """
    model = evaluating(model)
    follows = model.encoder.tree_supervision and not model.encoder.needs_trees
    known = [tree for tree in trees if follows and 2 <= len(tree.tokens) <= MOST_TOKENS]
    total, count = 0.0, done or (lambda number: None)
    count(len(trees) - len(known))
    for group in within_budget([Example((tree.tokens,), 0) for tree in known], _BUDGET):
        total += _faithfulness(model, [known[i] for i in group]).sum().item()
        count(len(group))
    return total / len(known) if known else None


def _faithfulness(model: Model, trees: Sequence[Tree]) -> Tensor:
    """Of each tree of a batch [B]."""
    tokens = model.vocabulary.encode([tree.tokens for tree in trees]).to(model.embed.weight.device)
    with torch.no_grad():
        inputs = model.project(model.embed(tokens.ids))
    soft, along = (
        _gradient(model, inputs, tokens.mask, levels).double()
        for levels in (None, levels_of(trees, tokens.mask))
    )
    shared, size = 2 * (soft * along).sum(-1), (soft**2 + along**2).sum(-1)  # [B, n]
    share = torch.where(size > 0, shared / size, 1.0)  # a token may have no influence on either
    return (share * tokens.mask).sum(1) / tokens.mask.sum(1)


def _gradient(model: Model, inputs: Tensor, mask: Tensor, levels: Tensor | None) -> Tensor:
    """Of a weighted sum of the sentence vector, with respect to the vectors of the tokens [B, n, d]."""
    along: dict[str, Any] = {} if levels is None else {"levels": levels}
    with torch.enable_grad():
        inputs = inputs.clone().requires_grad_()
        vector = model.encoder(inputs, mask, **along).vector
        signs = torch.randint(0, 2, vector.shape[1:], generator=torch.Generator().manual_seed(0)) * 2 - 1
        (found,) = torch.autograd.grad((vector @ signs.to(vector)).sum(), inputs)
    return found
