"""Write docs/explanation/licences.md and requirements.lock from the installed packages: licences, versions and hashes.

``make lock`` runs this in a new environment that has just been set up.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parent / "explanation" / "licences.md"
#: Extras whose dependencies are part of the list: all that 'make setup' installs.
EXTRAS = ("dev",)
#: Parts of torch's build for GPUs, under their vendors' terms; the build for CPUs has none of them.
GPU = re.compile(r"(nvidia|cuda)-|triton$")

LOCK = Path(__file__).parent.parent / "requirements.lock"

_HEAD = """# Licences

crvnn itself is under the [MIT licence](https://opensource.org/license/mit). These packages are installed beside it. The
list is made by `make lock` from what they say of themselves, on Linux with torch's build for CPUs; the build for GPUs
brings packages of NVIDIA, under NVIDIA's terms. The versions are those of `requirements.lock`.

"""
_LOCK = """# The exact versions that crvnn is developed with, by 'make lock': all that 'make setup' installs but torch,
# and the SHA-256 of each file. 'make setup-locked' installs these, and refuses any other file. They are for Linux on
# x86-64 with CPython 3.11; elsewhere use 'make setup'. torch is pinned by constraints.txt, without a hash: its builds
# for CPUs and GPUs have the same version and different hashes.
"""
#: Pinned by constraints.txt alone.
UNHASHED = ("torch",)


def dependencies(extras: tuple[str, ...] = ()) -> dict[str, Distribution]:
    """The installed packages that crvnn and the given extras need, directly or not, by their names."""
    found: dict[str, Distribution] = {}
    waiting = [("crvnn", frozenset(extras))]
    seen = set(waiting)
    while waiting:
        name, wanted = waiting.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        if name != "crvnn":
            found[name] = package
        for requirement in _required(package, wanted):
            following = (canonicalize_name(requirement.name), frozenset(requirement.extras))
            if following not in seen and not GPU.match(following[0]):
                seen.add(following)
                waiting.append(following)
    return dict(sorted(found.items()))


def _required(package: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, package.requires or ()):
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in (extras or {""})
        ):
            yield requirement


def licence(package: Distribution) -> str:
    """What a package says about its licence: an SPDX expression if it has one."""
    facts = package.metadata
    if expression := facts.get("License-Expression"):
        return str(expression)
    classified = [
        text.rpartition(" :: ")[2]
        for text in facts.get_all("Classifier", [])
        if text.startswith("License :: ")
    ]
    named = [text for text in classified if text != "OSI Approved"]
    if named:
        return " or ".join(named)
    lines = str(facts.get("License") or "").strip().splitlines()
    return lines[0][:80] if lines else "not stated"


def page() -> str:
    """The page as text."""
    needed, more = dependencies(), dependencies(EXTRAS)
    parts = [_HEAD]
    tables = {
        "Needed by crvnn": needed,
        "Needed to develop crvnn, or by its extras": {n: p for n, p in more.items() if n not in needed},
    }
    for title, packages in tables.items():
        rows = [f"| {name} | {_version(p)} | {licence(p)} |" for name, p in packages.items()]
        parts.append(
            "\n".join([f"## {title}\n", "| package | version | licence |", "| --- | --- | --- |", *rows])
        )
        parts.append("\n\n")
    return "".join(parts).rstrip("\n") + "\n"


def lock() -> str:
    """The lock file as text."""
    pins = {name: _version(p) for name, p in dependencies(EXTRAS).items() if name not in UNHASHED}
    found = hashes([f"{name}=={version}" for name, version in pins.items()])
    lines = [f"{name}=={version} --hash=sha256:{found[name]}\n" for name, version in pins.items()]
    return _LOCK + "".join(lines)


def hashes(pins: list[str]) -> dict[str, str]:
    """The SHA-256 of the files that pip would install for these pins, by the names of the packages."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    report = subprocess.run(
        [*command, "--ignore-installed", "--no-deps", "--report", "-", *pins],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return {
        canonicalize_name(each["metadata"]["name"]): each["download_info"]["archive_info"]["hashes"]["sha256"]
        for each in json.loads(report.stdout)["install"]
    }


def _version(package: Distribution) -> str:
    return package.version.partition("+")[0]  # without the name of a build


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    LOCK.write_text(lock(), encoding="utf-8")
