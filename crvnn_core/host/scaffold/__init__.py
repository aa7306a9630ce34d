"""A complete third-party package for any slot, from templates."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from string import Template

from crvnn_core.errors import CrvnnError
from crvnn_core.host.slots import find_slot

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def create_package(slot: str, name: str, target: Path) -> list[str]:
    """Write the package into ``target``, and return the names of its files."""
    package = name.replace("-", "_")
    if not _NAME.fullmatch(name):
        raise CrvnnError(
            f"'{name}' is not a component's name: use small letters, digits and hyphens, as in 'my-cell'"
        )
    if keyword.iskeyword(package):
        raise CrvnnError(f"'{name}' is a keyword of Python, which cannot name a package; choose another name")
    if package.partition("_")[0] == "crvnn":
        raise CrvnnError(f"names that begin with 'crvnn' are crvnn's own; '{name}' needs another")
    if package == "tests" or _is_taken(package):
        raise CrvnnError(
            f"'{name}' would make a package '{package}', which exists already; choose another name"
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CrvnnError(f"{target} exists already and is not an empty directory; nothing was written")
    words = {
        "slot": slot,
        "name": name,
        "package": package,
        "Class": "".join(part.capitalize() for part in name.split("-")),
        "hook": find_slot(slot).hook,
    }
    here = files("crvnn_core.host.scaffold") / "templates"
    template = here / "slots" / f"{slot}.py.tmpl"
    if re.search(rf"\b{words['Class']}\b", template.read_text(encoding="utf-8")):
        words["Class"] += slot.capitalize()  # the template uses that name for something else
    texts = {
        "pyproject.toml": here / "pyproject.toml.tmpl",
        "README.md": here / "README.md.tmpl",
        f"{package}/__init__.py": here / "plugin.py.tmpl",
        f"{package}/{slot}.py": template,
        f"tests/test_{package}.py": here / "test.py.tmpl",
    }
    try:
        for path, text in texts.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            filled = Template(text.read_text(encoding="utf-8")).substitute(words)
            (target / path).write_text(filled, encoding="utf-8")
    except OSError as error:
        raise CrvnnError(f"{target} cannot be written: {error}") from error
    return list(texts)


def _is_taken(package: str) -> bool:
    """Whether another module has this name; the package of an installed plug-in may be created again."""
    if package in sys.stdlib_module_names:
        return True
    if any(entry.value.partition(":")[0] == package for entry in entry_points(group="crvnn")):
        return False
    found = importlib.util.find_spec(package)
    return found is not None and found.origin is not None  # a directory without __init__.py has no origin
