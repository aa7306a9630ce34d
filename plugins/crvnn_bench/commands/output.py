"""What the commands of ``crvnn bench`` do before and after they measure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_bench.setup import HALTING_OFF_STEPS, Setup
from crvnn_core.cli.session import Session

if TYPE_CHECKING:
    from crvnn_bench.contenders.build import Field

GIB = 2**30
_ALONE = 0.9  # of the time, at least, a process has a processor when nothing else is running


def make_setup(session: Session, **setting: Any) -> Setup:
    """The setup that the options describe, with torch told of its threads."""
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
    torch.set_flush_denormal(True)  # as in training, and for every contender
    return setup


def contenders_of(session: Session, setup: Setup) -> Field:
    from crvnn_bench.contenders.build import Field

    return Field(setup, session.catalog)


def results_of(kind: str, setup: Setup, out: Path | None, **found: Any) -> dict[str, Any]:
    """Everything for machines, saved if asked for."""
    from crvnn_bench.report.environment import environment
    from crvnn_core.files import write_atomically

    results = {"bench": kind, "environment": environment(setup), "setup": setup.plain(), **found}
    if out is not None:
        write_atomically(out, json.dumps(results, indent=2) + "\n")
    return results


def say(what: str, results: dict[str, Any]) -> None:
    """What the numbers above are, and where they were measured."""
    from crvnn_bench.report.environment import sentence

    click.echo(f"\n{what[0].upper()}{what[1:]}.\n{sentence(results['environment'])}.")


def say_if_busy(shares: Iterable[float | None]) -> None:
    """Warn that something else had the processor while it was measured."""
    least = min((share for share in shares if share is not None), default=1.0)
    if least < _ALONE:
        click.echo(f"The machine was busy: contenders had a processor for {least:.0%} of the time only.")


def ms(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1000 * seconds:,.0f}" if seconds >= 0.1 else f"{1000 * seconds:.2f}"


def mib(size: float | None) -> str:
    return "" if size is None else f"{size / 2**20:,.1f}"


def power(value: float | None) -> str:
    return "" if value is None else f"n^{value:.2f}"
