"""Setups from options, and results as tables and JSON: what the commands of ``crvnn bench`` share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_bench.setup import HALTING_OFF_STEPS, Setup
from crvnn_core.cli.session import Session

if TYPE_CHECKING:
    from crvnn_bench.contenders.build import Contenders

GIB = 2**30
_IDLE = 0.9  # least CPU seconds per wall-clock second on a machine that does nothing else


def make_setup(session: Session, **setting: Any) -> Setup:
    """The setup that the options describe; sets torch's threads and flushes denormals."""
    import torch

    from crvnn_core.errors import CrvnnError

    if not setting.get("halting", True) and not setting.get("max_steps"):
        setting["max_steps"] = HALTING_OFF_STEPS
    setup = Setup(**setting, plugins=tuple(str(file) for file in session.files))
    try:
        torch.zeros(1, device=setup.device)
    except (RuntimeError, AssertionError) as error:
        raise CrvnnError(f"--device {setup.device} cannot be used: {str(error).splitlines()[0]}") from None
    if setup.threads:
        torch.set_num_threads(setup.threads)
    torch.set_flush_denormal(True)  # as training does
    return setup


def contenders_of(session: Session, setup: Setup) -> Contenders:
    """The contenders of a setup, among everything that this session's plug-ins offer."""
    from crvnn_bench.contenders.build import Contenders

    return Contenders(setup, session.catalog)


def choose(
    names: tuple[str, ...], default: tuple[str, ...], contenders: Contenders, *, training: bool
) -> list[str]:
    """The names of the contenders to measure, checked: those asked for, or the default for the weights."""
    from crvnn_bench.contenders.names import check_contenders

    return check_contenders(names or contenders.default(default), contenders.catalog, training)


def first_column(chosen: Sequence[Sequence[str]]) -> str:
    """The title of the column that compares with the first contender, which may differ between weights."""
    firsts = {names[0] for names in chosen}
    return f"x {firsts.pop()}" if len(firsts) == 1 else "x first"


def results_of(kind: str, setup: Setup, out: Path | None, **found: Any) -> dict[str, Any]:
    """The results with their environment and setup as plain data, written to ``out`` if given."""
    from crvnn_bench.report.environment import environment
    from crvnn_core.files import write_atomically

    results = {"bench": kind, "environment": environment(setup), "setup": setup.plain(), **found}
    if out is not None:
        write_atomically(out, json.dumps(results, indent=2) + "\n")
    return results


def say(what: str, results: dict[str, Any]) -> None:
    """Print below a table what was measured, and on which machine."""
    from crvnn_bench.report.environment import sentence

    click.echo(f"\n{what[0].upper()}{what[1:]}.\n{sentence(results['environment'])}.")


def say_if_busy(shares: Iterable[float | None]) -> None:
    """Warn if something else was running during the measurement."""
    least = min((share for share in shares if share is not None), default=1.0)
    if least < _IDLE:
        click.echo(f"The machine was busy: contenders had a CPU core for only {least:.0%} of the time.")


def ms(seconds: float | None) -> str:
    """Seconds as milliseconds, for a table."""
    if seconds is None:
        return ""
    return f"{1000 * seconds:,.0f}" if seconds >= 0.1 else f"{1000 * seconds:.2f}"


def mib(size: float | None) -> str:
    """Bytes as MiB, for a table."""
    return "" if size is None else f"{size / 2**20:,.1f}"


def power(value: float | None) -> str:
    """An exponent of growth, for a table."""
    return "" if value is None else f"n^{value:.2f}"
