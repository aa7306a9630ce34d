"""The parts of a report that look inside: who is taken for whom, trees, and probabilities step by step."""

from __future__ import annotations

from collections.abc import Sequence

from crvnn_core.inference.inspection import InspectedSequence, Inspection
from crvnn_core.runs.comparison import percent
from crvnn_core.trees.formats.svg import svg
from crvnn_core.trees.scoring import Sentence, telling
from crvnn_core.trees.tree import Tree
from crvnn_report.collection import Report
from crvnn_report.examination import Look, Shown, confusion
from crvnn_report.html import details, figure, legend, missing, section, swatch
from crvnn_report.matrices import Matrix, scale
from crvnn_report.sections import asked
from crvnn_report.svg import plain

_WRITTEN = 14  # columns of a heat map up to which its numbers are written in it
_GONE = 0.05  # existence below which a token's c is not shown
_CLASSES = 40  # up to which a confusion matrix is drawn
_WIDE = 76  # letters and gaps of a sequence from which on it gets the whole width


def confusions(report: Report) -> str:
    """Who is taken for whom."""
    looked = [(colour, look) for colour, look in enumerate(report.looks) if look.seen]
    if not looked:
        reason = report.sample.problem or "No model here could be asked."
        return section("confusion", "Confusion", missing(reason))
    figures = []
    for colour, look in looked:
        right = sum(seen.right for seen in look.seen) / len(look.seen)
        figures.append(
            f"<figure><figcaption>{swatch(colour, look.variant.name)}<small>{percent(right)}% right</small>"
            f'</figcaption><div class="scroll" tabindex="0">{_confusion(look)}</div></figure>'
        )
    lead = f"{plain(asked(report))} Rows are what it is, columns what the model says; a row&rsquo;s shade is its share."
    return section(
        "confusion",
        "Confusion",
        f'<div class="charts">{"".join(figures)}</div>',
        scale("mass", "0", "1"),
        lead=lead,
    )


def _confusion(look: Look) -> str:
    assert look.trained is not None
    known = list(look.trained.task.classes)
    met = {seen.gold for seen in look.seen} | {seen.said for seen in look.seen}
    classes = [name for name in known if name in met] if len(known) > 12 else known
    if len(classes) > _CLASSES:
        return missing(f"{len(classes)} classes are too many to draw.")
    counts = confusion(look.seen, classes)
    totals = [sum(row) or 1 for row in counts]
    matrix = Matrix(
        classes,
        classes,
        [[count / total for count in row] for row, total in zip(counts, totals, strict=True)],
        lambda i, j: f"{counts[i][j]:,}" if counts[i][j] and len(classes) <= 16 else "",
        lambda i, j: f"{classes[i]} taken for {classes[j]}: {counts[i][j]:,} of {sum(counts[i]):,}",
        across="said",
        down="is",
    )
    wrong = sum(not seen.right for seen in look.seen)
    size = max(18.0, min(46.0, 340 / len(classes)))
    said = f"Of {len(look.seen):,} examples {wrong:,} are taken for another class."
    return matrix.draw(f"Confusion matrix of {look.variant.name}", said, "mass", (size, min(size, 34.0)))


def examples(report: Report) -> str:
    """Trees and steps of some inputs."""
    parts = []
    if report.texts:
        parts.append("<h3>Texts that were asked about</h3>")
        parts += [_example(report, each, True, number < 2) for number, each in enumerate(report.texts)]
    if report.examples:
        heading = "<h3>Examples of the split</h3>" if report.texts else ""
        chosen = () if report.texts else _telling(report.examples)
        parts.append(heading)
        parts += [
            _example(report, each, number in chosen, number in chosen)
            for number, each in enumerate(report.examples)
        ]
        if report.looks and all(seen.right for look in report.looks for seen in look.seen):
            parts.append(
                '<p class="lead">None of the examples that were asked about is answered wrongly.</p>'
            )
    elif report.sample.problem:
        parts.append(missing(report.sample.problem))
    elif not report.texts:
        parts.append(missing("None of the examples is short enough to be drawn."))
    keys = (
        f'<span class="key">exists, e {scale("exist", "0", "1")}</span>',
        f'<span class="key">is composed, c {scale("join", "0", "1")}</span>',
    )
    lead = (
        "The tree is the one along which the model composed its input; the fuller a node, the surer it was of it, and "
        "a dashed one was joined only when all steps were over. Below it, step by step: which tokens still exist "
        "(<b>e</b>), and which are composed into their right neighbour (<b>c</b>). A frame marks the step from which a "
        "token counts as composed; what hardly exists any more is left blank."
    )
    return section("examples", "Inside: trees and steps", legend(report.names, *keys), *parts, lead=lead)


