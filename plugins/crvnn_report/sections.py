"""The parts of a report that come from what runs wrote down: results, specs, curves."""

from __future__ import annotations

import json
from typing import Any

from crvnn_core.runs.comparison import Spread, percent
from crvnn_core.runs.records import Variant, differences, groups
from crvnn_report.collection import Report
from crvnn_report.curves import SHOWN, chart
from crvnn_report.figures import FEW, by_group, by_length, depth_by_length
from crvnn_report.html import details, figure, legend, missing, section, swatch, table
from crvnn_report.svg import plain


def overview(report: Report) -> str:
    """A card for each variant, and a table of all splits."""
    cards = "".join(_card(colour, variant) for colour, variant in enumerate(report.variants))
    splits = list(groups(report.variants))
    columns = [
        "run",
        "seeds",
        *(f"{split}: {what}" for split in splits for what in ("accuracy %", "loss", "depth")),
    ]
    rows = []
    for colour, variant in enumerate(report.variants):
        cells = [swatch(colour, variant.name), str(variant.seeds)]
        for split in splits:
            cells += [
                _spread(variant, split, "", measure, digits)
                for measure, digits in (("accuracy", 2), ("loss", 4), ("depth", 1))
            ]
        rows.append(cells)
    seeds = any(variant.seeds > 1 for variant in report.variants)
    caption = "All splits" + (": mean and standard deviation over seeds" if seeds else "")
    whole = details("All splits in numbers", table(caption, columns, rows, kind="numbers")) if splits else ""
    notes = "".join(missing(remark) for remark in report.remarks)
    content = f'{notes}<div class="cards">{cards}</div>{whole}'
    return f'<section id="overview" class="overview"><h2 class="hidden">Overview</h2>{content}</section>'


def _card(colour: int, variant: Variant) -> str:
    splits = list(groups([variant]))
    facts = [f"{variant.seeds} seeds" if variant.seeds > 1 else f"seed {variant.runs[0].seed}"]
    width, cell = (variant.runs[0].spec.get(key) for key in ("model.width", "model.cell"))
    parts = [f"width {width}"] if width else []
    parts += [f"{cell} cell"] if cell else []
    best = variant.runs[0].best_step
    facts += parts + ([f"best at step {best:,}"] if best and variant.seeds == 1 else [])
    if splits:
        values = variant.values(splits[-1])
        big = f"{percent(sum(values) / len(values))}<small>%</small>" if values else "&ndash;"
        deviation = Spread(tuple(values)).deviation if values else None
        wide = f' <span class="wide">&plusmn; {100 * deviation:.1f}</span>' if deviation is not None else ""
        headline = f'<p class="big">{big}{wide}</p><p class="of">accuracy on {plain(splits[-1])}</p>'
    else:
        headline = '<p class="big">&ndash;</p><p class="of">no results yet</p>'
    others = [
        f"{plain(split)} {_spread(variant, split, '', 'accuracy', 1)}%"
        for split in splits[:-1]
        if variant.values(split)
    ]
    listed = "".join(f"<li>{each}</li>" for each in [*others, *map(plain, facts)])
    return f'<article class="card s{colour % 8}"><h3>{plain(variant.name)}</h3>{headline}<ul>{listed}</ul></article>'


def _spread(variant: Variant, split: str, group: str, measure: str, digits: int) -> str:
    """Mean and standard deviation of a figure, if there is any."""
    values = variant.values(split, group, measure)
    return Spread(tuple(values)).written(measure, digits) if values else "&ndash;"


def learning(report: Report) -> str:
    """How it went during training."""
    charts = []
    for measure, label, _ in SHOWN:
        drawing = chart(measure, label, report.variants, report.curves)
        if drawing:
            charts.append(figure(label, drawing))
    if not charts:
        return section(
            "learning", "Learning", missing("The runs have no metrics.jsonl, or there is nothing in it.")
        )
    marks = (
        '<span class="key"><b class="key-line"></b>training, smoothed</span>',
        '<span class="key"><b class="key-dot"></b>development</span>',
    )
    return section(
        "learning", "Learning", legend(report.names, *marks), f'<div class="charts">{"".join(charts)}</div>'
    )


def by_groups(report: Report) -> str:
    """How well and how deep, by the groups that the task tells apart."""
    parts = []
    told = {split: names for split, names in groups(report.variants).items() if names}
    if not told:
        return _by_length(report)
    for number, (split, names) in enumerate(reversed(told.items())):
        drawn = [
            figure(label, by_group(split, names, report.variants, measure))
            for measure, label in (
                ("accuracy", f"Accuracy on {split}, %"),
                ("depth", f"Mean depth on {split}, steps"),
            )
        ]
        content = f'<div class="charts">{"".join(drawn)}</div>' + details(
            "In numbers", _group_table(report, split, names)
        )
        parts.append(content if number == 0 else details(f"The split {split}", content))
    lead = "The task sorts its examples into groups: most tasks by length in tokens, logic by number of operations."
    return section("groups", "By length and group", _group_legend(report, *parts), *parts, lead=lead)


def _group_legend(report: Report, *drawn: str) -> str:
    few = f'<span class="key"><b class="key-dot"></b>fewer than {FEW} examples: little to go by</span>'
    return legend(report.names, *([few] if any('class="mean few' in each for each in drawn) else []))


