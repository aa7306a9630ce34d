"""``crvnn trees``: how good the trees are that a model finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crvnn_core.cli.session import (
    RUN,
    Session,
    counting,
    data_option,
    extraction_option,
    json_option,
    pass_session,
    print_json,
    print_table,
    seed_names,
    set_option,
    source_examples,
    split_option,
)

if TYPE_CHECKING:
    from crvnn_core.inference.tree_scores import TreeScores
    from crvnn_core.trees.extraction import Extraction
    from crvnn_core.trees.scoring import Score

_COLUMNS = {"f1": "F1", "corpus_f1": "corpus F1", "exact": "exact", "constituents": "own"}


@click.command("trees")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@split_option
@data_option
@click.option("--examples", type=click.IntRange(min=1), metavar="N", help="Only the first N examples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of a split that is made at random.")
@set_option
@click.option("--hard", is_flag=True, help="Score the trees of hard inference as well.")
@extraction_option
@json_option
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
    extraction: Extraction,
    as_json: bool,
) -> None:
    """Score the trees of the model in the directory RUN (or an installed one, by name) against gold trees.

    F1 is that of unlabelled spans. Spans that every tree has do not count: single tokens and the whole sentence; so
    sentences of fewer than 3 tokens are left out. "F1" is the mean over sentences; "corpus F1" counts the spans of all
    sentences together. "exact" is the share of trees that equal the gold one. "own" is the share of the sentence's own
    constituents that the tree has (the lists of ListOps, what is in parentheses in logic), where the rest of the gold
    tree is a convention. Beside them stand trees that need no model: left- and right-branching, balanced (a span of n
    tokens splits after ceil(n / 2)) and random (every split of a span has the same chance, from the whole downwards).

    "faithful" says how far the tree is what the model composed: how alike the gradients of its sentence vector and of
    the one composed along the tree are, as a mean over tokens; 100% if they are the same. "conflicts" is the number
    of sequences whose tree has nodes that did not get into the sentence vector. Both are blank for hard inference,
    which composes along its tree.

    Several runs see the examples of the first one's task, and their agreement is the mean F1 of every two of them. A
    directory of several seeds is as many runs, and has a line with their mean and standard deviation.

    \b
    Examples:
      crvnn trees listops --examples 1000
      crvnn trees runs/seed-0 runs/seed-1 runs/seed-2 --split dev
      crvnn trees listops --data my-expressions.tsv --hard --json
    """
    from attrs import evolve

    from crvnn_core.inference.trained import load_seeds
    from crvnn_core.inference.tree_scores import score_trees, seed_spreads

    if len(set(runs)) < len(runs):
        raise click.UsageError("the same run is there twice.")
    groups = {run: load_seeds(run, session.catalog, sets) for run in runs}
    names = {run: seed_names(run, members) for run, members in groups.items()}
    models = {
        names[run][seed]: evolve(model, extraction=extraction)
        for run, members in groups.items()
        for seed, model in members.items()
    }
    if len(models) < sum(map(len, groups.values())):
        raise click.UsageError("the same run is there twice.")
    first = next(iter(models.values()))
    name, rows = source_examples(first, data, split, seed)
    rows = rows[:examples]
    passes = len(rows) * (1 + hard) + sum(len(row.sequences) for row in rows)
    with counting(len(models) * passes, "parsing") as done:
        result = score_trees(models, rows, hard=hard, done=done)
    seeds = {run: list(members.values()) for run, members in names.items() if None not in members}
    if as_json:
        spreads = {run: seed_spreads(result.scores, members) for run, members in seeds.items()}
        facts = {"runs": list(models), "data": name, "examples": len(rows)}
        print_json({**facts, **result.plain(), **({"seeds": spreads} if seeds else {})})
    else:
        if not result.scores:
            task = first.spec.task.name
            click.echo(f"{name}: no scores, since the task '{task}' has no gold trees for these examples")
        _show(result, list(models), name, len(rows))
        _show_seeds(result, seeds)


def _show(result: TreeScores, runs: Sequence[str], name: str, examples: int) -> None:
    soft = {run: result.scores[run] for run in runs if run in result.scores}
    hard = {f"{run}, hard": score for run, score in result.scores_hard.items()}
    scores = {**soft, **hard, **result.scores}  # baselines last
    counted = next(iter(scores.values())).sentences if scores else 0
    _show_table(scores if counted else {}, result)
    if scores:
        left_out = {
            "of fewer than 3 tokens": result.too_short,
            "without a gold tree": result.without_gold_tree,
        }
        listed = ", ".join(f"{number:,} {words}" for words, number in left_out.items() if number)
        tail = f"; left out: {listed}" if listed else ""
        click.echo(f"{name}: {counted:,} of {result.sequences:,} sequences in {examples:,} examples{tail}")
    if len(runs) > 1:
        click.echo(f"agreement, the mean F1 of every two runs: {_percent(result.agreement)}")
    if len(runs) > 1 and (hard or result.agreement_hard is not None):
        click.echo(f"agreement, hard, the mean F1 of every two runs: {_percent(result.agreement_hard)}")


def _show_table(scores: Mapping[str, Score], result: TreeScores) -> None:
    """A row for each run and baseline: its scores, and whether its trees are what the model composed."""
    columns = {
        head: {run: _percent(getattr(score, key), "") for run, score in scores.items()}
        for key, head in _COLUMNS.items()
        if any(getattr(score, key) is not None for score in scores.values())
    }
    if scores:
        columns["depth"] = {run: f"{score.depth:.1f}" for run, score in scores.items()}
    columns["faithful"] = {run: _percent(share, "") for run, share in result.faithfulness.items()}
    columns["conflicts"] = {run: f"{number:,}" for run, number in result.conflicts.items()}
    table = [
        [run, *(column.get(run, "") for column in columns.values())] for run in scores or result.conflicts
    ]
    print_table(["trees", *columns], table, right=range(1, 1 + len(columns)))


def _show_seeds(result: TreeScores, seeds: Mapping[str, Sequence[str]]) -> None:
    """Mean and standard deviation over the seeds of each directory."""
    from crvnn_core.inference.tree_scores import seed_spreads

    for what, scores in (("", result.scores), (", hard", result.scores_hard)):
        for run, members in seeds.items() if scores else ():
            spreads = seed_spreads(scores, members)
            listed = ", ".join(
                f"{head} {100 * found['mean']:.1f} ± {100 * found['std']:.1f}"
                for key, head in _COLUMNS.items()
                if (found := spreads[key]) is not None
            )
            click.echo(f"{run}{what}, mean ± standard deviation of {len(members)} seeds (%): {listed}")


def _percent(share: float | None, missing: str = "nothing to compare") -> str:
    return missing if share is None else f"{share:.1%}"
