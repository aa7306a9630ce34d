"""``crvnn eval`` and ``crvnn predict``: using what was trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.names import RUN
from crvnn_core.cli.session import (
    Session,
    counting,
    json_option,
    pass_session,
    plugin_option,
    print_json,
    print_results,
)

if TYPE_CHECKING:
    from crvnn_core.inference.predictions import Prediction
    from crvnn_core.inference.texts import Text
    from crvnn_core.interfaces import Task


_MOST_WARNINGS, _MOST_NAMES = 10, 10  # texts with unknown tokens that are named, and tokens of each

hard_option = click.option(
    "--hard",
    is_flag=True,
    help="Hard inference: binary decisions, n - 1 compositions of n tokens along one tree.",
)

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of the form that the task reads.",
)
split_option = click.option("--split", metavar="NAME", help="A split of the task; by default its last one.")
task_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a value of the task, as task.directory=data.",
)
file_option = click.option(
    "--file",
    type=click.File(encoding="utf-8-sig"),
    metavar="FILE",
    help="Read texts from a file, one a line ('-' for standard input); the two of a pair are separated by a tab.",
)


@click.command("eval")
@click.argument("run", type=RUN)
@data_option
@split_option
@task_option
@hard_option
@json_option
@plugin_option
@pass_session
def eval_command(
    session: Session,
    run: str,
    data: Path | None,
    split: str | None,
    sets: tuple[str, ...],
    hard: bool,
    as_json: bool,
) -> None:
    """Measure the model in the directory RUN (or an installed one, by name): accuracy in all and by group.

    With --hard it is measured twice: with soft decisions, as it was trained, and with hard ones.

    \b
    Examples:
      crvnn eval runs/first --split test
      crvnn eval listops --data my-expressions.tsv --json
      crvnn eval listops --hard
    """
    from crvnn_core.inference.trained import load

    if data is not None and split is not None:
        raise click.UsageError("give --data or --split, not both.")
    trained = load(run, session.catalog, sets)
    name = str(data) if data is not None else split or trained.task.splits[-1]
    examples = trained.examples(path=data) if data is not None else trained.examples(name)
    results = {}
    for kind in (False, True) if hard else (False,):
        with counting(len(examples), "evaluating hard decisions" if kind else "evaluating") as done:
            results[f"{name}, hard" if kind else name] = trained.evaluate(examples, done, hard=kind)
    if as_json:
        soft, *other = (result.plain() for result in results.values())
        print_json({"run": run, "data": name, **soft, **({"hard": other[0]} if other else {})})
    else:
        print_results(results)


@click.command("predict")
@click.argument("run", type=RUN)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_option
@click.option("--trees", is_flag=True, help="Show the tree of each text as well.")
@hard_option
@json_option
@plugin_option
@pass_session
def predict_command(
    session: Session, run: str, texts: tuple[str, ...], file: Any, trees: bool, hard: bool, as_json: bool
) -> None:
    """Ask the model in the directory RUN (or an installed one, by name) about each TEXT.

    A task on pairs takes the texts two by two. Tokens that the model does not know are named on standard error.

    \b
    Examples:
      crvnn predict listops "[MAX 2 9 [MIN 4 7 ] 0 ]"
      crvnn predict runs/snli "A man sleeps." "A person rests."
      crvnn predict runs/first --file questions.txt --json
      crvnn predict listops "[MAX 2 9 [MIN 4 7 ] 0 ]" --hard --trees
    """
    from crvnn_core.inference.trained import load

    expect_texts(texts, file)
    trained = load(run, session.catalog)
    questions = read_questions(texts, file, trained.task)
    with counting(len(questions), "predicting") as done:
        answers = trained.predict(questions, done, hard=hard)
    if as_json:
        print_json([answer.plain() for answer in answers])
        return
    for answer in answers:
        _show(answer, trees)
    warn_of_unknown([answer.unknown for answer in answers])


def expect_texts(texts: Sequence[str], file: Any) -> None:
    """A usage error unless there are texts, from the command line or from a file."""
    if bool(texts) == (file is not None):
        raise click.UsageError("give texts, or a file of them with --file.")


def read_questions(texts: Sequence[str], file: Any, task: Task) -> list[Text]:
    """The texts of the command line or of a file, two by two for a task on pairs."""
    from crvnn_core.inference.texts import pair_texts, read_texts

    return (
        pair_texts(texts, task) if file is None else read_texts(file, task, getattr(file, "name", "<stdin>"))
    )


def warn_of_unknown(texts: Sequence[Sequence[str]]) -> None:
    """Name on standard error the tokens of each text that the model does not know, of ten texts at most."""
    numbered = {number: list(map(repr, tokens)) for number, tokens in enumerate(texts, 1) if tokens}
    for number, names in list(numbered.items())[:_MOST_WARNINGS]:
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        click.echo(
            f"crvnn: text {number}: unknown to the model: {', '.join(names[:_MOST_NAMES])}{more}", err=True
        )
    if len(numbered) > _MOST_WARNINGS:
        click.echo(
            f"crvnn: {len(numbered):,} of {len(texts):,} texts have tokens unknown to the model", err=True
        )


def _show(answer: Prediction, trees: bool) -> None:
    text = answer.text if isinstance(answer.text, str) else "  |  ".join(answer.text)
    click.echo(f"{answer.label}\t{answer.probabilities[answer.label]:.1%}\t{text}")
    for tree in answer.trees if trees else ():
        click.echo(f"\t{tree if tree is not None else 'this encoder shows no tree'}")
