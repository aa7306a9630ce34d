"""``crvnn train``."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from crvnn_core.cli.assemble import spec_options
from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json, print_table

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from crvnn_core.spec import RunSpec
    from crvnn_core.training.evaluation import Result
    from crvnn_core.training.trainer import Outcome

#: What may change when a run is taken up: how long, where and who watches, but not what is learnt.
_CHANGEABLE = (
    "epochs",
    "steps",
    "patience",
    "save_every",
    "optimizer.learning_rate",
    "accelerator",
    "devices",
    "threads",
    "observers",
)


@click.command("train")
@spec_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The run directory; by default a new one in ./runs, named after the spec.",
)
@click.option(
    "--seeds", type=click.IntRange(min=2), metavar="N", help="Train N times, from the spec's seed upwards."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Go on with a run that was stopped, or train a finished one for longer (with --set).",
)
@json_option
@plugin_option
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

    Stop it with Ctrl-C, or in any other way, and go on with --resume: the result is the same as without a stop. It
    trains on several devices with --set training.devices=N, or under torchrun.

    \b
    Examples:
      crvnn train tasks/specs/listops-laptop.toml
      crvnn train my.toml --set model.cell=lstm --seeds 5 --out runs/lstm
      crvnn train --resume runs/lstm
    """
    named = {slot: name for slot, name in parts.items() if name is not None}
    if resume is not None:
        if spec is not None or preset is not None or named or out is not None or seeds is not None:
            raise click.UsageError(
                "--resume takes the spec of the run; only --set can change how long and where."
            )
        group = _taken_up(session, resume, sets)
    else:
        group = _begun(session, spec, preset, named, sets, out, seeds)
    outcomes = _train(session, group)
    if not group.fabric.is_global_zero:
        return
    directory = group.directory
    unfinished = [path for path, outcome in outcomes.items() if not outcome.finished]
    summary = _summary(outcomes) if len(outcomes) > 1 and not unfinished else None
    if summary:
        from crvnn_core.runs.directory import RunDirectory

        run = RunDirectory(directory)
        run.write_json(run.summary, summary)
    if as_json:
        runs = {str(path): _plain(outcome) for path, outcome in outcomes.items()}
        print_json({"directory": str(directory), "runs": runs, "summary": summary})
    else:
        _show(outcomes, summary, directory)
    if unfinished:
        click.echo(f"crvnn: interrupted; go on with: crvnn train --resume {directory}", err=True)
        raise SystemExit(130)


@frozen
class Group:
    """Runs to be made or taken up one after another, and the processes that do it."""

    fabric: Fabric
    directory: Path
    specs: Mapping[Path, RunSpec]
    resumed: bool = False


def _begun(
    session: Session,
    path: Path | None,
    preset: str | None,
    parts: Mapping[str, str],
    sets: Sequence[str],
    out: Path | None,
    seeds: int | None,
) -> Group:
    """New runs: one, or one for each of several seeds."""
    import attrs

    from crvnn_core.errors import CrvnnError
    from crvnn_core.runs.directory import RunDirectory, seed_directories, seed_directory
    from crvnn_core.spec import read_spec, write_spec
    from crvnn_core.training.devices import launched

    spec = read_spec(session.catalog, path, preset=preset, parts=parts, sets=sets)
    fabric = launched(spec.training)  # first: from here on there may be several processes
    chosen = out or _new_directory(path.stem if path else spec.task.name)
    directory = Path(fabric.broadcast(str(chosen)))
    if seeds is None:
        return Group(fabric, directory, {directory: spec})
    specs = {
        seed_directory(directory, seed): attrs.evolve(spec, seed=seed)
        for seed in range(spec.seed, spec.seed + seeds)
    }
    if fabric.is_global_zero:
        group = RunDirectory(directory)
        if group.spec.exists() or group.seeds.exists() or seed_directories(directory):
            raise CrvnnError(f"{directory} holds a run already; choose another --out, or --resume it")
        write_spec(spec, group.seeds, [f"trained from {seeds} seeds"])
        for run in specs:
            run.mkdir(parents=True, exist_ok=True)
    fabric.barrier()
    return Group(fabric, directory, specs)


def _taken_up(session: Session, directory: Path, sets: Sequence[str]) -> Group:
    """Runs that were stopped, with what may change."""
    from crvnn_core.runs.directory import RunDirectory, seed_directories
    from crvnn_core.spec import read_spec
    from crvnn_core.training.devices import launched

    _check_changes(sets)
    specs = {}
    for seed, path in (seed_directories(directory) or {0: directory}).items():
        run = RunDirectory(path)
        if run.spec.exists() or path == directory:
            run.check_spec()
            specs[path] = read_spec(session.catalog, run.spec, sets=sets)
        else:  # one of several seeds, that had not begun
            group = RunDirectory(directory)
            specs[path] = read_spec(session.catalog, group.seeds, sets=[*sets, f"seed={seed}"])
    return Group(launched(next(iter(specs.values())).training), directory, specs, resumed=True)


