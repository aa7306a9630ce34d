"""New packages: whole, passing their contract, and installable; and the wheel of crvnn itself."""

import importlib
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from crvnn_core import SLOTS, CrvnnError, create_plugin_manager, read_catalog
from crvnn_core.host.scaffold import create_package
from crvnn_core.spec.description import describe
from crvnn_core.testing import CHECKS, run_checks
from venvs import throwaway_venv

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def load_package(monkeypatch):
    """Imports a generated package as if it were installed, and forgets it afterwards."""
    names = []

    def load(target, package):
        monkeypatch.syspath_prepend(target)
        names.append(package)
        return importlib.import_module(package)

    yield load
    for module in list(sys.modules):
        if module.partition(".")[0] in names:
            del sys.modules[module]


def files_in(directory):
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def test_a_package_has_its_metadata_its_hook_its_component_and_a_test(tmp_path):
    written = create_package("cell", "demo-cell", tmp_path / "demo-cell")
    assert written == [
        "pyproject.toml",
        "README.md",
        "demo_cell/__init__.py",
        "demo_cell/cell.py",
        "tests/test_demo_cell.py",
    ]
    assert files_in(tmp_path / "demo-cell") == set(written)
    project = tomllib.loads((tmp_path / "demo-cell" / "pyproject.toml").read_text())["project"]
    assert project["name"] == "demo-cell"
    assert project["entry-points"]["crvnn"] == {"demo-cell": "demo_cell"}


@pytest.mark.parametrize(
    ("slot", "name"),
    [
        *((slot, f"demo-{slot}") for slot in SLOTS),
        ("task", "example"),
        ("cell", "cell"),
    ],  # names in the template
)
def test_a_new_package_keeps_every_promise_of_its_slot_and_is_explained(slot, name, tmp_path, load_package):
    create_package(slot, name, tmp_path / "demo")
    plugin = load_package(tmp_path / "demo", name.replace("-", "_"))
    catalog = read_catalog(create_plugin_manager(plugin, entry_points=False))
    offer = catalog.find(slot, name)
    assert [o.reason for o in run_checks(offer.component, CHECKS[slot]) if not o.kept] == []
    facts = describe(catalog, slot, name)
    assert facts["text"]
    assert all(parameter["text"] for parameter in facts["parameters"])


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (
            ["", "My-Cell", "my_cell", "my cell", "2cells", "-a", "a-", "../up", "a/b", "é"],
            "is not a component's name",
        ),
        (["crvnn", "crvnn-core", "crvnn-mine"], "are crvnn's own"),
        (["json", "torch", "tests"], "which exists already; choose another name"),
        (["lambda"], "cannot name a package"),
    ],
)
def test_a_bad_name_is_refused(names, reason, tmp_path):
    for name in names:
        with pytest.raises(CrvnnError, match=reason):
            create_package("cell", name, tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("precious")
    for place, reason in (
        ("mine", "exists already and is not an empty directory; nothing was written"),
        ("mine/work.txt", "exists already"),
        ("mine/work.txt/deeper", "cannot be written"),
    ):
        with pytest.raises(CrvnnError, match=reason):
            create_package("cell", "demo-cell", tmp_path / place)
    assert files_in(tmp_path) == {"mine/work.txt"}
    assert (tmp_path / "mine" / "work.txt").read_text() == "precious"


def test_an_empty_directory_is_filled_even_when_one_is_in_it(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    written = create_package("cell", "demo-cell", Path("."))
    assert files_in(Path(".")) == set(written)


def test_a_new_package_installs_is_assembled_and_passes_its_tests(tmp_path, commands):
    env = throwaway_venv(tmp_path / "venv", commands)
    create_package("cell", "demo-cell", tmp_path / "demo-cell")

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("pip", "install", "-e", "demo-cell")
    table = run("crvnn", "assemble", "--cell", "demo-cell")
    assert any(line.split()[:4] == ["cell", "demo-cell", "demo-cell", "0.1.0"] for line in table.splitlines())
    tested = run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "demo-cell")
    assert f"{len(CHECKS['cell']) + 1} passed" in tested
    # It stayed in its own place:
    assert "demo-cell" not in read_catalog(create_plugin_manager()).components["cell"]


def test_the_wheel_holds_everything_and_nothing_else(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        points = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    plugins = {path.name: f"plugins/{path.name}" for path in (REPOSITORY / "plugins").glob("crvnn_*")}
    sources = {"crvnn": "crvnn", "crvnn_core": "crvnn_core", **plugins, "crvnn_tasks": "tasks/crvnn_tasks"}
    for package, place in sources.items():
        here = REPOSITORY / place
        wanted = {
            f"{package}/{path}" for path in files_in(here) if path.endswith((".py", ".tmpl", "py.typed"))
        }
        assert f"{package}/py.typed" in wanted
        assert wanted <= names
    for slot in SLOTS:
        assert f"crvnn_core/host/scaffold/templates/slots/{slot}.py.tmpl" in names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(sources)
    for package in {*sources} - {"crvnn", "crvnn_core"}:
        assert f"\n{package.replace('_', '-')} = {package}\n" in points
    assert "crvnn = crvnn_core.cli:main" in points
