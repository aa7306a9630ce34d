"""Libraries of kernels: compiling, the cache, loading."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from crvnn_core import CrvnnError
from crvnn_core.engine.operations import ENGINE
from crvnn_core.errors import CrvnnWarning
from crvnn_core.kernels import Library, building, in_use
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.operations.library import PARTS
from twins import PLAIN


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache: the directory of its libraries, which does not exist yet."""
    monkeypatch.setenv("CRVNN_CACHE", str(tmp_path / "cache"))
    _forget()
    yield tmp_path / "cache" / "kernels"
    _forget()


def _forget():
    building.library_path.cache_clear()
    for library in (ENGINE, PARTS):
        library.forget()


def _left(cache):
    """The files in a cache."""
    return sorted(file.name for file in cache.iterdir())


def test_without_a_compiler_the_error_says_what_to_do(cache, monkeypatch):
    monkeypatch.setattr(building, "compiler", lambda: None)
    with pytest.raises(CrvnnError, match=r"no C\+\+ compiler.*CXX.*torch does the same"):
        PARTS.build()
    assert not cache.parent.exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("false", "could not be compiled"),
        ("no-such-compiler --anything", "could not be compiled"),
        ("  ", "could not be compiled|no command"),
        ("c++ 'unclosed", "no command"),
        (
            "sh -c 'echo ATen.h: it is not there >&2; exit 3'",
            "(?s)exit 3':\n-fopenmp: ATen.h: it is not there",
        ),
        (
            r"""sh -c 'printf "error: non trouv\351" >&2; exit 1'""",
            "error: non trouv\N{REPLACEMENT CHARACTER}",
        ),
    ],
)
def test_a_compiler_that_fails_leaves_no_files_and_the_error_has_its_message(
    cache, monkeypatch, command, message
):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(CrvnnError, match=message):
        PARTS.build()
    assert not cache.exists() or not _left(cache)


def test_a_library_that_cannot_be_loaded_does_not_replace_the_previous_one(cache, monkeypatch):
    monkeypatch.setenv("CXX", "true")  # compiles without complaint, to an empty file
    monkeypatch.setattr(building, "_try_to_load", lambda library: f"{library.stat().st_size} bytes")
    path = PARTS.path()
    path.parent.mkdir(parents=True)
    path.write_text("as it was")
    with pytest.raises(CrvnnError, match=r"(?s)could not be compiled with true:\n-fopenmp: 0 bytes"):
        PARTS.build()
    assert _left(cache) == [path.name]
    assert path.read_text() == "as it was"


def test_the_compiler_is_cxx_or_one_of_the_usual_names(monkeypatch):
    monkeypatch.setenv("CXX", "mine -v")
    assert building.compiler() == "mine -v"
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "clang++" else None)
    assert building.compiler() == "clang++"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert building.compiler() is None


def test_the_file_name_has_a_digest_of_sources_headers_and_torch(cache, monkeypatch, tmp_path):
    def path():
        building.library_path.cache_clear()
        return PARTS.path()

    first = path()
    assert first.parent == cache
    assert path() == first
    sources, include = tmp_path / "sources", tmp_path / "include"
    shutil.copytree(PARTS.sources, sources)
    shutil.copytree(building.INCLUDE, include)
    monkeypatch.setattr(Library, "sources", sources)
    monkeypatch.setattr(building, "INCLUDE", include)
    assert path() == first
    for file_ in (sources / "library.cpp", sources / "gated" / "gated.h", include / "crvnn" / "common.h"):
        before = path()
        with file_.open("a") as file:
            file.write("// changed\n")
        assert path() != before
    before = path()
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert path() != before


def test_without_a_built_library_operations_run_in_torch(cache):
    assert not in_use()
    GatedCell(3)(PLAIN, PLAIN)


def test_a_damaged_library_is_a_warning_and_torch_does_the_work(cache):
    cache.mkdir(parents=True)
    PARTS.path().write_bytes(b"\x7fELF" + b"\0" * 60)
    with pytest.warns(CrvnnWarning, match=r"crvnn_parts.operations are not used, .*'crvnn doctor --build'"):
        assert PARTS.load() is None
    GatedCell(3)(PLAIN, PLAIN)


def test_a_file_in_place_of_the_cache_is_an_error_for_builds_alone(tmp_path, cache):
    cache.parent.write_text("not a directory")
    assert PARTS.load() is None
    GatedCell(3)(PLAIN, PLAIN)
    with pytest.raises(CrvnnError, match=r"\.so cannot be written"):
        PARTS.build()


@pytest.mark.slow
def test_kernels_are_compiled_from_a_wheel_outside_of_the_clone(tmp_path):
    if building.compiler() is None:
        pytest.skip("there is no C++ compiler here")
    pytest.importorskip("hatchling", reason="builds the wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    own = {
        "PYTHONPATH": str(tmp_path / "installed"),
        "CRVNN_CACHE": str(tmp_path / "cache"),
        "CRVNN_NATIVE": "1",
    }
    command = [sys.executable, "-c", "from crvnn_core.cli import main; main()", "doctor", "--build", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    findings = [finding["text"] for finding in json.loads(done.stdout)["findings"]]
    assert len(findings) == 2
    assert all(": in use (" in text for text in findings)
    built = sorted(Path(text.partition("(")[2].rstrip(")")) for text in findings)
    left = _left(tmp_path / "cache" / "kernels")
    assert left == [path.name for path in built]  # and nothing else is left
    headers = {path.name for path in (tmp_path / "installed").rglob("*.h")}
    assert {"common.h", "gated.h", "joins.h"} <= headers


@pytest.mark.slow
def test_a_built_library_can_be_loaded_and_used(cache):
    if building.compiler() is None:
        pytest.skip("there is no C++ compiler here")
    path = PARTS.build()
    assert _left(cache) == [path.name]
    code = (
        "import torch; from crvnn_parts.operations.library import PARTS; from crvnn_parts.cells.gated import GatedCell;"
        "assert PARTS.load() is not None;"
        "cell, child = GatedCell(3), torch.randn(2, 3);"
        "torch.testing.assert_close(cell(child, child), cell.layer_by_layer(child, child))"
    )
    environment = os.environ | {"CRVNN_CACHE": str(cache.parent), "CRVNN_NATIVE": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
