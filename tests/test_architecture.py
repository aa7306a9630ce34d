"""The rules of the house that a reader of the folders relies on (docs/explanation/design.md)."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = [
    "crvnn",
    "crvnn_core",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "plugins").glob("crvnn_*"))),
    "tasks/crvnn_tasks",
]
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
#: Modules that are longer or shorter than usual, and why.
EXCEPTIONS = {
    "crvnn_core/trees/formats/nested.py": "a format is a module, and this one is that short",
    "crvnn_core/precision.py": "four functions that engine and parts share",
    "plugins/crvnn_report/sections/differences.py": "a section is a module, and this one is that short",
}
PLUGINS = {Path(package).name for package in PACKAGES} - {"crvnn_core"}


def named(path):
    return str(path.relative_to(ROOT))


def imports(path):
    """Everything that a module imports, by dotted name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_there_are_modules_to_look_at():
    assert len(MODULES) > 100


def test_the_core_imports_no_plug_in():
    core = [path for path in MODULES if path.is_relative_to(ROOT / "crvnn_core")]
    found = {
        named(path): name for path in core for name in imports(path) if name.partition(".")[0] in PLUGINS
    }
    assert not found


def test_only_the_package_of_public_names_imports_it():
    """Plug-ins and the core use ``crvnn_core``; ``crvnn`` is for programs."""
    others = [path for path in MODULES if not path.is_relative_to(ROOT / "crvnn")]
    assert not [named(path) for path in others for name in imports(path) if name.partition(".")[0] == "crvnn"]


def test_records_of_runs_are_read_without_torch():
    found = [
        named(path)
        for path in MODULES
        if path.is_relative_to(ROOT / "crvnn_core" / "runs")
        and any(name.partition(".")[0] in ("torch", "lightning_fabric") for name in imports(path))
    ]
    assert not found


ASKING = re.compile(
    r"\b(serves|in_use|allowed)\(|isinstance\([^()]*, (Recursion|CompiledIntervals|\w+Neighbourhood)\)"
)


def test_only_kernels_and_back_ends_ask_about_kernels_and_classes():
    """Commands may say whether kernels are in use; nothing else may act on it."""
    rooms = ("crvnn_core/kernels", "plugins/crvnn_plugins/native", "crvnn_core/cli/installation/")
    saying = ("plugins/crvnn_bench/",)  # the record of an environment
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in MODULES
        if not named(path).startswith((*rooms, *saying))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ASKING.search(line)
    ]
    assert not found, "\n".join(found)


def test_a_module_is_neither_long_nor_tiny():
    sizes = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    odd = {name: size for name, size in sizes.items() if not 30 <= size <= 400}
    odd = {name: size for name, size in odd.items() if not name.endswith("__init__.py")}
    assert odd.keys() == EXCEPTIONS.keys(), "split them, merge them, or say why not in EXCEPTIONS"


def test_no_folder_has_more_than_a_dozen_modules():
    counts = Counter(named(path.parent) for path in MODULES if path.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > 12} == {}
