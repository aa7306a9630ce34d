"""How well the trees of trained models agree with gold trees and with each other, and how faithful they are.

Faithfulness says how far a tree accounts for a sentence vector: the gradient of the recursion beside that of composing
along the tree. With x_i the vector of token i, v the sentence vector, v' the one that the same cell composes
along the tree, and w a fixed vector of signs, g_i and g'_i are the gradients of w.v and w.v' with respect to x_i. A
tree has

    faithfulness = mean over i of 2 g_i.g'_i / (|g_i|^2 + |g'_i|^2)

A token counts 1 where both gradients are the same, and 0 where it has no influence on one of the two vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from attrs import asdict, field, frozen
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.evaluation_mode import evaluating
from crvnn_core.inference.predictions import Text, listed
from crvnn_core.inference.trained import Trained
from crvnn_core.interfaces import Example
from crvnn_core.model.model import Model
from crvnn_core.runs.results import spread
from crvnn_core.training.data import within_budget
from crvnn_core.trees.gold import levels_of
from crvnn_core.trees.scoring import BASELINES, Score, agreement, gold_sentences, score
from crvnn_core.trees.tree import Tree
from crvnn_core.views import make_frame

if TYPE_CHECKING:
    import pandas


@frozen(kw_only=True)
class TreeScores:
    """Scores of the trees of one run or several on the same examples."""

    sequences: int
    #: Sequences that the task has no gold tree of.
    without_gold_tree: int
    #: Sequences of fewer than three tokens, which have only one tree.
    too_short: int
    #: Against gold trees, by run and then by baseline; empty if no sequence has a gold tree.
    scores: Mapping[str, Score]
    #: The same of hard inference, by run; empty if it was not asked for.
    scores_hard: Mapping[str, Score] = field(factory=dict)
    #: By run, how far its trees account for its sentence vectors (``faithfulness``); ``None`` for an encoder that
    #: cannot compose along given trees. Hard inference composes along its trees: there it is 1, and not computed.
    faithfulness: Mapping[str, float | None] = field(factory=dict)
    #: By run, how many of its trees have nodes that did not get into the sentence vector.
    conflicts: Mapping[str, int] = field(factory=dict)
    #: The mean F1 of every two runs; ``None`` for one run, or if all sequences are too short.
    agreement: float | None = None
    agreement_hard: float | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each run and baseline, for soft and for hard decisions."""
        rows = (
            {
                "trees": name,
                "hard": hard,
                **asdict(score),
                "faithfulness": None if hard else self.faithfulness.get(name),
                "conflicts": None if hard else self.conflicts.get(name),
            }
            for hard, scores in ((False, self.scores), (True, self.scores_hard))
            for name, score in scores.items()
        )
        return make_frame(rows)

    def _repr_html_(self) -> str:
        from crvnn_core.display.notebook import number, page, table

        by_name = {
            name: {
                **(asdict(self.scores[name]) if name in self.scores else {}),
                "faithfulness": self.faithfulness.get(name),
                "conflicts": self.conflicts.get(name),
            }
            for name in self.scores or self.conflicts
        }
        rows = [
            (name, *(number(key, value) for key, value in facts.items())) for name, facts in by_name.items()
        ]
        columns = ("trees", *(key.replace("_", " ") for key in next(iter(by_name.values()))))
        return page(table(columns, rows, right=range(1, len(columns))))


def score_trees(
    models: Mapping[str, Trained],
    examples: Sequence[Example | Text],
    *,
    hard: bool = False,
    done: Callable[[int], None] | None = None,
) -> TreeScores:
    """Score the trees of models as ``crvnn trees`` does: against gold trees, beside baselines, against each other.

    :param models: by a name for messages and results. The first one's task says which trees are gold.
    :param examples: for all models alike; or texts (or pairs of texts), whose gold trees are those that the task reads
        from them.
    :param hard: score the trees of hard inference as well.
    :param done: is called after each batch of each model: with the number of examples that were parsed, and then of
        sequences whose tree was followed.
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError(f"score_trees takes models by name, as in {{'mine': model}}, not {models!r:.80}")
    first = next(iter(models.values()))
    asked = [first.example(each, place) for place, each in enumerate(listed(examples, "score_trees"))]
    sentences = [sentence for example in asked for sentence in gold_sentences(first.task, example)]
    known = [sentence for sentence in sentences if sentence is not None]

    def against_gold(trees: Sequence[Tree]) -> Score:
        scored = [tree for tree, sentence in zip(trees, sentences, strict=True) if sentence is not None]
        return score(scored, known)

    soft = {name: _trees(name, model, asked, False, done) for name, model in models.items()}
    hardened = (
        {name: _trees(name, model, asked, True, done) for name, model in models.items()} if hard else {}
    )
    scores, scores_hard = {}, {}
    if known:
        scores = {name: against_gold(trees) for name, trees in soft.items()}
        scores |= {
            name: score([make(sentence.gold.tokens) for sentence in known], known)
            for name, make in BASELINES.items()
        }
        scores_hard = {name: against_gold(trees) for name, trees in hardened.items()}
    return TreeScores(
        sequences=len(sentences),
        without_gold_tree=len(sentences) - len(known),
        too_short=sum(sentence.too_short for sentence in known),
        scores=scores,
        scores_hard=scores_hard,
        faithfulness={name: faithfulness(model.model, soft[name], done) for name, model in models.items()},
        conflicts={name: sum(bool(tree.conflicts) for tree in trees) for name, trees in soft.items()},
        agreement=agreement(list(soft.values())),
        agreement_hard=agreement(list(hardened.values())),
    )


def seed_spreads(scores: Mapping[str, Score], runs: Sequence[str]) -> dict[str, dict[str, float] | None]:
    """Mean, median, minimum and standard deviation of each score over runs of different seeds.

    :param scores: by run, as in ``TreeScores``.
    :param runs: the names of the runs; ``None`` for a score that none of them has.
    """
    values = {
        key: [value for run in runs if run in scores and (value := getattr(scores[run], key)) is not None]
        for key in ("f1", "corpus_f1", "exact", "constituents", "depth")
    }
    return {key: spread(found) if found else None for key, found in values.items()}


def _trees(
    name: str,
    model: Trained,
    examples: Sequence[Example],
    hard: bool,
    done: Callable[[int], None] | None,
) -> list[Tree]:
    """A model's trees of all sequences; errors name the model."""
    arity = model.task.arity
    if any(len(example.sequences) != arity for example in examples):
        raise CrvnnError(f"{name}: its task takes {arity} texts at a time, the first run's does not")
    try:
        return [tree for trees in model.trees(examples, done, hard=hard) for tree in trees]
    except CrvnnError as error:
        raise CrvnnError(f"{name}: {error}") from None


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
