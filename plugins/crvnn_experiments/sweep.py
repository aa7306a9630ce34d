"""A sweep from beginning to end: create, join or resume a study, work on it, show what it has found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import tomli_w

from crvnn_core.errors import CrvnnError, SpecError
from crvnn_core.files import write_atomically
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import RunSpec, read_spec, spec_dict, write_spec
from crvnn_core.spec.layers import override
from crvnn_core.spec.resolve import spec_layers
from crvnn_experiments.findings import Findings, read_findings
from crvnn_experiments.settings import Sweep, read_sweep
from crvnn_experiments.study import Study, import_optuna, locked, read_study
from crvnn_experiments.worker import Tell, Worker, with_few_lines

_CRVNN = (sys.executable, "-c", "from crvnn_core.cli import main; main(prog_name='crvnn')")
_INTERRUPTED = 130  # the exit code of a worker that was interrupted


def start_sweep(
    catalog: Catalog,
    spec: Path | None,
    *,
    out: Path | None = None,
    sets: Sequence[str] = (),
    preset: str | None = None,
    trials: int | None = None,
    seeds: int | None = None,
    sampler: str | None = None,
    pruner: str | None = None,
    **parts: str | None,
) -> Study:
    """Create the study of a spec, or join it if the same command has created it before.

    :param out: the directory of the study; by default ``runs/NAME-sweep``.
    :param sets: ``key=value`` for the spec and for its table ``[sweep]``.
    """
    import_optuna()
    given = {"trials": trials, "seeds": seeds, "sampler": sampler, "pruner": pruner}
    options = [f"sweep.{key}={value}" for key, value in given.items() if value is not None]
    own = [text for text in sets if _is_about_sweep(text)]
    others = [text for text in sets if text not in own]
    named = {slot: part for slot, part in parts.items() if part is not None}
    base = with_few_lines(read_spec(catalog, spec, preset=preset, parts=named, sets=others))
    layers = spec_layers(catalog, spec)
    sweep = read_sweep(catalog, layers, base, [*own, *options])
    beside = next((place.directory for _, _, place in reversed(layers) if place.directory), Path())
    path = out or Path("runs") / f"{spec.stem if spec else base.task.name}-sweep"
    return _planned(path, catalog, base, sweep, beside)


def continue_sweep(directory: Path, catalog: Catalog, *, trials: int | None = None) -> Study:
    """Join a study by its directory.

    :param trials: more than before, to try more combinations.
    """
    import_optuna()
    sweep = read_study(directory, catalog)
    if trials is None or trials == sweep.trials:
        return Study(directory, sweep, catalog)
    if sweep.sampler == "grid" or trials < sweep.trials:
        raise CrvnnError(f"--trials {trials}: this study has {sweep.trials}; only tpe and random take more")
    base = read_spec(catalog, directory / "base.toml")
    return _planned(directory, catalog, base, attrs.evolve(sweep, trials=trials))


def _planned(path: Path, catalog: Catalog, base: RunSpec, sweep: Sweep, beside: Path = Path()) -> Study:
    """The study of a directory, with all its trials and what is needed to resume it."""
    with locked(path):
        study = Study(path, sweep, catalog)
        study.plan({**spec_dict(base), "sweep": sweep.plain()}, beside)
        write_spec(base, path / "base.toml", ["the spec that each trial of this sweep changes"])
        write_atomically(path / "sweep.toml", tomli_w.dumps({"sweep": sweep.plain()}))
    return study


def show_sweep(directory: Path, catalog: Catalog) -> Findings:
    """What a study has found so far; its page, tables and best spec are written anew."""
    from crvnn_experiments.pages import sweep_page

    study = continue_sweep(directory, catalog)
    findings = read_findings(study)
    write_atomically(directory / "trials.csv", findings.csv())
    write_atomically(directory / "trials.md", findings.markdown(f"Sweep of {study.name}"))
    write_atomically(directory / "report.html", sweep_page(findings, study.sweep, study.name))
    if (best := findings.best) is not None:
        label = f"trial {best.number}"
        spec = study.trial_spec(best.params, label)
        write_spec(spec, study.best, [f"{label} of the study '{study.name}', the best so far"])
    return findings


def work_together(study: Study, workers: int, tell: Tell, plugins: Sequence[Path] = ()) -> bool:
    """Train the trials that wait, in this process and in others; false if it was interrupted.

    :param workers: how many processes; what the others print is in ``worker-2.log`` and so on.
    :param plugins: files of ``--plugin``, for the other processes.
    """
    plugin_files = [part for path in plugins for part in ("--plugin", str(path))]
    command = ["sweep", "--resume", str(study.path), "--json", *plugin_files]
    others = []
    for number in range(2, workers + 1):
        with (study.path / f"worker-{number}.log").open("w") as log:
            others.append(subprocess.Popen([*_CRVNN, *command], stdout=subprocess.DEVNULL, stderr=log))
    try:
        finished = Worker(study, tell).work()
    finally:
        codes = [other.wait() for other in others]
    failed = [str(number) for number, code in enumerate(codes, 2) if code not in (0, _INTERRUPTED)]
    if failed:
        tell(f"Worker {', '.join(failed)} ended with an error; see worker-{failed[0]}.log in {study.path}.")
    return finished and _INTERRUPTED not in codes


def _is_about_sweep(text: str) -> bool:
    try:
        return "sweep" in override(text)[0]
    except SpecError:  # reported with the spec
        return False
