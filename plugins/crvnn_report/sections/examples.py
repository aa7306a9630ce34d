"""Trees and steps: the trees of single inputs, and the probabilities e and c of every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from crvnn_core.display.charts import Matrix
from crvnn_core.inference.inspection import InspectedSequence, Inspection, agreement
from crvnn_core.runs.comparison import percent
from crvnn_core.trees.extraction import describe_conflicts
from crvnn_core.trees.scoring import Sentence, nontrivial_spans
from crvnn_report.report import Input, Report

_NUMBERS = 14  # columns of a heat map up to which its numbers are written in the cells
_GONE = 0.05  # e below which c is not drawn: it has hardly any effect
_WIDE = 76  # letters and gaps of a sequence above which it gets the whole width


def examples(report: Report) -> dict[str, Any]:
    """Texts of the user's, then examples of the split; some of them open, and some of these with their steps."""
    opened = () if report.texts else _contrasting_examples(report.examples)
    reason = report.sample.problem
    if not reason and not report.texts:
        reason = "No example of the sample is short enough to be drawn."
    return {
        "texts": [_input(report, each, True, index < 2) for index, each in enumerate(report.texts)],
        "examples": [
            _input(report, each, index in opened, index in opened)
            for index, each in enumerate(report.examples)
        ],
        "all_correct": all(one.correct for model in report.models for one in model.predictions),
        "reason": reason,
    }


def _contrasting_examples(inputs: Sequence[Input]) -> tuple[int, ...]:
    """The first input that every model predicts correctly, and the first that not every model does."""
    found = {each.wrong: index for index, each in reversed(list(enumerate(inputs)))}
    return tuple(found.values())


def _input(report: Report, each: Input, opened: bool, steps_opened: bool) -> dict[str, Any]:
    inspections = [inspection for inspection in each.inspections if isinstance(inspection, Inspection)]
    longest = max(
        (
            sum(map(len, sequence.tokens)) + 2 * len(sequence.tokens)
            for inspection in inspections
            for sequence in inspection.sequences
        ),
        default=0,
    )
    return {
        "texts": (each.text,) if isinstance(each.text, str) else each.text,
        "gold": each.gold,
        # ``svg`` escapes the tokens itself.
        "gold_trees": [
            Markup(sentence.gold.to("svg")) for sentence in each.gold_trees if sentence is not None
        ],
        "opened": opened,
        "steps_opened": steps_opened,
        "css": "columns" + " long" * (longest > _WIDE) + " very-long" * (longest > 2.5 * _WIDE),
        "columns": [_column(report, colour, each) for colour in range(len(each.inspections))],
    }


def _column(report: Report, colour: int, each: Input) -> dict[str, Any]:
    """One model's prediction for an input, with trees and steps."""
    inspection = each.inspections[colour]
    if isinstance(inspection, str):
        return {"colour": colour, "missing": inspection}
    return {
        "colour": colour,
        "missing": "",
        "label": inspection.label,
        "probability": percent(inspection.probabilities[inspection.label]),
        "correct": None if each.gold is None else inspection.label == each.gold,
        "sequences": [
            _sequence(sequence, gold)
            for sequence, gold in zip(inspection.sequences, each.gold_trees, strict=True)
        ],
        "agreement": _agreement(report.names[0], each.inspections[0], inspection) if colour else "",
        "maps": [_maps(sequence) for sequence in inspection.sequences if sequence.compose],
    }


def _agreement(name: str, first: Inspection | str, inspection: Inspection) -> str:
    """How many constituents of the first model's trees another model's trees have too."""
    if isinstance(first, str):
        return ""
    trees = [[each.tree for each in one.sequences if each.tree is not None] for one in (first, inspection)]
    if not all(trees) or [tree.tokens for tree in trees[0]] != [tree.tokens for tree in trees[1]]:
        return ""
    spans = [[nontrivial_spans(tree) for tree in one] for one in trees]
    common = sum(len(one & two) for one, two in zip(*spans, strict=True))
    every = sum(map(len, spans[0]))
    return f"Constituents shared with {name}: {common} of {every}." if every else ""


def _unknown(sequence: InspectedSequence) -> frozenset[int]:
    return frozenset(place for place, unknown in enumerate(sequence.unknown) if unknown)


def _sequence(sequence: InspectedSequence, gold: Sentence | None) -> dict[str, Any]:
    unknown, tree = _unknown(sequence), sequence.tree
    return {
        # ``svg`` escapes the tokens itself.
        "tree": Markup(tree.to("svg", unknown=unknown)) if tree is not None else None,
        "agreement": agreement(tree, gold),
        "conflicts": describe_conflicts(tree),
        "unknown": list(dict.fromkeys(sequence.tokens[place] for place in sorted(unknown))),
    }


def _maps(sequence: InspectedSequence) -> tuple[Markup, Markup]:
    """Heat maps of e before the first step and after each, and of c in each step."""
    steps = [str(step) for step in range(1, len(sequence.compose) + 1)]
    compose = [
        [c if e >= _GONE else 0.0 for c, e in zip(*rows, strict=True)]
        for rows in zip(sequence.compose, sequence.exists, strict=False)
    ]
    nodes = sequence.tree.nodes if sequence.tree is not None else ()
    composed = frozenset((node.step - 1, node.split - 1) for node in nodes if node.step is not None)
    return (
        _map(sequence, sequence.exists, ["start", *steps], "exist", "e", frozenset()),
        _map(sequence, compose, steps, "compose", "c", composed),
    )


def _map(
    sequence: InspectedSequence,
    values: list[list[float]],
    rows: list[str],
    css: str,
    symbol: str,
    framed: frozenset[tuple[int, int]],
) -> Markup:
    tokens = sequence.tokens
    numbers = len(tokens) <= _NUMBERS
    matrix = Matrix(
        rows,
        tokens,
        [[min(max(value, 0.0), 1.0) for value in row] for row in values],
        lambda i, j: _digits(values[i][j]) if numbers else "",
        lambda i, j: f"{tokens[j]}, step {rows[i]}: {symbol} = {values[i][j]:.3f}",
        framed=framed,
        unknown=_unknown(sequence),
    )
    name = {"e": "existence", "c": "composition"}[symbol]
    description = f"{len(rows)} rows of {name} probabilities over {len(tokens)} tokens: {' '.join(tokens)}"
    cell = (30.0, 20.0) if numbers else (20.0, 20.0 if len(rows) <= 16 else 14.0)
    return matrix.draw(f"Heat map of {name} {symbol} over steps", description, css, cell)


def _digits(value: float) -> str:
    """``.97``; empty for less than half a hundredth."""
    if value < 0.005:
        return ""
    return "1" if value >= 0.995 else f"{value:.2f}"[1:]