def _check_changes(sets: Sequence[str]) -> None:
    """Refuse a --set that would make another run of it."""
    from crvnn_core.errors import SpecError
    from crvnn_core.spec.layers import override

    for text in sets:
        data, origin = override(text)
        table = data.get("training")
        keys = list(table) if isinstance(table, dict) else [""]
        if keys == ["optimizer"] and isinstance(table, dict) and isinstance(table["optimizer"], dict):
            keys = [f"optimizer.{key}" for key in table["optimizer"]]
        if any(key not in _CHANGEABLE for key in keys):
            allowed = ", ".join(f"training.{key}" for key in _CHANGEABLE)
            raise SpecError(
                [origin.problem((), "this cannot change while a run is taken up", f"What can: {allowed}.")]
            )


def _train(session: Session, group: Group) -> dict[Path, Outcome]:
    """One run after another, until one is interrupted."""
    from crvnn_core.runs.directory import RunDirectory
    from crvnn_core.spec.assembly import assemble
    from crvnn_core.training.trainer import train

    outcomes: dict[Path, Outcome] = {}
    for path, spec in group.specs.items():
        resume = group.resumed and RunDirectory(path).spec.exists()
        assembly = assemble(spec, session.catalog)
        if group.fabric.is_global_zero:
            click.echo(
                f"{'Going on with' if resume else 'Training into'} {path} (seed {spec.seed}).", err=True
            )
            for remark in assembly.remarks:
                click.echo(remark, err=True)
        outcomes[path] = train(assembly, path, resume=resume, fabric=group.fabric)
        if not outcomes[path].finished:
            break
    return outcomes


def _new_directory(name: str) -> Path:
    """The first of runs/NAME, runs/NAME-2, ... that is not there yet."""
    for number in itertools.count(1):
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            return path
    raise AssertionError


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "step": outcome.step,
        "best_step": outcome.best_step,
        "stopped": outcome.stopped,
        "finished": outcome.finished,
        "results": {split: result.plain() for split, result in outcome.results.items()},
    }


def _summary(outcomes: Mapping[Path, Outcome]) -> dict[str, Any]:
    """Accuracies over several seeds, for every split and group."""
    results = [outcome.results for outcome in outcomes.values()]
    found: dict[str, Any] = {"runs": len(results), "splits": {}}
    for split in results[0]:
        groups = {"all": [result[split].total.accuracy for result in results]}
        for bucket in results[0][split].buckets:
            groups[bucket] = [
                result[split].buckets[bucket].accuracy
                for result in results
                if bucket in result[split].buckets
            ]
        found["splits"][split] = {name: spread(values) for name, values in groups.items()}
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, median, least and standard deviation (of a sample)."""
    return {
        "mean": statistics.mean(values),
        "median": statistics.median(values),
        "min": min(values),
        "std": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def _show(outcomes: Mapping[Path, Outcome], summary: Mapping[str, Any] | None, directory: Path) -> None:
    for path, outcome in outcomes.items():
        if not outcome.finished:
            click.echo(f"{path}: {outcome.stopped}.")
            return
        early = f" ({outcome.stopped})" if outcome.stopped else ""
        click.echo(
            f"{path}: {outcome.step:,} steps{early}; the best weights are those of step {outcome.best_step:,}."
        )
        if outcome.results and not summary:
            show_results(outcome.results)
    if summary:
        rows = [
            (split, group, *(f"{100 * facts[key]:.1f}" for key in ("mean", "median", "min", "std")))
            for split, groups in summary["splits"].items()
            for group, facts in groups.items()
        ]
        click.echo(f"\nAccuracy (%) over {summary['runs']} seeds:")
        print_table(("split", "group", "mean", "median", "min", "std"), rows, right=(2, 3, 4, 5))
    click.echo(f"\nAsk it: crvnn predict {next(iter(outcomes))} TEXT")


def show_results(results: Mapping[str, Result]) -> None:
    """A table of splits and their groups."""
    rows = []
    for split, result in results.items():
        for group, score in {"all": result.total, **result.buckets}.items():
            rows.append(
                (
                    split,
                    group,
                    f"{score.examples:,}",
                    f"{100 * score.accuracy:.1f}",
                    f"{score.loss:.3f}",
                    f"{score.depth:.1f}",
                )
            )
    print_table(("split", "group", "examples", "accuracy %", "loss", "mean depth"), rows, right=(2, 3, 4, 5))
