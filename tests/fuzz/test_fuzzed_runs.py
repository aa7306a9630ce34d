"""Fuzzing of run directories and of the command line: no traceback, no code run, nothing written elsewhere."""

import io
import json
import os
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import CrvnnError
from crvnn_core.cli import main
from crvnn_core.files import open_text
from crvnn_core.inference.trained import load
from crvnn_core.runs.archive import unpack
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training.run import read_results
from fuzzing import contents, damaged, many, only_our_errors, texts, trees_of_values, watched
from small import PLUGIN

pytestmark = pytest.mark.fuzz


@pytest.fixture(scope="module")
def damaged_run(place, letters_run):
    """A copy of a run whose files are damaged, one at a time."""
    copy = place / "run"
    shutil.copytree(letters_run, copy)
    return copy


@pytest.fixture(scope="module")
def working_directory(tmp_path_factory):
    """An empty working directory."""
    before, directory = Path.cwd(), tmp_path_factory.mktemp("work")
    os.chdir(directory)
    yield directory
    os.chdir(before)


_KINDS = st.sampled_from(["dict", "list", "tuple", "tensor", "set", ""])
_STRUCTURES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KINDS, inner, max_size=2),
    max_leaves=10,
)


@many()
@given(structure=st.one_of(_STRUCTURES.map(json.dumps), trees_of_values(["dict", "tensor"]).map(json.dumps)))
def test_weights_of_any_structure(place, structure):
    metadata = {"structure": structure, "crc32": f"{zlib.crc32(structure.encode()):08x}"}
    header = json.dumps({"__metadata__": metadata}).encode()
    path = place / "any.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    only_our_errors(place, checkpoint.load, path)


@many()
@given(data=st.data())
def test_damaged_weights(place, letters_run, data):
    path = place / "weights.safetensors"
    path.write_bytes(data.draw(damaged((letters_run / "weights.safetensors").read_bytes())))
    only_our_errors(place, checkpoint.load, path)


@pytest.mark.parametrize("name", ["vocabulary.json", "results.json", "spec.toml", "weights.safetensors"])
@many(20)
@given(data=st.data())
def test_damaged_runs(damaged_run, letters_run, small_catalog, name, data):
    whole = (letters_run / name).read_bytes()
    keys = ["tokens", "classes", "vector_size", "splits", "total", "buckets"]
    others = trees_of_values(keys).map(json.dumps).map(str.encode)
    (damaged_run / name).write_bytes(data.draw(st.one_of(damaged(whole), others, contents)))
    try:
        only_our_errors(damaged_run, load, damaged_run, small_catalog)
    finally:
        (damaged_run / name).write_bytes(whole)


@many()
@given(
    content=st.one_of(
        contents, trees_of_values(["tokens", "classes", "vector_size"]).map(json.dumps).map(str.encode)
    )
)
def test_vocabularies(place, content):
    run = RunDirectory(place)
    run.vocabulary.write_bytes(content)
    only_our_errors(place, run.read_vocabulary)


@many()
@given(
    content=st.one_of(
        contents, trees_of_values(["splits", "total", "buckets", "accuracy"]).map(json.dumps).map(str.encode)
    )
)
def test_results(place, content):
    run = RunDirectory(place)
    run.results.write_bytes(content)
    only_our_errors(place, read_results, run)


_NAMES = st.one_of(
    st.sampled_from(
        ["spec.toml", "../x", "/tmp/x", "a/../../x", "a\\..\\x", "C:x", "run/spec.toml", "run/a/b"]
    ),
    st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable()),
)


@many(4)
@given(names=st.lists(_NAMES, max_size=4, unique=True), data=st.data())
def test_archives_of_runs(place, names, data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "content")
    path, target = place / "run.zip", place / "unpacked"
    path.write_bytes(data.draw(st.one_of(st.just(file.getvalue()), damaged(file.getvalue()))))
    only_our_errors(place, unpack, path, "run.zip", target)
    shutil.rmtree(target, ignore_errors=True)


def test_an_archive_that_is_damaged_within_a_file_leaves_nothing(tmp_path):
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("spec.toml", "content")
    path.write_bytes(path.read_bytes().replace(b"content", b"CONTENT"))
    only_our_errors(tmp_path, unpack, path, "run.zip", tmp_path / "unpacked")
    assert list(tmp_path.iterdir()) == [path]


def test_an_archive_with_a_name_that_is_no_utf8_is_refused(tmp_path):
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é/spec.toml", "content")
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff"))
    with pytest.raises(CrvnnError, match=r"run\.zip: this is not a zip file, or it is damaged"):
        unpack(path, "run.zip", tmp_path / "unpacked")
    with pytest.raises(CrvnnError, match=r"run\.zip"), open_text(path) as file:
        list(file)


_COMMANDS = ["assemble", "list", "predict", "compare", "eval", "trees", "check"]
_OPTIONS = [
    "--set",
    "--json",
    "--cell",
    "--file",
    "--out",
    "--split",
    "--hard",
    "--trees",
    "--format",
    "--data",
    "--help",
    "--seed",
    "-h",
]
_ARGUMENTS = st.one_of(
    st.sampled_from(
        ["letters", "listops", "reference", "model.width=8", "seed=1", "cell", "gru", "-", ".", "a b"]
    ),
    texts.filter(lambda text: "\0" not in text),
)


@many(10)
@given(
    command=st.sampled_from(_COMMANDS) | texts.filter(lambda text: "\0" not in text),
    rest=st.lists(st.sampled_from(_OPTIONS) | _ARGUMENTS, max_size=4),
)
def test_the_command_line(working_directory, command, rest):
    with watched(working_directory):
        result = CliRunner().invoke(main, [command, *rest], prog_name="crvnn", input="a b\n")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2)
    assert result.exit_code == 0 or result.stderr


@many(10)
@given(lines=st.lists(texts, max_size=4).map("\n".join))
def test_texts_to_predict(place, letters_run, lines):
    path = place / "texts.txt"
    path.write_bytes(lines.encode("utf-8", "surrogatepass"))
    with watched(place):
        args = ["predict", letters_run, "--file", path, "--skip-bad-rows", "--json", "--plugin", PLUGIN]
        result = CliRunner().invoke(main, list(map(str, args)), prog_name="crvnn")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == 0:
        json.loads(result.stdout, parse_constant=pytest.fail)
