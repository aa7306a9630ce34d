"""The rules of the house that a reader of the folders relies on (docs/explanation/design.md)."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "crvnn_core"
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


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(tree):
    return list(ast.walk(tree))


def imports(tree, *, types=True):
    """Everything that a module imports, by dotted name; without ``types`` what it imports when it runs."""
    for_types = {
        node
        for block in nodes(tree)
        if not types and isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in nodes(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def top(name):
    return name.partition(".")[0]


def test_there_are_modules_to_look_at():
    assert len(MODULES) > 100


def test_the_core_imports_no_plug_in():
    core = [path for path in MODULES if path.is_relative_to(CORE)]
    assert not {named(path): name for path in core for name in imports(parsed(path)) if top(name) in PLUGINS}


def test_only_the_package_of_public_names_imports_it():
    """Plug-ins and the core use ``crvnn_core``; ``crvnn`` is for programs."""
    others = [path for path in MODULES if not path.is_relative_to(ROOT / "crvnn")]
    assert not [named(path) for path in others for name in imports(parsed(path)) if top(name) == "crvnn"]


def test_records_of_runs_are_read_without_torch():
    runs = [path for path in MODULES if path.is_relative_to(CORE / "runs")]
    heavy = ("torch", "lightning_fabric")
    assert not [named(path) for path in runs for name in imports(parsed(path)) if top(name) in heavy]


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


# What built-in parts use of the core.


def private_uses(tree):
    """The private names of the core that a module imports, and those that it takes from modules of the core."""
    imported = [name for name in imports(tree) if top(name) == "crvnn_core"]
    yield from (name for name in imported if any(part.startswith("_") for part in name.split(".")))
    known = {
        alias.asname or alias.name
        for node in nodes(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if top(getattr(node, "module", None) or alias.name) == "crvnn_core"
    }
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            owner = ast.unparse(node.value)
            if owner in known or top(owner) == "crvnn_core":
                yield f"{owner}.{node.attr}"


def test_built_in_parts_use_only_public_names_of_the_core():
    parts = [path for path in MODULES if not path.is_relative_to(CORE)]
    assert {path.relative_to(ROOT).parts[0] for path in parts} == {"crvnn", "plugins", "tasks"}
    assert not {named(path): used for path in parts if (used := list(private_uses(parsed(path))))}


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("from crvnn_core.spec.layers import _around", ["crvnn_core.spec.layers._around"]),
        ("from crvnn_core._hidden import name", ["crvnn_core._hidden.name"]),
        ("from crvnn_core.engine._private.deep import name", ["crvnn_core.engine._private.deep.name"]),
        ("import crvnn_core.engine._private", ["crvnn_core.engine._private"]),
        ("def late():\n    from crvnn_core.files import _lock", ["crvnn_core.files._lock"]),
        ("from crvnn_core import files\nfiles._lock()", ["files._lock"]),
        ("from crvnn_core.runs import files as kept\nkept._lock()", ["kept._lock"]),
        ("import crvnn_core.files\ncrvnn_core.files._lock()", ["crvnn_core.files._lock"]),
        ("from crvnn_core import Cell\nfrom mine import _own\nCell.__name__\nself._own", []),
    ],
)
def test_a_private_name_of_the_core_is_found_wherever_it_is_used(source, used):
    assert list(private_uses(ast.parse(source))) == used


# The rooms of the core.


def room_imports(modules):
    """The rooms of the core, and its single modules, that each of them imports when it runs.

    :param modules: the syntax trees by their paths in the core.
    """
    graph = {}
    for path, tree in modules.items():
        room = path.parts[0].removesuffix(".py")
        inside = {name.split(".")[1] for name in imports(tree, types=False) if top(name) == "crvnn_core"}
        graph.setdefault(room, set()).update(inside - {room})
    return graph


ROOMS = room_imports({path.relative_to(CORE): parsed(path) for path in MODULES if path.is_relative_to(CORE)})


def cycle(graph):
    """Rooms that import each other in a circle, by way of each other; none if there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_rooms_import_each_other_in_a_circle():
    assert set(LAYERS) < set(ROOMS)
    assert not cycle(ROOMS)


def test_imports_of_the_core_point_down():
    for room, below in ROOMS.items():
        if room in LAYERS:
            assert not below & {*LAYERS[: LAYERS.index(room)]}, room
        elif any(room in ROOMS[layer] for layer in LAYERS) and (CORE / f"{room}.py").exists():
            assert not below & {*LAYERS}, f"{room}, which rooms import"


def test_a_circle_is_found_unless_it_is_for_type_checking_alone():
    def rooms(source):
        return room_imports(
            {
                Path("upper/a.py"): ast.parse("from crvnn_core.middle.b import name"),
                Path("middle/b.py"): ast.parse("from crvnn_core import single"),
                Path("single.py"): ast.parse(source),
            }
        )

    late = "def late():\n    import crvnn_core.upper.a"
    assert set(cycle(rooms(late))) == {"upper", "middle", "single"}
    assert not cycle(rooms("if TYPE_CHECKING:\n    from crvnn_core.upper.a import name"))
