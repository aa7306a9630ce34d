"""Dependencies are locked, their licences listed; wheel and sdist are reproducible and need no source tree."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def made():
    """The module that writes the lock file and the list of licences."""
    spec = spec_from_file_location("make_dependencies", ROOT / "docs" / "make_dependencies.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(name):
    """The versions that a file of pip pins."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ")[0].split("==") for line in lines if "==" in line and not line.startswith("#"))


def test_every_dependency_is_locked_and_its_licence_listed(made):
    locked = pins("requirements.lock")
    listed = dict(re.findall(r"^\| (\S+) \| (\S+) \|", made.PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    del listed["package"], listed["---"]
    assert listed == {**locked, "torch": pins("constraints.txt")["torch"]}
    installed = made.dependencies(made.EXTRAS)
    assert {"torch", "numpy", "pytest"} <= set(installed)
    assert set(installed) <= set(listed), "'make lock' writes requirements.lock anew"


def test_every_locked_file_has_a_hash():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    files = [line for line in lines if not line.startswith("#")]
    assert len(files) > 50
    assert not [line for line in files if not re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line)]


def test_licences_are_those_that_the_packages_state(made):
    page = made.PAGE.read_text(encoding="utf-8")
    for name, package in made.dependencies(made.EXTRAS).items():
        row = re.search(rf"^\| {re.escape(name)} \| (.+) \| (.+) \|$", page, re.MULTILINE)
        assert row is not None, name
        if row[1] == made._version(package):
            assert row[2] == made.licence(package), name
    assert "not stated" not in page


def test_the_lock_pins_what_the_constraints_pin():
    locked = pins("requirements.lock")
    assert "torch" not in locked
    assert all(locked.get(name, version) == version for name, version in pins("constraints.txt").items())


def build(source, out):
    """Build sdist and wheel of a source tree; their bytes by name."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def copy_of_the_source(path):
    """What an sdist has, unpacked into another directory, with other modes and times."""
    with tarfile.open(next(path.parent.glob("first/*.tar.gz"))) as archive:
        archive.extractall(path, filter="data")
    (tree,) = path.iterdir()
    for file in tree.rglob("*"):
        os.utime(file, (0, 1_500_000_000))
        file.chmod(0o700 if file.is_dir() else 0o600)
    return tree


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A directory with ``first``, which has sdist and wheel of this source tree."""
    path = tmp_path_factory.mktemp("dist")
    build(ROOT, path / "first")
    return path


@pytest.mark.slow
def test_two_builds_have_the_same_bytes(built):
    first = {path.name: path.read_bytes() for path in (built / "first").iterdir()}
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]
    assert build(ROOT, built / "second") == first
    assert build(copy_of_the_source(built / "copy"), built / "third") == first


def empty_environment(directory):
    """A virtual environment that has the dependencies of crvnn, by links, but neither crvnn nor its source tree."""
    venv.EnvBuilder(symlinks=True).create(directory / "venv")
    links = directory / "dependencies"
    links.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.search(r"crvnn|\.pth$", entry.name):
            (links / entry.name).symlink_to(entry)
    paths = {"base": str(directory / "venv"), "platbase": str(directory / "venv")}
    Path(sysconfig.get_path("purelib", vars=paths), "dependencies.pth").write_text(f"{links}\n")
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "CRVNN"))
    }
    programs = Path(sysconfig.get_path("scripts", vars=paths))
    return programs, {**kept, "PATH": f"{programs}{os.pathsep}/usr/bin:/bin", "PIP_CONFIG_FILE": os.devnull}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="makes links")
def test_the_wheel_works_where_there_is_no_source_tree(built, tmp_path):
    programs, environment = empty_environment(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(*command):
        done = subprocess.run(
            list(map(str, command)),
            cwd=elsewhere,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (wheel,) = (built / "first").glob("*.whl")
    shutil.copy(wheel, elsewhere)
    python = programs / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel.name)
    names = "crvnn, crvnn_core, crvnn_parts, crvnn_tasks, crvnn_explorer, crvnn_report"
    found = run(
        python, "-c", f"import sys, {names}; print(*sys.path, *(m.__file__ for m in ({names})), sep='\\n')"
    )
    assert str(ROOT) not in found.replace(str(Path(sysconfig.get_path("purelib"))), "")
    assert found.count(str(tmp_path / "venv")) >= 6
    assert "crvnn" in run(programs / "crvnn", "doctor")
    assert "9" in run(programs / "crvnn", "predict", "listops", "[MAX 2 9 ]")
