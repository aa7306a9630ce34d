"""A sweep from beginning to end: create, join or resume a study, work on it, show what it has found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs

from crvnn_core.errors import CrvnnError, SpecError
from crvnn_core.files import write_atomically
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import read_spec, spec_dict, write_spec
from crvnn_core.spec.layers import override
from crvnn_core.spec.resolve import spec_layers
from crvnn_experiments.findings import Findings, read_findings
from crvnn_experiments.settings import read_sweep
from crvnn_experiments.study import Study, StudyFacts, StudyFiles, import_optuna, open_study
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
    storage: str | None = None,
    name: str | None = None,
    trials: int | None = None,
    seeds: int | None = None,
    sampler: str | None = None,
    pruner: str | None = None,
    **parts: str | None,
) -> Study:
    """Create the study of a spec, or join it if the same command has created it before.

    :param out: the directory of the study; by default ``runs/NAME-sweep``.
    :param sets: ``key=value`` for the spec and for its table ``[sweep]``.
    :param storage: the address of a database; by default SQLite in the directory.
    :param name: of the study in the database; by default that of the directory.
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
    files = StudyFiles(out or Path("runs") / f"{spec.stem if spec else base.task.name}-sweep")
    with files.lock():
        known = files.read(catalog)[1] if files.study.exists() else None
        storage = storage or (known.storage if known else "")
        name = name or (known.study if known else files.path.absolute().name)
        content = {**spec_dict(base), "sweep": sweep.plain()}
        study = open_study(files, sweep, catalog, content, storage, name)
        beside = next((place.directory for _, _, place in reversed(layers) if place.directory), Path())
        facts = StudyFacts(name, _without_password(storage), str(beside.absolute()))
        files.create(base, sweep, known or facts)
    return study


def continue_sweep(
    directory: Path, catalog: Catalog, *, url: str | None = None, trials: int | None = None
) -> Study:
    """Join a study by its directory.

    :param url: of its database, if the address needs a password, which is not kept.
    :param trials: more than before, to try more combinations.
    """
    import_optuna()
    files = StudyFiles(directory)
    sweep, known = files.read(catalog)
    if trials is not None and trials != sweep.trials:
        if sweep.sampler == "grid" or trials < sweep.trials:
            raise CrvnnError(
                f"--trials {trials}: this study has {sweep.trials}; only tpe and random take more"
            )
        sweep = attrs.evolve(sweep, trials=trials)
    with files.lock():
        base = read_spec(catalog, files.base)
        content = {**spec_dict(base), "sweep": sweep.plain()}
        study = open_study(files, sweep, catalog, content, url or known.storage, known.study)
        if trials is not None:
            files.create(base, sweep, known)
    return study


def show_sweep(directory: Path, catalog: Catalog, url: str | None = None) -> Findings:
    """What a study has found so far; its page, tables and best spec are written anew."""
    from crvnn_experiments.pages import sweep_page

    study = continue_sweep(directory, catalog, url=url)
    findings = read_findings(study)
    write_atomically(directory / "trials.csv", findings.csv())
    write_atomically(directory / "trials.md", findings.markdown(f"Sweep of {study.name}"))
    write_atomically(directory / "report.html", sweep_page(findings, study.sweep, study.name))
    if (best := findings.best) is not None:
        label = f"trial {best.number}"
        spec = study.files.trial_spec(catalog, best.params, label)
        write_spec(spec, study.files.best, [f"{label} of the study '{study.name}', the best so far"])
    return findings


def work_together(study: Study, workers: int, tell: Tell, plugins: Sequence[Path] = ()) -> bool:
    """Train the trials that wait, in this process and in others; false if it was interrupted.

    :param workers: how many processes; what the others print is in ``worker-2.log`` and so on.
    :param plugins: files of ``--plugin``, for the other processes.
    """
    plugin_files = [part for path in plugins for part in ("--plugin", str(path))]
    command = ["sweep", "--resume", str(study.files.path), "--json", *plugin_files]
    others = []
    for number in range(2, workers + 1):
        with (study.files.path / f"worker-{number}.log").open("w") as log:
            others.append(subprocess.Popen([*_CRVNN, *command], stdout=subprocess.DEVNULL, stderr=log))
    try:
        finished = Worker(study, tell).work()
    finally:
        codes = [other.wait() for other in others]
    failed = [str(number) for number, code in enumerate(codes, 2) if code not in (0, _INTERRUPTED)]
    if failed:
        tell(
            f"Worker {', '.join(failed)} ended with an error; see worker-{failed[0]}.log in {study.files.path}."
        )
    return finished and _INTERRUPTED not in codes


def _is_about_sweep(text: str) -> bool:
    try:
        return "sweep" in override(text)[0]
    except SpecError:  # reported with the spec
        return False


def _without_password(url: str) -> str:
    """The address to keep in a file; drivers find the password elsewhere (``PGPASSWORD``, ``~/.pgpass``)."""
    from sqlalchemy import make_url

    return make_url(url)._replace(password=None).render_as_string() if url else ""
