"""``crvnn trees``: how good the trees are that a model finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.predict import data_option, split_option, task_option
from crvnn_core.cli.session import (
    Session,
    counting,
    json_option,
    pass_session,
    plugin_option,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from crvnn_core.inference.trained import Trained
    from crvnn_core.interfaces import Example, Task
    from crvnn_core.trees import Tree
    from crvnn_core.trees.scoring import Sentence

_KINDS = ("", ", hard")  # what the trees of soft and of hard decisions have behind the name of their run


@click.command("trees")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@split_option
@data_option
@click.option("--examples", type=click.IntRange(min=1), metavar="N", help="Only the first N examples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of a split that is made at random.")
@task_option
@click.option("--hard", is_flag=True, help="Score the trees of hard decisions as well.")
@json_option
@plugin_option
@pass_session
def trees_command(
    session: Session,
    runs: tuple[str, ...],
    split: str | None,
    data: Path | None,
    examples: int | None,
    seed: int,
    sets: tuple[str, ...],
    hard: bool,
    as_json: bool,
) -> None:
    """Score the trees of the model in the directory RUN (or an installed one, by name) against gold trees.

    F1 is that of unlabelled spans. Spans that every tree has do not count: single tokens and the whole sentence; so
    sentences of fewer than 3 tokens are left out. "F1" is the mean over sentences; "corpus F1" counts the spans of all
    sentences together. "exact" is the share of trees that equal the gold one. "own" is the share of the sentence's own
    constituents that the tree has (the lists of ListOps, what is in parentheses in logic), where the rest of the gold
    tree is a convention. Beside them stand trees that need no model: left- and right-branching, balanced (a span of n
    tokens splits after ceil(n / 2)) and random (every split of a span has the same chance, from the whole downwards).

    Several runs see the examples of the first one's task, and their agreement is the mean F1 of every two of them.

    \b
    Examples:
      crvnn trees listops --examples 1000
      crvnn trees runs/seed-0 runs/seed-1 runs/seed-2 --split dev
      crvnn trees listops --data my-expressions.tsv --hard --json
    """
    from crvnn_core.inference.trained import load

    if data is not None and split is not None:
        raise click.UsageError("give --data or --split, not both.")
    if len(set(runs)) < len(runs):
        raise click.UsageError("the same run is there twice.")
    models = {run: load(run, session.catalog, sets) for run in runs}
    first = models[runs[0]]
    name = str(data) if data is not None else split or first.task.splits[-1]
    rows = first.examples(path=data) if data is not None else first.examples(name, seed=seed)
    rows = rows[:examples]
    found = [
        [_found(models[run], rows, run, kind) for run in runs]
        for kind in ((False, True) if hard else (False,))
    ]
    result = _result(first.task, rows, runs, found)
    if as_json:
        print_json({"runs": list(runs), "data": name, "examples": len(rows), **result})
    else:
        _show(result, name, len(rows))


def _found(trained: Trained, rows: Sequence[Example], run: str, hard: bool) -> list[Tree]:
    """One run's trees of all sequences."""
    from crvnn_core.errors import CrvnnError

    if any(len(row.sequences) != trained.task.arity for row in rows):
        raise CrvnnError(
            f"{run}: its task takes {trained.task.arity} texts at a time, the first run's does not"
        )
    try:
        with counting(len(rows), f"parsing with {run}") as done:
            return [tree for trees in trained.trees(rows, done, hard=hard) for tree in trees]
    except CrvnnError as error:
        raise CrvnnError(f"{run}: {error}") from None


def _result(
    task: Task, rows: Sequence[Example], runs: Sequence[str], found: Sequence[Sequence[list[Tree]]]
) -> dict[str, Any]:
    """Everything that was measured; ``found`` has the trees of each run, and those of hard decisions."""
    from crvnn_core.errors import CrvnnError
    from crvnn_core.trees.baselines import BASELINES
    from crvnn_core.trees.scoring import agreement, score

    sentences = _sentences(task, rows)
    if not any(sentences) and len(runs) == 1:
        raise CrvnnError(
            "nobody has said which trees are right: the task has no gold trees for these examples. "
            "With several runs, their agreement can be measured."
        )
    known = [sentence for sentence in sentences if sentence is not None]
    trees = {
        f"{run}{kind}": [tree for tree, sentence in zip(row, sentences, strict=True) if sentence is not None]
        for kind, kinds in zip(_KINDS, found, strict=False)
        for run, row in zip(runs, kinds, strict=True)
    }
    trees |= {name: [make(sentence.gold.tokens) for sentence in known] for name, make in BASELINES.items()}
    scores = {name: score(row, known).plain() for name, row in trees.items()} if known else {}
    result: dict[str, Any] = {
        "sequences": len(sentences),
        "without gold tree": len(sentences) - len(known),
        "too short": sum(not sentence.counts for sentence in known),
        "scores": scores,
    }
    if len(runs) > 1:
        result |= {f"agreement{kind}": agreement(kinds) for kind, kinds in zip(_KINDS, found, strict=False)}
    return result


def _sentences(task: Task, rows: Sequence[Example]) -> list[Sentence | None]:
    from crvnn_core.trees.scoring import gold_sentences

    return [sentence for row in rows for sentence in gold_sentences(task, row)]


def _show(result: dict[str, Any], name: str, examples: int) -> None:
    columns = {"f1": "F1", "corpus_f1": "corpus F1", "exact": "exact", "constituents": "own"}
    scores: dict[str, dict[str, Any]] = result["scores"]
    shown = [key for key in columns if any(row[key] is not None for row in scores.values())]
    counted = next(iter(scores.values()))["sentences"] if scores else 0
    if counted:
        table = [
            [run, *(_percent(row[key]) for key in shown), f"{row['depth']:.1f}"]
            for run, row in scores.items()
        ]
        heads = ["trees", *(columns[key] for key in shown), "depth"]
        print_table(heads, table, right=range(1, len(heads)))
    if scores:
        click.echo(_told(result, name, examples, counted))
    for kind in _KINDS:
        if f"agreement{kind}" in result:
            share = _percent(result[f"agreement{kind}"]) or "nothing to compare"
            click.echo(f"agreement{kind}, the mean F1 of every two runs: {share}")


def _told(result: dict[str, Any], name: str, examples: int, counted: int) -> str:
    left_out = [
        f"{result[key]:,} {words}"
        for key, words in (
            ("too short", "of fewer than 3 tokens"),
            ("without gold tree", "without a gold tree"),
        )
        if result[key]
    ]
    tail = f"; left out: {', '.join(left_out)}" if left_out else ""
    return f"{name}: {counted:,} of {result['sequences']:,} sequences in {examples:,} examples{tail}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
