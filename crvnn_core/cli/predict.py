"""``crvnn eval`` and ``crvnn predict``: using what was trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    from crvnn_core.inference.trained import Prediction, Trained


hard_option = click.option(
    "--hard", is_flag=True, help="Decide for real and compose along one tree, n - 1 times for n tokens."
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
@click.argument("run")
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

    With --hard it is measured twice: softly, as it was trained, and with hard decisions.

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
@click.argument("run")
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

    A task on pairs takes the texts two by two.

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
    asked = questions(texts, file, trained)
    answers = trained.predict(asked, hard=hard)
    if as_json:
        print_json([_plain(question, answer) for question, answer in zip(asked, answers, strict=True)])
        return
    for question, answer in zip(asked, answers, strict=True):
        _show(question, answer, trees)


def expect_texts(texts: Sequence[str], file: Any) -> None:
    """A usage error unless there are texts, from the command line or from a file."""
    if bool(texts) == (file is not None):
        raise click.UsageError("give texts, or a file of them with --file.")


def questions(texts: Sequence[str], file: Any, trained: Trained) -> list[str | tuple[str, str]]:
    """The texts of the command line or of a file, two by two for a task on pairs."""
    from crvnn_core.inference.trained import pair_texts

    return list(_from_file(file, trained)) if file is not None else pair_texts(texts, trained.task)


def _from_file(file: Any, trained: Trained) -> Iterator[str | tuple[str, str]]:
    from crvnn_core.errors import InputError

    try:
        lines = list(file)
    except UnicodeDecodeError as error:
        raise InputError(f"{file.name}: this is not UTF-8 text: {error}") from None
    if not lines:
        raise InputError(f"{file.name}: there are no texts in it")
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        if not line.strip():
            raise InputError(f"{file.name}:{number}: the line is empty")
        if trained.task.arity == 1:
            yield line
            continue
        one, tab, two = line.partition("\t")
        if not tab or not one.strip() or not two.strip():
            raise InputError(f"{file.name}:{number}: expected two texts with a tab between them")
        yield one, two


def _show(question: str | tuple[str, str], answer: Prediction, trees: bool) -> None:
    text = question if isinstance(question, str) else "  |  ".join(question)
    click.echo(f"{answer.label}\t{answer.probabilities[answer.label]:.1%}\t{text}")
    for tree in answer.trees if trees else ():
        click.echo(f"\t{tree if tree is not None else 'this encoder shows no tree'}")


def _plain(question: str | tuple[str, str], answer: Prediction) -> dict[str, Any]:
    return {
        "text": question,
        "label": answer.label,
        "probabilities": answer.probabilities,
        "trees": [str(tree) if tree is not None else None for tree in answer.trees],
    }
