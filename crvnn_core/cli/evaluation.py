"""``crvnn eval``: accuracy, macro F1, the scores of each class, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.session import (
    FILE,
    RUN,
    Session,
    counting,
    data_option,
    first_names,
    hard_option,
    json_option,
    pass_session,
    print_json,
    print_table,
    seed_names,
    set_option,
    source_examples,
    split_option,
)
from crvnn_core.display.tables import terminal_width
from crvnn_core.trees.formats.escapes import visible

if TYPE_CHECKING:
    from crvnn_core.runs.results import Classification, Result, SeedResults

_MOST_CLASSES = 20  # classes up to which all are shown
_MOST_CONFUSIONS = 10  # pairs of classes that are shown in place of a matrix that is too wide


@click.command("eval")
@click.argument("run", type=RUN)
@data_option
@split_option
@set_option
@hard_option
@click.option(
    "--out",
    type=FILE,
    metavar="FILE.csv",
    help="Write tables as well: FILE.csv (groups), FILE-classes.csv and FILE-confusion.csv.",
)
@json_option
@pass_session
def eval_command(
    session: Session,
    run: str,
    data: Path | None,
    split: str | None,
    sets: tuple[str, ...],
    hard: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure the model in the directory RUN (or an installed one, by name).

    Accuracy is reported in all and by the task's groups; precision, recall and F1 for each class; macro F1 is the mean
    F1 of the classes that occur or are predicted; the confusion matrix has a row for each gold class. A directory of
    several seeds is measured as a whole: mean and standard deviation over its seeds.

    With --hard it is measured twice: with soft decisions, as it was trained, and with hard ones.

    \b
    Examples:
      crvnn eval runs/first --split test
      crvnn eval listops --data my-expressions.tsv --json
      crvnn eval runs/five-seeds --split test --out results.csv
      crvnn eval listops --hard
    """
    from crvnn_core.inference.trained import load_seeds
    from crvnn_core.runs.results import check_suffix, write_tables

    if out is not None:
        check_suffix(out)
    models = load_seeds(run, session.catalog, sets)
    first = next(iter(models.values()))
    name, examples = source_examples(first, data, split)
    results: dict[str, dict[int | None, Result]] = {}
    for kind in ("soft", "hard") if hard else ("soft",):
        with counting(len(models) * len(examples), f"evaluating {kind} decisions") as done:
            results[kind] = {
                seed: trained.evaluate(examples, done, hard=kind == "hard")
                for seed, trained in models.items()
            }
    if as_json:
        print_json({"run": run, "data": name, **_plain(results)})
    else:
        _show(name, results)
    if out is not None:
        members = seed_names(run, models)
        rows = {
            (members[seed], name, kind): result
            for kind, found in results.items()
            for seed, result in found.items()
        }
        click.echo(f"wrote {', '.join(map(str, write_tables(out, rows)))}", err=True)


def _plain(results: Mapping[str, Mapping[int | None, Result]]) -> dict[str, Any]:
    from crvnn_core.runs.results import SeedResults, plain_result

    plain = {
        kind: plain_result(found[None]) if None in found else SeedResults(found).plain()
        for kind, found in results.items()
    }
    return {**plain.pop("soft"), **plain}


def _show(name: str, results: Mapping[str, Mapping[int | None, Result]]) -> None:
    from crvnn_core.runs.results import SeedResults

    tables = {
        name if kind == "soft" else f"{name}, {kind}": SeedResults(found) for kind, found in results.items()
    }
    _show_groups(tables)
    if None not in results["soft"]:
        rows = [
            (split, str(seed), f"{100 * result.total.accuracy:.1f}", _percent(_macro(result)))
            for split, seeds in tables.items()
            for seed, result in seeds.results.items()
        ]
        click.echo("\nEach seed (above: mean ± standard deviation over seeds):")
        print_table(("split", "seed", "accuracy %", "macro F1 %"), rows, right=(1, 2, 3))
    for title, seeds in tables.items():
        _show_classes(title, seeds)


