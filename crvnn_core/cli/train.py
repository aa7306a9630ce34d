"""``crvnn train``."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from crvnn_core.cli.assemble import spec_options
from crvnn_core.cli.session import PATH, Session, json_option, pass_session, print_json, print_table

if TYPE_CHECKING:
    from crvnn_core.interfaces import Task
    from crvnn_core.runs.results import Result
    from crvnn_core.spec.assembly import Assembly
    from crvnn_core.training.seeds import RunOutcomes

_SAMPLED = 100  # examples among which the shortest is shown


@click.command("train")
@spec_options
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="The run directory; by default a new one in ./runs, named after the spec.",
)
@click.option(
    "--seeds", type=click.IntRange(min=2), metavar="N", help="Train N times, from the spec's seed upwards."
)
@click.option(
    "--resume",
    type=PATH,
    metavar="DIR",
    help="Resume a run that was stopped, or train a finished one for longer (with --set).",
)
@json_option
@pass_session
def train_command(
    session: Session,
    /,
    spec: Path | None,
    preset: str | None,
    sets: tuple[str, ...],
    out: Path | None,
    seeds: int | None,
    resume: Path | None,
    as_json: bool,
    **parts: str | None,
) -> None:
    """Train what a SPEC file describes and keep the result in a run directory.

    A run that was stopped, with Ctrl-C or in any other way, continues with --resume and gives the same result as one
    that was never stopped. It trains on several devices with --set training.devices=N, or under torchrun.

    \b
    Examples:
      crvnn train listops-soft
      crvnn train my.toml --set model.cell=lstm --seeds 5 --out runs/lstm
      crvnn train --resume runs/lstm
    """
    # Before torch is imported: its C++ warnings are one for each process of DDP, and stack traces when one is lost.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from crvnn_core.spec import read_spec
    from crvnn_core.training.resume import resume_training
    from crvnn_core.training.seeds import new_directory, specs_of_seeds, train_all

    tasks: list[Task] = []

    def announce(path: Path, assembly: Assembly, resumed: bool) -> None:
        tasks.append(assembly.task)
        begun = "Resuming" if resumed else "Training into"
        click.echo(f"{begun} {path} (seed {assembly.spec.seed}).", err=True)
        for remark in assembly.remarks:
            click.echo(remark, err=True)

    named = {slot: name for slot, name in parts.items() if name is not None}
    if resume is not None:
        if spec is not None or preset is not None or named or out is not None or seeds is not None:
            raise click.UsageError(
                "--resume takes the spec of the run; only --set can change how long and where."
            )
        with _saying_how_to_resume(resume):
            found = resume_training(resume, sets=sets, catalog=session.catalog, starting=announce)
    else:
        read = read_spec(session.catalog, spec, preset=preset, parts=named, sets=sets)
        chosen = out or new_directory(spec.stem if spec else read.task.name)
        with _saying_how_to_resume(chosen):
            found = train_all(specs_of_seeds(read, seeds), chosen, session.catalog, announce)
    if not found.first_process:
        return
    if as_json:
        print_json(found.plain())
    else:
        _show(found, tasks[0])
    if not found.finished:
        _end_interrupted(found.directory)


@contextlib.contextmanager
def _saying_how_to_resume(directory: Path) -> Iterator[None]:
    """Signals outside the steps, while data is read or results are computed, end training as those within them do."""
    from crvnn_core.runs.directory import RunDirectory

    try:
        yield
    except KeyboardInterrupt:
        run = RunDirectory(directory)
        if not run.spec.exists() and not run.seeds.exists():
            raise
        _end_interrupted(directory)


def _end_interrupted(directory: Path) -> NoReturn:
    click.echo(f"crvnn: interrupted; resume with: crvnn train --resume {directory}", err=True)
    raise SystemExit(130)


def _show(found: RunOutcomes, task: Task) -> None:
    from crvnn_core.runs.directory import RunDirectory, kept_plugin_files, plugin_options

    summary = found.summary
    for path, outcome in found.outcomes.items():
        if not outcome.finished:
            click.echo(f"{path}: {outcome.stopped}.")
            return
        early = f" ({outcome.stopped})" if outcome.stopped else ""
        click.echo(
            f"{path}: {outcome.step:,} steps{early}; the best weights are those of step {outcome.best_step:,}."
        )
        if outcome.results and not summary:
            _show_results(outcome.results)
    if summary:
        rows = [
            (split, group, *(f"{100 * facts[key]:.1f}" for key in ("mean", "median", "min", "std")))
            for split, groups in summary["splits"].items()
            for group, facts in groups.items()
        ]
        click.echo(f"\nAccuracy (%) over {summary['runs']} seeds:")
        print_table(("split", "group", "mean", "median", "min", "std"), rows, right=(2, 3, 4, 5))
    run = next(iter(found.outcomes))
    files = kept_plugin_files(RunDirectory(run))
    if files:
        click.echo(
            f"\nThe run keeps {', '.join(path.name for path in files)}, which it needs, in {run / 'plugins'}."
        )
    options = f"{plugin_options(files)} " if files else ""
    click.echo(f"\nTry it: crvnn {options}predict {found.directory} {_sample_texts(task)}")


def _show_results(results: Mapping[str, Result]) -> None:
    """A table of splits and their groups, with accuracy, loss and depth."""
    rows = [
        (
            split,
            group,
            f"{score.examples:,}",
            f"{100 * score.accuracy:.1f}",
            f"{score.loss:.3f}",
            f"{score.depth:.1f}",
        )
        for split, result in results.items()
        for group, score in {"all": result.total, **result.buckets}.items()
    ]
    print_table(("split", "group", "examples", "accuracy %", "loss", "mean depth"), rows, right=(2, 3, 4, 5))


def _sample_texts(task: Task) -> str:
    """A short text of the task, or a pair of texts, as arguments of ``crvnn predict``."""
    from crvnn_core.training.data import example_length, split_examples

    splits = (split_examples(task, split, 0) for split in reversed(task.splits))
    first = itertools.islice(itertools.chain.from_iterable(splits), _SAMPLED)
    texts = [" ".join(tokens) for tokens in min(first, key=example_length).sequences]
    dashes = ["--"] if any(text.startswith("-") for text in texts) else []
    return shlex.join([*dashes, *texts])
