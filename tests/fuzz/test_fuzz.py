"""Fuzzing of everything that reads: no input gives anything but a result or one clear error, and no side effect."""

import contextlib
import gzip
import io
import json
import os
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crvnn_core import CrvnnError
from crvnn_core.cli import main
from crvnn_core.files import open_text
from crvnn_core.inference.trained import load
from crvnn_core.runs.archive import unpack
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.spec import read_spec
from crvnn_core.training import checkpoint
from crvnn_core.training.run import read_results
from crvnn_parts.embeddings import read_vectors
from crvnn_tasks.from_file.task import FromFile
from crvnn_tasks.listops.task import ListOps
from crvnn_tasks.logic.task import Logic
from crvnn_tasks.nli import Mnli, Snli
from crvnn_tasks.rows import json_lines
from crvnn_tasks.sst import Sst2, Sst5
from crvnn_tasks.tokenization import split_tokens
from small import PLUGIN

pytestmark = pytest.mark.fuzz

#: For each test; ``make test-fuzz`` takes many more.
EXAMPLES = int(os.environ.get("CRVNN_FUZZ_EXAMPLES", "10"))
#: An example that takes longer counts as a hang.
LONGEST = timedelta(seconds=20)

PIECES = [
    *"()[]{}\"'\\/.,:;=#-_ \t\n\r\0",
    *("a", "b", "the", "0", "7", "1e30", "-1", "nan", "inf", "Infinity", "NaN", "null", "true", "None"),
    *("\ufeff", "\u0301", "\u202e", "\u2028", "\u00ad", "\ud800", "\U0001f600", "é", "²", "\x85"),
    *("../../etc/passwd", "/etc/passwd", "~root", "~x", "file:///etc/passwd", "C:\\x", "$HOME", "%s", "{0}"),
    *("1" * 5000, "9" * 400, "[" * 3000, "(" * 3000, "{" * 3000, " " * 3000, "n't" * 500, "a." * 300),
    *("-LRB-", "\\u{110000}", "\\ud83d", '\\"', '"""', "'''", "[MAX", "]", "( not", "( and", "(3", "(2 a)"),
    *(
        "__import__('os').system('x')",
        "!!python/object",
        "\x80\x04.",
        "[[stages]]",
        "[model]",
        "extends",
        "preset",
    ),
]
#: Texts of pieces that parsers stumble over, and of any characters.
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=8).map(" ".join),
)
ARGUMENTS = TEXTS.filter(lambda text: "\0" not in text)


def as_bytes(text):
    """The bytes of a text, halves of surrogate pairs included."""
    return text.encode("utf-8", "surrogatepass")


CONTENTS = TEXTS.map(as_bytes) | st.binary(max_size=200)


def values(*keys):
    """Values of any shape that JSON can have, with some of these keys."""
    plain = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.sampled_from(PIECES)
    names = st.sampled_from(keys) | st.text(max_size=5)
    return st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
        max_leaves=12,
    )


def documents(*keys):
    """JSON with some of these keys."""
    return values(*keys).map(json.dumps)


