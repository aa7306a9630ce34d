"""The rules of the house that a reader of the folders relies on (docs/explanation/design.md)."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = [
    "crvnn",
    "crvnn_core",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "plugins").glob("crvnn_*"))),
    "tasks/crvnn_tasks",
]
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
#: The rooms of the core, from top to bottom: a room imports only from rooms below it.
LAYERS = (
    "cli",
    "testing",
    "inference",
    "training",
    "spec",
    "host",
    "runs",
    "model",
    "trees",
    "display",
    "engine",
    "interfaces",
    "kernels",
)
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
    rooms = ("crvnn_core/kernels", "plugins/crvnn_parts/operations", "crvnn_core/cli/doctor.py")
    saying = ("plugins/crvnn_bench/",)  # the record of an environment
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in MODULES
        if not named(path).startswith((*rooms, *saying))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ASKING.search(line)
    ]
    assert not found, "\n".join(found)


def imported_rooms(path):
    """The rooms of the core that a module imports when it runs, at whatever place; not only for type checking."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crvnn_core."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.split(".")[1] for alias in node.names if alias.name.startswith("crvnn_core.")
            )


def test_imports_of_the_core_point_down():
    core = ROOT / "crvnn_core"
    edges = {
        (path.relative_to(core).parts[0], room)
        for path in core.rglob("*.py")
        for room in imported_rooms(path)
        if path.relative_to(core).parts[0] in LAYERS
    }
    base = {
        room for _, room in edges if room not in LAYERS
    }  # errors, files, ...: single modules under all rooms
    assert not {
        (path.stem, room)
        for path in core.glob("*.py")
        for room in imported_rooms(path)
        if room in LAYERS and path.stem in base
    }
    assert not {(one, two) for one, two in edges if two in LAYERS and LAYERS.index(two) < LAYERS.index(one)}