def _show_groups(tables: Mapping[str, SeedResults]) -> None:
    """A table of splits and their groups, with the spread over several seeds."""
    rows = []
    for split, seeds in tables.items():
        first = next(iter(seeds.results.values()))
        for group, score in {"": first.total, **first.buckets}.items():
            cells = [
                _spread(seeds.group(group, metric), len(seeds.results), factor, digits)
                for metric, factor, digits in (("accuracy", 100, 1), ("loss", 1, 3), ("depth", 1, 1))
            ]
            rows.append((split, group or "all", f"{score.examples:,}", *cells))
    print_table(("split", "group", "examples", "accuracy %", "loss", "mean depth"), rows, right=(2, 3, 4, 5))


def _show_classes(title: str, seeds: SeedResults) -> None:
    """Macro F1, a table of classes, and the confusion matrix or the most frequent confusions."""
    parts = [result.classification for result in seeds.results.values() if result.classification is not None]
    found, count = sum(parts[1:], parts[0]), len(seeds.results)
    shown = [(place, score) for place, score in enumerate(found.scores) if score.f1 is not None]
    macro = _spread(seeds.spread(_macro), count)
    click.echo(f"\n{title}: macro F1 {macro} %, over {len(shown)} classes")
    if len(shown) > _MOST_CLASSES:
        shown = sorted(shown, key=lambda pair: pair[1].f1 or 0.0)[:_MOST_CLASSES]
        click.echo(f"The {_MOST_CLASSES} classes with the lowest F1 (--json and --out have all):")
    rows = [
        (
            score.name,
            *(_spread(seeds.of_class(place, metric), count) for metric in ("precision", "recall", "f1")),
            f"{score.support // count:,}",
            f"{score.predicted / count:,.{int(count > 1)}f}",
        )
        for place, score in shown
    ]
    print_table(
        ("class", "precision %", "recall %", "F1 %", "examples", "predicted"), rows, right=range(1, 6)
    )
    for names, what in (
        (found.absent, "without examples here"),
        (found.never_predicted, "never predicted"),
    ):
        if names:
            click.echo(f"{what}: {first_names([visible(name, spaces=True) for name in names])}")
    _show_confusion(found, f", over {count} seeds" if count > 1 else "")


def _show_confusion(found: Classification, over: str) -> None:
    """The matrix if it fits the terminal, otherwise the pairs of classes that are most often confused."""
    kept = [place for place, score in enumerate(found.scores) if score.f1 is not None]
    names = [found.classes[place] for place in kept]
    numbers = [str(number) for number in range(1, len(kept) + 1)]
    numbered = [f"{number}: {name}" for number, name in zip(numbers, names, strict=True)]
    cells = [
        [f"{count:,}" if (count := found.counts.get((gold, other), 0)) else "." for other in kept]
        for gold in kept
    ]
    for heads, labels in ((names, names), (numbers, numbered)):
        rows = [(label, *row) for label, row in zip(labels, cells, strict=True)]
        widths = [max(map(len, column)) for column in zip(("", *heads), *rows, strict=True)]
        if len(kept) <= _MOST_CLASSES and sum(widths) + 2 * len(widths) <= terminal_width():
            click.echo(f"\nConfusion{over}: a row for each gold class, a column for each predicted one")
            print_table(("", *heads), rows, right=range(1, len(widths)))
            return
    pairs = found.confusions()[:_MOST_CONFUSIONS]
    if pairs:
        click.echo(f"\nMost frequent confusions{over} (--json and --out have the whole matrix):")
        print_table(
            ("gold", "predicted", "examples"),
            [(gold, predicted, f"{count:,}") for count, gold, predicted in pairs],
            right=(2,),
        )


def _macro(result: Result) -> float | None:
    return None if result.classification is None else result.classification.macro_f1


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _spread(found: Mapping[str, float] | None, seeds: int, factor: float = 100.0, digits: int = 1) -> str:
    """The mean over seeds, with the standard deviation if there are several."""
    if found is None:
        return "-"
    mean = f"{factor * found['mean']:.{digits}f}"
    return mean if seeds == 1 else f"{mean} ± {factor * found['std']:.{digits}f}"