@st.composite
def damaged(draw, whole):
    """A file with some bytes changed, removed or added."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 50))
        data[place : place + removed] = draw(st.binary(max_size=8))
    return bytes(data)


def lines_of(*parts, between):
    """Lines of parts with something between them."""
    return st.lists(st.tuples(*parts).map(between.join), max_size=5).map("\n".join)


def zipped(names, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name in names:
            archive.writestr(name, "some text\n" * 100)
    return file.getvalue()


SETTINGS = lines_of(
    st.sampled_from(["", "model.", "model.encoder.", "training.optimizer.", "stages."]),
    st.sampled_from(
        ["seed", "task", "model", "stages", "preset", "extends", "width", "cell", "name", "start"]
    ),
    st.just(" = "),
    TEXTS | st.integers().map(str) | st.floats().map(str) | TEXTS.map(json.dumps),
    between="",
)
PAIRS = st.fixed_dictionaries({"sentence1": TEXTS, "sentence2": TEXTS, "gold_label": st.just("neutral")})
ROWS = st.one_of(
    st.lists(documents("text", "label", "sentence1", "sentence2", "gold_label"), max_size=5).map("\n".join),
    st.lists(st.fixed_dictionaries({"text": TEXTS, "label": TEXTS}).map(json.dumps)).map("\n".join),
    st.lists(PAIRS.map(json.dumps), max_size=5).map("\n".join),
    lines_of(st.sampled_from("0123456789=<>^|v#"), TEXTS, TEXTS, between="\t"),
    lines_of(TEXTS, TEXTS, between="\t").map("text\tlabel\n".__add__),
    lines_of(TEXTS, TEXTS, between=",").map("text,label\n".__add__),
    TEXTS.map(lambda text: f"(3 (2 {text}) (1 b))"),
).map(as_bytes)
ROWS_TASKS = {"listops": ListOps, "logic": Logic, "sst2": Sst2, "sst5": Sst5, "snli": Snli, "mnli": Mnli}
PACKED = {
    "a.gz": gzip.compress(b"some text\n" * 100),
    "deflated.zip": zipped(["a.txt"]),
    "lzma.zip": zipped(["a.txt"], zipfile.ZIP_LZMA),
    "bzip2.zip": zipped(["a.txt"], zipfile.ZIP_BZIP2),
}
STRUCTURES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dict", "list", "tuple", "tensor", "set", ""]), inner, max_size=2)
    ),
    max_leaves=10,
).map(json.dumps)
NAMES = st.lists(
    st.sampled_from(
        ["spec.toml", "../x", "/tmp/x", "a/../../x", "a\\..\\x", "C:x", "run/spec.toml", "run/a/b"]
    )
    | st.text(min_size=1, max_size=8).filter(str.isprintable),
    max_size=4,
    unique=True,
)


def read_rows(task, path):
    attempt(task.parse, path)
    attempt(lambda: list(task.inputs(path) or ()))
    return task.read(path)


def read_lines(path):
    with open_text(path) as file:
        return list(file)


def tokenize(text):
    for kind in ("words", "spaces", "characters"):
        attempt(split_tokens, text, kind, True)
    sentiment = Sst5("nowhere")
    sentiment.vocabulary = ("good",)
    for task in (ListOps(), Logic(), sentiment):
        attempt(task.tokenize, text)


def weights_of(structure):
    """A file of weights with this structure, and the checksum of it."""
    metadata = {"structure": structure, "crc32": f"{zlib.crc32(structure.encode()):08x}"}
    header = json.dumps({"__metadata__": metadata}).encode()
    return struct.pack("<Q", len(header)) + header


def unpack_run(path):
    target = path.with_name("unpacked")
    try:
        unpack(path, "run.zip", target)
    finally:
        shutil.rmtree(target, ignore_errors=True)


#: The name of a file, what may be in it, and what reads it.
FILES = {
    "rows.jsonl": (ROWS | CONTENTS, json_lines),
    "vectors.txt": (
        CONTENTS
        | lines_of(TEXTS, TEXTS, TEXTS, between=" ").map("2 2\n".__add__).map(as_bytes)
        | lines_of(st.just("a"), st.floats().map(str), st.floats().map(str), between=" ").map(as_bytes),
        lambda path: [read_vectors(path, {"a", "the"}, more) for more in (0, 2)],
    ),
    "any.safetensors": (
        (STRUCTURES | documents("dict", "tensor")).map(weights_of),
        checkpoint.load,
    ),
    "vocabulary.json": (
        CONTENTS | documents("tokens", "classes", "vector_size").map(as_bytes),
        lambda path: RunDirectory(path.parent).read_vocabulary(),
    ),
    "results.json": (
        CONTENTS | documents("splits", "total", "buckets", "accuracy").map(as_bytes),
        lambda path: read_results(RunDirectory(path.parent)),
    ),
    "run.zip": (NAMES.map(zipped) | damaged(zipped(["spec.toml", "run/a/b"])), unpack_run),
    **{
        f"rows.{name}": (ROWS | CONTENTS, lambda path, build=build: read_rows(build(str(path.parent)), path))
        for name, build in ROWS_TASKS.items()
    },
    **{
        f"table.{form}": (
            ROWS | CONTENTS,
            lambda path, form=form: read_rows(FromFile(str(path), format=form), path),
        )
        for form in ("csv", "tsv", "jsonl")
    },
    **{name: (damaged(whole), read_lines) for name, whole in PACKED.items()},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The working directory, where files may be written."""
    before, directory = Path.cwd(), tmp_path_factory.mktemp("fuzz")
    os.chdir(directory)
    yield directory
    os.chdir(before)


