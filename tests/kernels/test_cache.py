"""The directory of compiled libraries: nothing is loaded that others could have written or that is damaged."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys

import pytest
import torch

from crvnn_core import CrvnnError
from crvnn_core.engine.operations import ENGINE
from crvnn_core.errors import CrvnnWarning
from crvnn_core.kernels import building, in_use
from crvnn_core.kernels import cache as libraries
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.operations.library import PARTS
from twins import PLAIN

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A library in a cache of its own, as a build leaves it."""
    monkeypatch.setenv("CRVNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "mine")
    monkeypatch.setattr(
        building, "_compile", lambda command, sources, target: target.write_text("code") and ""
    )
    monkeypatch.setattr(building, "_try_to_load", lambda path: "")
    _forget()
    yield PARTS.build()
    _forget()


def _forget():
    building.library_path.cache_clear()
    for each in (ENGINE, PARTS):
        each.forget()


@pytest.fixture
def loaded(monkeypatch):
    """The paths of the libraries that were loaded."""
    found = []
    monkeypatch.setattr(torch.ops, "load_library", found.append)
    monkeypatch.setattr("crvnn_core.kernels.library.Operators", lambda name: name)
    return found


def refused(match):
    """A context in which the kernels are refused, with a warning, and torch does the work."""
    return pytest.warns(CrvnnWarning, match=rf"(?s)are not used, so torch does the work: .*{match}.*--build")


def test_a_library_as_it_was_built_is_loaded(library, loaded):
    assert libraries.problem(library) == ""
    assert PARTS.load() == PARTS.name
    assert loaded == [str(library)]


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_a_build_makes_directory_and_files_that_only_the_user_can_write(tmp_path, library, umask):
    shutil.rmtree(library.parent)
    before = os.umask(umask)
    try:
        assert PARTS.build() == library
    finally:
        os.umask(before)
    assert stat.S_IMODE(library.parent.stat().st_mode) == 0o700
    assert libraries.problem(library) == ""


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_nothing_is_loaded_from_a_directory_that_others_can_write(library, loaded, mode):
    library.parent.chmod(mode)
    with refused(rf"others can write to .*kernels \(mode {mode:o}\): run 'chmod go-w"):
        assert PARTS.load() is None
    assert loaded == []
    with pytest.raises(CrvnnError, match=r"others can write to .*CRVNN_CACHE"):
        PARTS.build()


@pytest.mark.parametrize("what", ["directory", "file"])
def test_nothing_of_another_user_is_loaded(library, loaded, monkeypatch, what):
    if os.getuid() == 0:
        os.chown(library.parent if what == "directory" else library, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with refused("belongs to another user"):
        assert PARTS.load() is None
    assert loaded == []


def test_a_file_that_others_can_write_is_refused_and_built_anew(library, loaded):
    library.chmod(0o766)
    with refused(r"others can write to .*\.so"):
        assert PARTS.load() is None
    assert loaded == []
    PARTS.build()
    assert libraries.problem(library) == ""


def test_a_symbolic_link_is_refused_and_its_target_left_alone(library, loaded, tmp_path):
    target = library.rename(tmp_path / "elsewhere.so")
    target.write_text("as it was")
    library.symlink_to(target)
    with refused("symbolic link"):
        assert PARTS.load() is None
    assert loaded == []
    PARTS.build()
    assert libraries.problem(library) == ""
    assert target.read_text() == "as it was"


@pytest.mark.parametrize(
    ("content", "match"), [(b"", "damaged"), (b"cod", "damaged"), (b"cofe", "damaged"), (None, "missing")]
)
def test_a_damaged_library_is_not_loaded_and_is_built_anew(library, loaded, content, match):
    if content is None:
        libraries.checksum_file(library).unlink()
    else:
        library.write_bytes(content)
    with refused(match):
        assert PARTS.load() is None
    assert loaded == []
    assert not in_use()
    GatedCell(3)(PLAIN, PLAIN)
    PARTS.build()
    assert PARTS.load() == PARTS.name


@pytest.mark.parametrize("content", [b"", b"\xff\xfe no checksum", b"0" * 64])
def test_a_damaged_checksum_refuses_the_library(library, loaded, content):
    libraries.checksum_file(library).write_bytes(content)
    with refused("damaged"):
        assert PARTS.load() is None
    assert loaded == []


def test_a_library_can_be_loaded_at_every_moment_of_another_build_of_it(library, monkeypatch):
    problems, replaced = [], []
    monkeypatch.setattr(  # as compilers do for sources in another directory
        building, "_compile", lambda command, sources, target: target.write_text("other code") and ""
    )
    write, replace = libraries.write_atomically, type(library).replace

    def looked_at(function):
        def call(path, *rest):
            problems.append(libraries.problem(library))
            found = function(path, *rest)
            problems.append(libraries.problem(library))
            replaced.append(path)
            return found

        return call

    monkeypatch.setattr(libraries, "write_atomically", looked_at(write))
    monkeypatch.setattr(type(library), "replace", looked_at(replace))
    PARTS.build()
    assert library.read_text() == "other code"
    assert len(replaced) >= 3  # a checksum, the library, a checksum
    assert set(problems) == {""}


def test_a_library_that_is_replaced_while_its_checksum_is_looked_at_is_not_called_damaged(
    library, monkeypatch
):
    digest = libraries.sha256_of

    def replaced_before(path):
        monkeypatch.setattr(libraries, "sha256_of", digest)
        library.write_text("other code")
        libraries.write_checksum(library)
        return digest(path)

    monkeypatch.setattr(libraries, "sha256_of", replaced_before)
    assert libraries.problem(library) == ""


def test_a_build_does_not_vouch_for_a_damaged_library_that_it_replaces(library, tmp_path):
    library.write_text("damaged")
    new = tmp_path / "new.so"
    new.write_text("other code")
    libraries.add_checksum(library, new)
    assert "is damaged" in libraries.problem(library)
    new.replace(library)
    library.chmod(0o700)
    assert libraries.problem(library) == ""


def test_a_build_that_was_killed_before_the_checksum_is_done_again_by_one_that_waited(library, monkeypatch):
    libraries.checksum_file(library).unlink()
    library.write_text("half")
    monkeypatch.setattr(building, "_building_alone", lambda *_: contextlib.nullcontext(True))
    PARTS.build()
    assert library.read_text() == "code"
    assert libraries.problem(library) == ""


def test_a_file_in_place_of_the_cache_is_an_error_for_builds_alone(tmp_path, monkeypatch, library):
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("CRVNN_CACHE", str(tmp_path / "file"))
    _forget()
    assert PARTS.load() is None
    GatedCell(3)(PLAIN, PLAIN)
    with pytest.raises(CrvnnError, match="kernels cannot be written"):
        PARTS.build()


def test_without_a_home_directory_everything_works_without_kernels(monkeypatch, library):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(libraries, "cache_directory", no_home)
    _forget()
    assert PARTS.load() is None
    with pytest.raises(CrvnnError, match=r"Could not determine home directory\. Name one in CRVNN_CACHE"):
        PARTS.build()


def test_a_truncated_library_does_not_kill_the_command(library):
    library.write_bytes(b"\x7fELF" + b"\0" * 60)
    code = "from crvnn_core.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "doctor"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "crvnn: warning: the kernels of crvnn_parts.operations are not used" in done.stderr
    assert "crvnn_parts.operations: not compiled" in done.stdout