def _by_length(report: Report) -> str:
    """The same by length alone, from what models were asked."""
    drawing = by_length(report.looks)
    if not drawing:
        why = "The task tells no groups apart" if any(groups(report.variants)) else "There are no results yet"
        return section("groups", "By length and group", missing(f"{why}. {report.sample.problem}".strip()))
    drawn = f'<div class="charts">{figure("Accuracy, %", drawing)}</div>'
    return section("groups", "By length", _group_legend(report, drawn), drawn, lead=plain(asked(report)))


def _group_table(report: Report, split: str, names: list[str]) -> str:
    columns = [
        "group",
        "examples",
        *(f"{name}: {what}" for name in report.names for what in ("accuracy %", "depth")),
    ]
    rows = []
    for name in names:
        cells = [plain(name), _examples(report, split, name)]
        for variant in report.variants:
            cells += [_spread(variant, split, name, measure, 1) for measure in ("accuracy", "depth")]
        rows.append(cells)
    return table(f"Groups of the split {split}", columns, rows, kind="numbers")


def _examples(report: Report, split: str, group: str) -> str:
    counts = {run.value(split, group, "examples") for variant in report.variants for run in variant.runs}
    return " / ".join(f"{count:,.0f}" for count in sorted(count for count in counts if count is not None))


def depth(report: Report) -> str:
    """How the recursion's depth follows the length of its input."""
    drawn = depth_by_length(report.looks)
    if not drawn:
        reason = report.sample.problem or "No model here could be asked."
        return section("depth", "Depth against length", missing(reason))
    keys = (
        '<span class="key"><b class="key-guide"></b>one token at a time: n &minus; 1</span>',
        '<span class="key"><b class="key-guide key-balanced"></b>a balanced tree: log₂ n</span>',
    )
    figures = "".join(
        f"<figure><figcaption>{swatch(number, report.names[number])}<small>steps of the recursion</small></figcaption>"
        f"{drawing}</figure>"
        for number, drawing in drawn.items()
    )
    lead = f"{plain(asked(report))} A dot is a length and the steps it took; larger ones stand for several examples."
    return section(
        "depth", "Depth against length", legend([], *keys), f'<div class="charts">{figures}</div>', lead=lead
    )


def asked(report: Report) -> str:
    """What the models were asked, in words."""
    count, all_of = len(report.sample.examples), report.sample.of
    some = f"{count:,} of the {all_of:,} examples" if count < all_of else f"All {all_of:,} examples"
    many = any(variant.seeds > 1 for variant in report.variants)
    return f"{some} of {report.sample.split}." + (" Of several seeds the first is asked." if many else "")


def apart(report: Report) -> str:
    """What sets the variants apart; nothing if there is only one."""
    if len(report.variants) < 2:
        return ""
    told = differences([variant.runs[0].described for variant in report.variants])
    if not told:
        return ""
    heads = ["setting", *(swatch(colour, name) for colour, name in enumerate(report.names))]
    shared = {key: values for key, values in told.items() if None not in values}
    others = {key: values for key, values in told.items() if None in values}
    parts = [
        table(
            caption,
            [],
            [[_key(key), *map(_value, values)] for key, values in some.items()],
            kind="spec",
            heads=heads,
        )
        for caption, some in (("Settings that differ", shared), ("Settings that not all have", others))
        if some
    ]
    if shared and others:
        parts[1] = details(f"{len(others)} more, which not all of them have", parts[1])
    return section("differences", "What sets them apart", *parts)


def specs(report: Report) -> str:
    """Everything that the runs were asked to do, and with what."""
    described = [variant.runs[0].described for variant in report.variants]
    told = differences(described)
    keys = dict.fromkeys(key for one in described for key in one)
    heads = ["setting", *(swatch(colour, name) for colour, name in enumerate(report.names))]
    rows = [
        ["!" * (key in told) + _key(key), *(_value(one.get(key)) for one in described)]
        for key in keys
        if not key.startswith("version of ")
    ]
    versions = [
        [
            "!" * (key in told) + plain(key.removeprefix("version of ")),
            *(_value(one.get(key)) for one in described),
        ]
        for key in keys
        if key.startswith("version of ")
    ]
    parts = [
        details(
            "The whole spec",
            table("Every setting; those that differ are marked", [], rows, kind="spec", heads=heads),
        )
    ]
    if versions:
        parts.append(table("Versions", [], versions, kind="spec", heads=["package", *heads[1:]]))
    runs = [
        [swatch(colour, run.name), str(run.seed), f"{run.best_step:,}" if run.best_step else "&ndash;"]
        for colour, variant in enumerate(report.variants)
        for run in variant.runs
    ]
    parts.append(details("The runs", table("Runs", ["run", "seed", "best step"], runs, kind="numbers")))
    return section("spec", "Spec and versions", *parts)


def _key(key: str) -> str:
    """A setting's place; a narrow column breaks it at its dots."""
    return f"<code>{plain(key).replace('.', '.<wbr>')}</code>"


def _value(value: Any) -> str:
    if value is None:
        return '<span class="none">&ndash;</span>'
    return f"<code>{plain(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False))}</code>"