def _telling(shown: Sequence[Shown]) -> tuple[int, ...]:
    """The numbers of those to be open at first: one that all answer rightly, and one that not all do."""
    found = {each.wrong: number for number, each in reversed(list(enumerate(shown)))}
    return tuple(found.values())


def _example(report: Report, shown: Shown, opened: bool, stepped: bool) -> str:
    """An input and what the models say of it, with their trees to unfold.

    :param stepped: unfold the steps too.
    """
    texts = (shown.text,) if isinstance(shown.text, str) else shown.text
    gold = f"Right answer: <b>{plain(shown.gold)}</b>" if shown.gold is not None else ""
    said = "".join(f'<span class="text">{plain(text)}</span>' for text in texts)
    brief = " ".join(
        f'<span class="name s{colour % 8}"><i></i>{plain(answer.label)} {_verdict(answer, shown)}</span>'
        for colour, answer in enumerate(shown.answers)
        if isinstance(answer, Inspection)
    )
    summary = f'<summary>{said}<span class="gold">{gold} <span class="brief">{brief}</span></span></summary>'
    columns = "".join(_column(report, colour, shown, stepped) for colour in range(len(shown.answers)))
    longest = max(
        (sum(map(len, each.tokens)) + 2 * len(each.tokens) for each in _sequences(shown)), default=0
    )
    kind = "columns" + " long" * (longest > _WIDE) + " vast" * (longest > 2.5 * _WIDE)
    return (
        f'<article class="example"><details{" open" * opened}>{summary}<div class="{kind}">{columns}</div></details>'
        "</article>"
    )


def _sequences(shown: Shown) -> list[InspectedSequence]:
    return [each for answer in shown.answers if isinstance(answer, Inspection) for each in answer.sequences]


def _column(report: Report, colour: int, shown: Shown, opened: bool) -> str:
    name = swatch(colour, report.names[colour]) if len(report.names) > 1 else "The model"
    answer = shown.answers[colour]
    if isinstance(answer, str):
        return f'<div class="column">{name}{missing(answer)}</div>'
    sure = f"<small>{percent(answer.probabilities[answer.label])}% sure</small>"
    said = f'<p class="said">{name} says <b>{plain(answer.label)}</b> {sure} {_verdict(answer, shown)}</p>'
    sentences = shown.trees or (None,) * len(answer.sequences)
    inner = "".join(map(_sequence, answer.sequences, sentences))
    maps = "".join(map(_maps, answer.sequences))
    steps = details("Step by step", maps, opened=opened) if maps else ""
    return f'<div class="column">{said}{inner}{_agreement(report, colour, shown)}{steps}</div>'


def _verdict(answer: Inspection, shown: Shown) -> str:
    if shown.gold is None:
        return ""
    right = answer.label == shown.gold
    return f'<span class="{"right" if right else "wrong"}">{"✓ right" if right else "✗ wrong"}</span>'


def _agreement(report: Report, colour: int, shown: Shown) -> str:
    """How much of the first model's tree another one has too."""
    first, answer = shown.answers[0], shown.answers[colour]
    if colour == 0 or isinstance(first, str) or isinstance(answer, str):
        return ""
    trees = [[each.tree for each in one.sequences if each.tree is not None] for one in (first, answer)]
    if not all(trees) or [tree.tokens for tree in trees[0]] != [tree.tokens for tree in trees[1]]:
        return ""
    spans = [[telling(tree) for tree in one] for one in trees]
    common = sum(len(one & two) for one, two in zip(*spans, strict=True))
    every = sum(map(len, spans[0]))
    if not every:
        return ""
    return f'<p class="gold">Constituents also found by {plain(report.names[0])}: {common} of {every}.</p>'


