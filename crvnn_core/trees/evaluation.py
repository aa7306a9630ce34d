"""How well the trees of trained models agree with gold trees, and with each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen

from crvnn_core.display import Shown
from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.inference.texts import Text, listed
from crvnn_core.runs.seeds import spread
from crvnn_core.trees.baselines import BASELINES
from crvnn_core.trees.faithfulness import faithfulness
from crvnn_core.trees.scoring import Score, agreement, gold_sentences, score

if TYPE_CHECKING:
    from crvnn_core.inference.trained import Trained
    from crvnn_core.interfaces import Example
    from crvnn_core.trees.tree import Tree


@frozen(kw_only=True)
class TreeScores(Shown):
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
    #: By run, how far its trees account for its sentence vectors (``trees.faithfulness``); ``None`` for an encoder that
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
    asked = [first.question(each, place) for place, each in enumerate(listed(examples, "score_trees"))]
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
