"""What ``crvnn doctor`` looks at: each function looks at one thing, and yields what it found."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attrs import frozen

if TYPE_CHECKING:
    from crvnn_core.cli.session import Session

_ROOM = 2 << 30  # bytes that a few runs with their checkpoints take
_TOOLS = ("dev", "docs")  # extras for those who work on crvnn itself


@frozen
class Finding:
    """One thing that was looked at, and what to do about it if something should be done."""

    subject: str
    status: Literal["ok", "note", "problem"]  # a note is worth knowing, and everything works
    text: str
    advice: str = ""


def python(session: Session) -> Iterator[Finding]:
    """The interpreter and the package."""
    where = Path(__file__).parents[2]
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}; crvnn in {where}"
    yield Finding("python", "ok", text)


def torch(session: Session) -> Iterator[Finding]:
    """Its version, and a product on each device."""
    began = time.perf_counter()
    import torch

    seconds = time.perf_counter() - began
    threads = torch.get_num_threads()
    yield Finding(
        "torch",
        "ok",
        f"{torch.__version__}, imported in {seconds:.1f} s; {threads} thread{'s' * (threads != 1)}, "
        f"{torch.backends.cpu.get_cpu_capability()}",
    )
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


def kernels(session: Session) -> Iterator[Finding]:
    """Whether the compiled kernels are used on CPUs."""
    from crvnn_core.host.catalog import read_libraries
    from crvnn_core.kernels import allowed
    from crvnn_core.kernels.building import compiler

    for library in read_libraries(session.host):
        if library.load() is None:
            advice = "'crvnn native --build' compiles them (under a minute)"
            if compiler() is None:
                advice = f"install a C++ compiler (g++ or clang++); then {advice}"
            text = f"{library.package}: not compiled, so training on a CPU takes about twice as long"
            yield Finding("kernels", "note", text, advice)
        elif allowed():
            yield Finding("kernels", "ok", f"{library.package}: in use")
        else:
            yield Finding("kernels", "note", f"{library.package}: switched off", "unset CRVNN_NATIVE")


def plugins(session: Session) -> Iterator[Finding]:
    """What is installed, and what could not be loaded."""
    catalog = session.catalog
    found = [offer for offers in catalog.components.values() for offer in offers.values()]
    sources = sorted({str(offer.source) for offer in found})
    yield Finding("plug-ins", "ok", f"{len(found)} components from {', '.join(sources)}")
    for broken in catalog.broken:
        yield Finding(
            "plug-ins",
            "problem",
            f"{broken.source} could not be loaded: {broken.reason}",
            f"repair it, or {broken.removal}; everything else works without it",
        )


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
        yield Finding(
            "disk", "problem", f"{here} cannot be written to", "go to another directory, or use --out"
        )
    elif free < _ROOM:
        yield Finding(
            "disk", "problem", text, "runs and their checkpoints may not fit: make room, or use --out"
        )
    else:
        yield Finding("disk", "ok", text)


def training(session: Session) -> Iterator[Finding]:
    """A training of about a second, of the default variant in small."""
    from crvnn_core.host.description import describe
    from crvnn_core.spec import read_spec
    from crvnn_core.spec.assembly import assemble
    from crvnn_core.training.trainer import train

    small = [
        "model.width=16",
        "training.batch=8",
        "training.epochs=0",
        "training.steps=5",
        "training.observers=[]",
    ]
    task = read_spec(session.catalog).task.name
    made = {parameter["name"] for parameter in describe(session.catalog, "task", task)["parameters"]}
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
        yield Finding(
            "training",
            "problem",
            f"the weights are not finite after training on {device}",
            "look at its driver",
        )


LOOKS: tuple[Callable[[Session], Iterator[Finding]], ...] = (
    python,
    torch,
    kernels,
    plugins,
    extras,
    disk,
    training,
)
