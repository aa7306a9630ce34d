"""``crvnn doctor``: each function looks at one thing, and yields what it found."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import click
from attrs import asdict, frozen

from crvnn_core.cli.session import Session, json_option, pass_session, print_json

_ROOM = 2 << 30  # bytes that a few runs with their checkpoints take
_TOOLS = ("dev", "docs")  # extras for those who work on crvnn itself
_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "problem": ("PROBLEM", "red")}


@frozen
class Finding:
    """One thing that was looked at, and what to do about it if something should be done."""

    subject: str
    status: Literal["ok", "note", "problem"]  # a note is worth knowing, and everything works
    text: str
    advice: str = ""


def python(session: Session) -> Iterator[Finding]:
    """The interpreter and the package."""
    where = Path(__file__).parents[1]
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}; crvnn in {where}"
    yield Finding("python", "ok", text)


def torch(session: Session) -> Iterator[Finding]:
    """Its version, and a product on each device."""
    began = time.perf_counter()
    import torch

    seconds = time.perf_counter() - began
    threads = torch.get_num_threads()
    capability = torch.backends.cpu.get_cpu_capability()
    text = f"{torch.__version__}, imported in {seconds:.1f} s; {threads} thread{'s' * (threads != 1)}, {capability}"
    yield Finding("torch", "ok", text)
    if not torch.cuda.is_available() and not torch.backends.mps.is_available():
        advice = "that is fine for small models"
        if torch.version.cuda:
            advice = "if there is one, its driver is missing or too old for this torch: look at 'nvidia-smi'"
        elif shutil.which("nvidia-smi"):
            advice = "this torch was built for CPUs: install a CUDA build of torch to use the GPU"
        yield Finding("device", "note", "no GPU was found, so training runs on the CPU", advice)
    devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    devices += ["mps"] * torch.backends.mps.is_available()
    for device in devices:
        square = torch.ones(64, 64, device=device)
        right = (square @ square).sum().item() == 64**3
        name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "Apple GPU"
        text = f"{device} ({name})" + (" works" if right else " gives wrong products")
        yield Finding("device", "ok" if right else "problem", text, "" if right else "look at its driver")


def kernels(session: Session, build: bool = False) -> Iterator[Finding]:
    """Whether the compiled kernels are used on CPUs; with ``build`` those that are missing are compiled first."""
    from crvnn_core.host.catalog import read_libraries
    from crvnn_core.kernels import allowed
    from crvnn_core.kernels.building import compiler

    libraries, name = read_libraries(session.host), compiler()
    missing = [library for library in libraries if library.load() is None]
    if build and missing:
        if name:
            packages = " and ".join(library.package for library in missing)
            click.echo(f"Compiling the kernels of {packages} with {name}, in under a minute ...", err=True)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor() as pool:  # each is a process of the compiler
            list(pool.map(lambda library: library.build(), missing))
    for library in libraries:
        if library.load() is None:
            advice = "'crvnn doctor --build' compiles them (under a minute)"
            if name is None:
                advice = f"install a C++ compiler (g++ or clang++); then {advice}"
            text = f"{library.package}: not compiled, so training on a CPU takes about twice as long"
            yield Finding("kernels", "note", text, advice)
        elif allowed():
            yield Finding("kernels", "ok", f"{library.package}: in use ({library.path()})")
        else:
            text = f"{library.package}: switched off ({library.path()})"
            yield Finding("kernels", "note", text, "unset CRVNN_NATIVE")


def plugins(session: Session) -> Iterator[Finding]:
    """What is installed, and what could not be loaded."""
    catalog = session.catalog
    found = [offer for offers in catalog.components.values() for offer in offers.values()]
    sources = sorted({str(offer.source) for offer in found})
    yield Finding("plug-ins", "ok", f"{len(found)} components from {', '.join(sources)}")
    for broken in catalog.broken:
        text = f"{broken.source} could not be loaded: {broken.reason}"
        advice = f"repair it, or {broken.removal}; everything else works without it"
        yield Finding("plug-ins", "problem", text, advice)


def extras(session: Session) -> Iterator[Finding]:
    """Which optional packages are installed."""
    missing: dict[str, list[str]] = {}
    present = set()
    for requirement in requires("crvnn") or ():
        found = re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", requirement)
        if found is None or found[2] in _TOOLS:
            continue
        try:
            version(found[1])
            present.add(found[2])
        except PackageNotFoundError:
            missing.setdefault(found[2], []).append(found[1])
    installed = sorted(present - missing.keys())
    yield Finding("extras", "ok", f"installed: {', '.join(installed) or 'none'}")
    if missing:
        listed = ", ".join(f"{extra} ({', '.join(names)})" for extra, names in sorted(missing.items()))
        yield Finding("extras", "note", f"not installed: {listed}", "'pip install \"crvnn[NAME]\"' adds one")


def disk(session: Session) -> Iterator[Finding]:
    """Whether runs can be written here."""
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    text = f"{free / (1 << 30):.1f} GiB free in {here}"
    if not os.access(here, os.W_OK):
        text = f"{here} cannot be written to"
        yield Finding("disk", "problem", text, "go to another directory, or use --out")
    elif free < _ROOM:
        advice = "runs and their checkpoints may not fit: make room, or use --out"
        yield Finding("disk", "problem", text, advice)
    else:
        yield Finding("disk", "ok", text)


def training(session: Session) -> Iterator[Finding]:
    """A training of about a second, of the default variant in small."""
    from crvnn_core.spec import read_spec
    from crvnn_core.spec.assembly import assemble
    from crvnn_core.training.trainer import train

    small = [
        "model.width=16",
        *(f"training.{text}" for text in ("batch=8", "epochs=0", "steps=5", "observers=[]")),
    ]
    task = session.catalog.find("task", read_spec(session.catalog).task.name)
    made = task.component.settings("task")
    small += [f"task.{name}=64" for name in ("rows", "held_out") if name in made]  # data that is generated
    spec = read_spec(session.catalog, sets=small)
    assembly = assemble(spec, session.catalog)
    began = time.perf_counter()
    outcome = train(assembly, evaluate_splits=[])
    seconds = time.perf_counter() - began
    device = next(assembly.model.parameters()).device
    if all(bool(parameter.isfinite().all()) for parameter in assembly.model.parameters()):
        text = f"{outcome.step} steps of a small model of the task '{spec.task.name}' took {seconds:.1f} s"
        yield Finding("training", "ok", text)
    else:
        text = f"the weights are not finite after training on {device}"
        yield Finding("training", "problem", text, "look at its driver")


LOOKS = (python, torch, kernels, plugins, extras, disk, training)


@click.command("doctor")
@click.option("--build", is_flag=True, help="Compile the kernels that are missing, and look at these alone.")
@json_option
@pass_session
def doctor_command(session: Session, build: bool, as_json: bool) -> None:
    """Check the installation, and say what to do where something is wrong.

    It looks at Python, torch and its devices, the compiled kernels, the plug-ins, optional packages and the disk, and
    trains a small model for a second. The exit code is 1 if there is a problem.

    The kernels do the work of a step on a CPU in C++, about twice as fast as torch's operations. --build compiles them
    on this machine (with a C++ compiler and no network), one library for each package that has any; everything works
    without them. CRVNN_NATIVE=0 leaves them unused, CXX names the compiler, CRVNN_CACHE the directory they are kept in.

    \b
    Examples:
      crvnn doctor
      crvnn doctor --build
      crvnn doctor --json
    """
    findings = []
    for finding in kernels(session, build=True) if build else _look(session):
        findings.append(finding)
        if not as_json:
            word, colour = _MARKS[finding.status]
            click.echo(f"{click.style(f'{word:<8}', fg=colour)} {finding.subject:<9} {finding.text}")
            if finding.advice:
                click.echo(f"{'':<18} -> {finding.advice}")
    problems = sum(finding.status == "problem" for finding in findings)
    if as_json:
        print_json({"healthy": not problems, "findings": [asdict(finding) for finding in findings]})
    elif problems:
        click.echo(f"\n{problems} problem{'s' * (problems > 1)} found.")
    elif not build:
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