def _rightness(tree: Tree, sentence: Sentence | None) -> str:
    """How much of the right tree this one has; the whole input, which every tree has, is not counted."""
    if sentence is None or not sentence.counts or sentence.gold.tokens != tree.tokens:
        return ""
    mine, right = telling(tree), telling(sentence.gold)
    if mine == right:
        return '<p class="gold">This is the right tree.</p>'
    words = f"Constituents also in the right tree: {len(mine & right)} of {len(right)}"
    if sentence.constituents:
        own = sentence.constituents - {(0, len(tree.tokens))}
        words += f"; of those that the input marks itself: {len(mine & own)} of {len(own)}" * bool(own)
    return f'<p class="gold">{words}.</p>'


def _sequence(watched: InspectedSequence, sentence: Sentence | None) -> str:
    unknown = frozenset(place for place, strange in enumerate(watched.unknown) if strange)
    if watched.tree is None:
        tree = missing("This encoder makes no tree.")
    else:
        tree = f'<div class="scroll tree" tabindex="0">{svg(watched.tree, unknown=unknown)}</div>'
        tree += _rightness(watched.tree, sentence)
    listed = ", ".join(dict.fromkeys(watched.tokens[place] for place in sorted(unknown)))
    strange = f'<p class="strange-note">Not known to the model: {plain(listed)}</p>' if unknown else ""
    return f"{tree}{strange}"


def _maps(watched: InspectedSequence) -> str:
    if not watched.compose:
        return ""
    rows = ["start", *map(str, range(1, len(watched.compose) + 1))]
    # What no longer exists has a c as well, which means nothing.
    felt = [
        [c if e >= _GONE else 0.0 for c, e in zip(*both, strict=True)]
        for both in zip(watched.compose, watched.exists, strict=False)
    ]
    exists = _map(watched, watched.exists, rows, "exist", "e", frozenset())
    compose = _map(watched, felt, rows[1:], "join", "c", _joined(watched))
    drawn = figure("Existence e after each step", exists) + figure("Composition c in each step", compose)
    return f'<div class="maps">{drawn}</div>'


def _joined(watched: InspectedSequence) -> frozenset[tuple[int, int]]:
    """The step and the token of every node of the tree."""
    nodes = watched.tree.nodes if watched.tree is not None else ()
    return frozenset((node.step - 1, node.split - 1) for node in nodes if node.step is not None)


def _map(
    watched: InspectedSequence,
    values: list[list[float]],
    rows: list[str],
    kind: str,
    letter: str,
    ringed: frozenset[tuple[int, int]],
) -> str:
    tokens = watched.tokens
    written = len(tokens) <= _WRITTEN
    matrix = Matrix(
        rows,
        tokens,
        [[min(max(value, 0.0), 1.0) for value in row] for row in values],
        lambda i, j: _digits(values[i][j]) if written else "",
        lambda i, j: f"{tokens[j]}, step {rows[i]}: {letter} = {values[i][j]:.3f}",
        ringed=ringed,
        strange=frozenset(place for place, strange in enumerate(watched.unknown) if strange),
    )
    what = {"e": "existence", "c": "composition"}[letter]
    said = f"{len(rows)} rows of {what} probabilities over {len(tokens)} tokens: {' '.join(tokens)}"
    cell = (30.0, 20.0) if written else (20.0, 20.0 if len(rows) <= 16 else 14.0)
    return matrix.draw(f"Heat map of {what} {letter} over steps", said, kind, cell)


def _digits(value: float) -> str:
    """``.97``; nothing for what is all but 0."""
    if value < 0.005:
        return ""
    return "1" if value >= 0.995 else f"{value:.2f}"[1:]
