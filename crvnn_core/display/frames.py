"""Frames of pandas from trees, predictions, traces and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from attrs import asdict

from crvnn_core.engine.trace import Trace
from crvnn_core.errors import CrvnnError
from crvnn_core.inference.inspection import Inspection
from crvnn_core.inference.predictions import Prediction, Predictions
from crvnn_core.inference.trained import Trained
from crvnn_core.inference.tree_scores import TreeScores
from crvnn_core.runs.results import Result, Results
from crvnn_core.trees import Tree

if TYPE_CHECKING:
    import pandas

_STEPS = ("sequence", "step", "position", "token", "exists", "compose")


def make_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """A frame of rows; an error that says how to install pandas if it is not there."""
    try:
        import pandas
    except ImportError:
        raise CrvnnError(
            "to_pandas needs pandas, which is not installed: pip install 'crvnn[pandas]'"
        ) from None
    return pandas.DataFrame(list(rows), columns=None if columns is None else list(columns))


@singledispatch
def frame(source: object) -> pandas.DataFrame:
    """An object as a frame."""
    raise TypeError(f"a {type(source).__name__} is no frame")


@frame.register(Tree)
def _tree(source: Tree) -> pandas.DataFrame:
    """A row for each inner node, children before parents."""
    rows = (
        {
            "start": node.start,
            "split": node.split,
            "end": node.end,
            "step": node.step,
            "probability": node.chance,
            "conflict": node.conflict,
            "text": " ".join(source.tokens[node.start : node.end]),
        }
        for node in source.nodes
    )
    return make_frame(rows, ("start", "split", "end", "step", "probability", "conflict", "text"))


@frame.register(Prediction)
def _prediction(source: Prediction) -> pandas.DataFrame:
    return make_frame([_row(source)])


@frame.register(Predictions)
def _predictions(source: Predictions) -> pandas.DataFrame:
    """A row for each text, with a column ``p_CLASS`` for each class."""
    return make_frame(map(_row, source))


def _row(source: Prediction) -> dict[str, Any]:
    one = isinstance(source.text, str)
    texts = {"text": source.text} if one else dict(zip(("text_a", "text_b"), source.text, strict=True))
    trees = {"tree": source.tree} if one else dict(zip(("tree_a", "tree_b"), source.trees, strict=True))
    return {
        **texts,
        "label": source.label,
        **{f"p_{name}": chance for name, chance in source.probabilities.items()},
        **{name: None if tree is None else str(tree) for name, tree in trees.items()},
        "unknown": " ".join(source.unknown),
    }


@frame.register(Inspection)
def _inspection(source: Inspection) -> pandas.DataFrame:
    """A row for each sequence, step and token."""
    rows = (
        row
        for number, sequence in enumerate(source.sequences)
        for row in _steps(number, sequence.tokens, sequence.exists, sequence.compose)
    )
    return make_frame(rows, _STEPS)


@frame.register(Trace)
def _trace(source: Trace) -> pandas.DataFrame:
    """A row for each sequence, step and position; the tokens are not known."""
    rows = []
    for number, (n, steps) in enumerate(zip(source.mask.sum(1).tolist(), source.steps.tolist(), strict=True)):
        exists = source.exists[: steps + 1, number, :n].tolist()
        rows += list(_steps(number, [None] * n, exists, source.compose[:steps, number, :n].tolist()))
    return make_frame(rows, [name for name in _STEPS if name != "token"])


def _steps(
    number: int,
    tokens: Sequence[str | None],
    exists: Sequence[Sequence[float]],
    compose: Sequence[Sequence[float]],
) -> Iterable[dict[str, Any]]:
    """e after each step, and c of the step; step 0 is the beginning, where nothing has been composed."""
    for step, row in enumerate(exists):
        for position, token in enumerate(tokens):
            c = compose[step - 1][position] if step else 0.0
            values = (number, step, position, token, row[position], c)
            yield dict(zip(_STEPS, values, strict=True))


@frame.register(Result)
def _result(source: Result) -> pandas.DataFrame:
    """A row for all examples, and one for each group."""
    return make_frame(_scores(source))


@frame.register(Results)
def _results(source: Results) -> pandas.DataFrame:
    """A row for each split and group."""
    rows = ({"split": split, **row} for split, result in source.items() for row in _scores(result))
    return make_frame(rows, None if source else ("split", "group"))


def _scores(source: Result) -> Iterable[dict[str, Any]]:
    for group, score in {"all": source.total, **source.buckets}.items():
        yield {"group": group, **asdict(score)}


@frame.register(Trained)
def _trained(source: Trained) -> pandas.DataFrame:
    """Its results."""
    return frame(source.results)


@frame.register(TreeScores)
def _tree_scores(source: TreeScores) -> pandas.DataFrame:
    """A row for each run and baseline, for soft and for hard decisions."""
    kinds = {False: source.scores, True: source.scores_hard}
    rows = (
        {
            "trees": name,
            "hard": hard,
            **asdict(score),
            "faithfulness": None if hard else source.faithfulness.get(name),
            "conflicts": None if hard else source.conflicts.get(name),
        }
        for hard, scores in kinds.items()
        for name, score in scores.items()
    )
    return make_frame(rows)
