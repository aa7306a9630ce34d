"""HTML of predictions, traces and results, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch

from attrs import asdict

from crvnn_core.display.markup import Raw, bar, drawing, escape, line, more, page, shade, table
from crvnn_core.engine.trace import Trace
from crvnn_core.inference.cost import part_of
from crvnn_core.inference.inspection import InspectedSequence, Inspection
from crvnn_core.inference.predictions import Prediction, Predictions
from crvnn_core.inference.trained import Trained
from crvnn_core.inference.tree_scores import TreeScores
from crvnn_core.runs.results import Classification, Result, Results
from crvnn_core.trees import Tree

_ROWS = 50  # of predictions that are shown
_CLASSES = 5  # of a prediction that are shown, the most probable first
_MOST_CLASSES = 20  # of a confusion matrix
_SEQUENCES = 4  # of a trace that are shown
_TOKENS = 200  # of a sequence that are shown step by step
_LEGEND = Raw(
    '<div class="muted">blue: existential probability e before the step; orange: composition probability c</div>'
)


@singledispatch
def view(shown: object) -> str:
    """An object as HTML, with its own style for light and dark and without scripts."""
    raise TypeError(f"there is no view of a {type(shown).__name__}")


@view.register(Prediction)
def _prediction(shown: Prediction) -> str:
    pairs = zip(shown.tokens, shown.trees, strict=True)
    texts = [shown.text] if isinstance(shown.text, str) else shown.text
    return page(
        *map(line, texts),
        _probabilities(shown.probabilities),
        _unknown(shown.unknown),
        *(_drawn(tree, [token in shown.unknown for token in tokens]) for tokens, tree in pairs),
    )


@view.register(Predictions)
def _predictions(shown: Predictions) -> str:
    rows: list[tuple[object, ...]] = [
        (
            _joined([one.text] if isinstance(one.text, str) else one.text),
            one.label,
            bar(one.probabilities[one.label]),
            Raw(f'<span class="tree">{_joined(["" if t is None else str(t) for t in one.trees])}</span>'),
            Raw(f'<span class="unknown">{escape(" ".join(one.unknown))}</span>'),
        )
        for one in shown[:_ROWS]
    ]
    columns = ["text", "label", "probability", "tree", "unknown tokens"]
    kept = len(columns) if any(one.unknown for one in shown[:_ROWS]) else len(columns) - 1
    return page(table(columns[:kept], [row[:kept] for row in rows]), more(_ROWS, len(shown), "predictions"))


@view.register(Inspection)
def _inspection(shown: Inspection) -> str:
    parts: list[object] = [_probabilities(shown.probabilities)]
    for sequence in shown.sequences:
        parts += [_sequence(sequence), _drawn(sequence.tree, sequence.unknown)]
    return page(*parts, _LEGEND)


@view.register(Trace)
def _trace(shown: Trace) -> str:
    parts: list[object] = []
    for row in range(min(len(shown.mask), _SEQUENCES)):
        n, steps = int(shown.mask[row].sum()), int(shown.steps[row])
        exists = shown.exists[: steps + 1, row, :n].tolist()
        compose = shown.compose[:steps, row, :n].tolist()
        parts += [
            line(f"sequence {row + 1}: {_count(n, 'token')}, {_count(steps, 'step')}"),
            _steps([str(place + 1) for place in range(n)], exists, compose),
        ]
    return page(*parts, more(_SEQUENCES, len(shown.mask), "sequences"), _LEGEND)


@view.register(Result)
def _result(shown: Result) -> str:
    return page(_scores({"": shown}), *_classification(shown.classification))


@view.register(Results)
def _results(shown: Results) -> str:
    return page(_scores(shown) if shown else line("no results are known", "muted"))


@view.register(Trained)
def _trained(shown: Trained) -> str:
    model = shown.spec.model
    parts = ("encoder", "retriever", "scorer", "decision", "cell", "halting", "embedding")
    encoder = shown.model.encoder
    own = [slot for slot in parts if slot in ("encoder", "embedding") or part_of(encoder, slot) is not None]
    return page(
        line(shown),
        table(("slot", "component"), [(slot, getattr(model, slot).name) for slot in own]),
        *([_scores(shown.results)] if shown.results else []),
    )


@view.register(TreeScores)
def _tree_scores(shown: TreeScores) -> str:
    by_name = {
        name: {
            **(asdict(shown.scores[name]) if name in shown.scores else {}),
            "faithfulness": shown.faithfulness.get(name),
            "conflicts": shown.conflicts.get(name),
        }
        for name in shown.scores or shown.conflicts
    }
    rows = [(name, *(_number(key, value) for key, value in facts.items())) for name, facts in by_name.items()]
    columns = ("trees", *(key.replace("_", " ") for key in next(iter(by_name.values()))))
    return page(table(columns, rows, right=range(1, len(columns))))


def _probabilities(by_class: dict[str, float]) -> Raw:
    """The most probable classes."""
    ranked = sorted(by_class.items(), key=lambda pair: -pair[1])
    best = Raw(f"<strong>{escape(ranked[0][0])}</strong>")
    rows = [(name if place else best, bar(chance)) for place, (name, chance) in enumerate(ranked[:_CLASSES])]
    return Raw(f"{table(('label', 'probability'), rows)}{more(_CLASSES, len(ranked), 'classes')}")


def _unknown(tokens: Sequence[str]) -> Raw:
    if not tokens:
        return Raw("")
    names = escape(" ".join(tokens))
    return Raw(f'<div>not in the vocabulary: <span class="unknown">{names}</span></div>')


def _drawn(tree: Tree | None, unknown: Sequence[bool]) -> Raw:
    if tree is None:
        return line("this encoder shows no tree", "muted")
    return drawing(tree, {place for place, strange in enumerate(unknown) if strange})


def _sequence(shown: InspectedSequence) -> Raw:
    if not shown.exists:
        return Raw("")
    names = [
        f'<span class="unknown">{escape(token)}</span>' if strange else escape(token)
        for token, strange in zip(shown.tokens, shown.unknown, strict=True)
    ]
    return _steps([Raw(name) for name in names], shown.exists, shown.compose)


def _steps(
    names: Sequence[object], exists: Sequence[Sequence[float]], compose: Sequence[Sequence[float]]
) -> Raw:
    """A table with a row for each step: e before it as a blue bar from below, c as an orange one from the left."""
    nothing = [0.0] * len(names)
    titles = [*(f"step {number}" for number in range(1, len(compose) + 1)), "end"]
    rows = [
        (title, *(_cell(*pair) for pair in zip(e[:_TOKENS], c[:_TOKENS], strict=True)))
        for title, e, c in zip(titles, exists, [*compose, nothing], strict=True)
    ]
    columns = ("", *names[:_TOKENS])
    return Raw(f"{table(columns, rows, kind='steps')}{more(_TOKENS, len(names), 'tokens')}")


def _cell(exists: float, compose: float) -> Raw:
    return Raw(
        f'<span title="e {exists:.3f}, c {compose:.3f}"><i style="height: {exists:.1%}"></i>'
        f'<b style="width: {compose:.1%}"></b></span>'
    )


def _classification(shown: Classification | None) -> Iterable[Raw]:
    """Scores of the classes, and the confusion matrix; nothing of more classes than fit on a page."""
    if shown is None or len(shown.classes) > _MOST_CLASSES:
        return
    measures = ("support", "precision", "recall", "f1")
    rows = [(each.name, *(_number(key, getattr(each, key)) for key in measures)) for each in shown.scores]
    yield line(f"macro F1 {shown.macro_f1:.1%}")
    yield table(("class", *measures), rows, right=range(1, 5))
    yield line("true class (rows), predicted class (columns)", "muted")
    matrix = [
        (name, *(shade(f"{count:,}" if count else "", count / (sum(counts) or 1)) for count in counts))
        for name, counts in zip(shown.classes, shown.confusion, strict=True)
    ]
    yield table(("", *shown.classes), matrix, right=range(1, len(shown.classes) + 1))


def _scores(results: dict[str, Result]) -> Raw:
    scores = [
        (split, group, score)
        for split, result in results.items()
        for group, score in {"all": result.total, **result.buckets}.items()
    ]
    first = asdict(scores[0][2])
    rows = [
        (split, group, *(_number(key, value) for key, value in asdict(score).items()))
        for split, group, score in scores
    ]
    columns = ("split", "group", *(key.replace("_", " ") for key in first))
    if not any(results):  # a result that is shown alone
        columns, rows = columns[1:], [row[1:] for row in rows]
    return table(columns, rows, right=range(len(columns) - len(first), len(columns)))


def _number(key: str, value: object) -> str:
    """A metric: shares in percent, counts as they are."""
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:.3f}" if key == "loss" else f"{value:.1f}" if key == "depth" else f"{value:.1%}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _joined(texts: Iterable[str]) -> Raw:
    return Raw("<br>".join(map(escape, texts)))
