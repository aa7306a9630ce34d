"""``crvnn doctor``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
from attrs import asdict

from crvnn_core.cli.installation.findings import LOOKS, Finding
from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json

_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "problem": ("PROBLEM", "red")}


@click.command("doctor")
@json_option
@plugin_option
@pass_session
def doctor_command(session: Session, as_json: bool) -> None:
    """Check the installation, and say what to do where something is wrong.

    It looks at Python, torch and its devices, the compiled kernels, the plug-ins, optional packages and the disk, and
    trains a small model for a second. The exit code is 1 if there is a problem.

    \b
    Examples:
      crvnn doctor
      crvnn doctor --json
    """
    findings = []
    for finding in _look(session):
        findings.append(finding)
        if not as_json:
            _show(finding)
    problems = sum(finding.status == "problem" for finding in findings)
    if as_json:
        print_json({"healthy": not problems, "findings": [asdict(finding) for finding in findings]})
    elif problems:
        click.echo(f"\n{problems} problem{'s' * (problems > 1)} found.")
    else:
        click.echo("\nEverything works. Next: crvnn demo")
    if problems:
        sys.exit(1)


def _look(session: Session) -> Iterator[Finding]:
    for look in LOOKS:
        try:
            yield from look(session)
        except Exception as error:  # whatever is wrong with one, the others are looked at
            advice = "CRVNN_TRACEBACK=1 with the command that fails shows more"
            yield Finding(look.__name__, "problem", f"{type(error).__name__}: {error}", advice)


def _show(finding: Finding) -> None:
    word, colour = _MARKS[finding.status]
    click.echo(f"{click.style(f'{word:<8}', fg=colour)} {finding.subject:<9} {finding.text}")
    if finding.advice:
        click.echo(f"{'':<18} -> {finding.advice}")