def fuzz(strategy, check, cost=1):
    """Check many values of a strategy; fewer if each takes long."""
    tried = settings(
        max_examples=max(5, EXAMPLES // cost),
        deadline=LONGEST,
        suppress_health_check=list(HealthCheck),
        derandomize=EXAMPLES < 100,
        database=None,
    )

    @tried
    @given(strategy)
    def examples(value):
        check(value)

    examples()


_RUNS_CODE = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "pickle.find_class",
    "socket.connect",
)
_watched: list[tuple[Path, list[str]]] = []


def _audit(event, args):
    if not _watched:
        return
    directory, found = _watched[-1]
    if event in _RUNS_CODE:
        found.append(f"{event} {args}")
    if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and isinstance(args[2], int):
        path = Path(os.fsdecode(args[0])).absolute()
        harmless = path == Path(os.devnull) or "__pycache__" in path.parts or path.is_relative_to(directory)
        if args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not harmless:
            found.append(f"{event} {path}")


@pytest.fixture(scope="module", autouse=True)
def audited():
    sys.addaudithook(_audit)


@contextlib.contextmanager
def watched(directory):
    """Fail if a program is started, something unpickled, a connection made, or a file written elsewhere."""
    found: list[str] = []
    _watched.append((directory, found))
    try:
        yield
    finally:
        _watched.pop()
    assert not found, found


def attempt(work, *args):
    """Call a function, which may raise a ``CrvnnError`` with a message, and nothing else."""
    message = "none"
    try:
        found = work(*args)
        for _ in found if isinstance(found, Iterator) else ():
            pass
    except CrvnnError as error:
        message = str(error)
    assert 0 < len(message) < 100_000


def called(directory, *args):
    """The result of a command, which may fail with a message."""
    with watched(directory):
        result = CliRunner().invoke(main, list(map(str, args)), prog_name="crvnn", input="a b\n")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2)
    assert result.exit_code == 0 or result.stderr
    return result


@pytest.mark.parametrize("name", FILES)
def test_files(place, name):
    contents, read = FILES[name]

    def check(content):
        (place / name).write_bytes(content)
        with watched(place):
            attempt(read, place / name)

    fuzz(contents, check)


def test_texts(place):
    def check(text):
        with watched(place):
            tokenize(text)

    fuzz(TEXTS, check)


def test_specs(place, catalog):
    path = place / "spec.toml"

    def check(source):
        path.write_bytes(source)
        with watched(place):
            attempt(read_spec, catalog, path)

    fuzz(CONTENTS | SETTINGS.map(as_bytes), check, cost=4)


def test_settings_of_the_command_line(place, catalog):
    def check(sets):
        with watched(place):
            attempt(lambda: read_spec(catalog, sets=sets))

    fuzz(st.lists(TEXTS | SETTINGS, min_size=1, max_size=3), check, cost=4)


@pytest.mark.parametrize("name", ["vocabulary.json", "spec.toml", "weights.safetensors"])
def test_damaged_runs(place, letters_run, small_catalog, name):
    run = place / name.replace(".", "-")
    shutil.copytree(letters_run, run)

    def check(content):
        (run / name).write_bytes(content)
        with watched(run):
            attempt(load, run, small_catalog)

    documented = documents("tokens", "classes", "vector_size").map(as_bytes)
    fuzz(damaged((letters_run / name).read_bytes()) | documented | CONTENTS, check, cost=20)


def test_the_command_line(place):
    commands = st.sampled_from(["assemble", "list", "predict", "compare", "eval", "trees", "check"])
    options = ["--set", "--json", "--cell", "--file", "--out", "--split", "--hard", "--data", "--help", "-h"]
    values = ["letters", "reference", "model.width=8", "cell", "gru", "-", ".", "a b"]
    arguments = st.sampled_from([*options, *values]) | ARGUMENTS
    calls = st.tuples(commands | ARGUMENTS, st.lists(arguments, max_size=4))
    fuzz(calls, lambda call: called(place, call[0], *call[1]), cost=10)


def test_texts_to_predict(place, letters_run):
    path = place / "texts.txt"

    def check(lines):
        path.write_bytes(as_bytes("\n".join(lines)))
        args = ["predict", letters_run, "--file", path, "--skip-bad-rows", "--json", "--plugin", PLUGIN]
        result = called(place, *args)
        if result.exit_code == 0:
            json.loads(result.stdout, parse_constant=pytest.fail)

    fuzz(st.lists(TEXTS, max_size=4), check, cost=10)
