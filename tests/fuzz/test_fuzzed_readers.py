"""Fuzzing of what reads specs, data, vectors and trees: no input gives anything but a result or one clear error."""

import contextlib
import gzip
import io
import json
import zipfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crvnn_core import Tree
from crvnn_core.files import open_text
from crvnn_core.spec import read_spec
from crvnn_parts.embeddings import read_vectors
from crvnn_tasks.from_file.task import FromFile
from crvnn_tasks.labelled import split_tokens
from crvnn_tasks.listops.task import ListOps
from crvnn_tasks.logic.task import Logic
from crvnn_tasks.nli import Mnli, Snli
from crvnn_tasks.rows import json_lines
from crvnn_tasks.sst import Sst2, Sst5, read_tree
from fuzzing import contents, damaged, many, only_our_errors, texts, trees_of_values

pytestmark = pytest.mark.fuzz

_KEYS = [
    "seed",
    "task",
    "model",
    "training",
    "stages",
    "preset",
    "extends",
    "width",
    "cell",
    "encoder",
    "name",
    "start",
]
_lines = st.lists(
    st.tuples(
        st.sampled_from(["", "model.", "model.encoder.", "training.", "training.optimizer.", "stages."]),
        st.sampled_from(_KEYS) | st.text('ab_-." ', max_size=4),
        st.one_of(texts, st.integers().map(str), st.floats().map(str), texts.map(json.dumps)),
    ).map(lambda parts: f"{parts[0]}{parts[1]} = {parts[2]}"),
    max_size=6,
).map("\n".join)


@many(4)
@given(source=st.one_of(contents, _lines.map(lambda text: text.encode("utf-8", "surrogatepass"))))
@example(source=b'extends = "spec.toml"')
@example(source=b"[a" + b" " * 20_000 + b"]")
def test_specs(place, catalog, source):
    path = place / "spec.toml"
    path.write_bytes(source)
    only_our_errors(place, read_spec, catalog, path)


@many(4)
@given(sets=st.lists(st.one_of(texts, _lines), min_size=1, max_size=3))
def test_settings_of_the_command_line(place, catalog, sets):
    only_our_errors(place, lambda: read_spec(catalog, sets=sets))


_ROWS = st.lists(
    st.one_of(
        trees_of_values(["text", "label", "sentence1", "sentence2", "gold_label"]).map(json.dumps),
        st.fixed_dictionaries({"text": texts, "label": texts}).map(json.dumps),
        st.fixed_dictionaries({"sentence1": texts, "sentence2": texts, "gold_label": st.just("neutral")}).map(
            json.dumps
        ),
        st.tuples(texts, texts).map("\t".join),
        st.tuples(st.sampled_from("0123456789=<>^|v#"), texts, texts).map("\t".join),
        st.tuples(texts, texts).map(",".join),
        texts.map(lambda text: f"(3 (2 {text}) (1 b))"),
    ),
    max_size=5,
).map(lambda rows: "\n".join(rows).encode("utf-8", "surrogatepass"))
_FILES = st.one_of(
    _ROWS,
    _ROWS.map(lambda rows: b"text,label\n" + rows),
    _ROWS.map(lambda rows: b"text\tlabel\n" + rows),
    contents,
)

_TASKS = {
    "listops": lambda path: ListOps(str(path.parent)),
    "logic": lambda path: Logic(str(path.parent)),
    "sst2": lambda path: Sst2(str(path.parent)),
    "sst5": lambda path: Sst5(str(path.parent)),
    "snli": lambda path: Snli(str(path.parent)),
    "mnli": lambda path: Mnli(str(path.parent)),
    "csv": lambda path: FromFile(str(path), format="csv"),
    "tsv": lambda path: FromFile(str(path), format="tsv"),
    "jsonl": lambda path: FromFile(str(path), format="jsonl"),
}


@pytest.mark.parametrize("name", _TASKS)
@many()
@given(content=_FILES)
def test_files_of_a_task(place, name, content):
    path = place / "rows.txt"
    path.write_bytes(content)
    task = _TASKS[name](path)
    only_our_errors(place, task.parse, path)
    only_our_errors(place, lambda: list(task.inputs(path) or ()))
    only_our_errors(place, lambda: list(task.read(path)))


@many()
@given(content=_FILES)
def test_json_lines(place, content):
    path = place / "rows.jsonl"
    path.write_bytes(content)
    only_our_errors(place, json_lines, path)


@many()
@given(text=texts)
def test_tokens(place, text):
    for kind in ("words", "spaces", "characters"):
        only_our_errors(place, split_tokens, text, kind, True)
    only_our_errors(place, ListOps().tokenize, text)
    only_our_errors(place, Logic().tokenize, text)
    sentiment = Sst5("nowhere")
    sentiment.vocabulary = ("good",)
    only_our_errors(place, sentiment.tokenize, text)


def _zip(method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a.txt", "some text\n" * 100)
    return file.getvalue()


_PACKED = {
    "a.gz": gzip.compress(b"some text\n" * 100),
    "deflated.zip": _zip(zipfile.ZIP_DEFLATED),
    "stored.zip": _zip(zipfile.ZIP_STORED),
    "lzma.zip": _zip(zipfile.ZIP_LZMA),
    "bzip2.zip": _zip(zipfile.ZIP_BZIP2),
}


@pytest.mark.parametrize("name", _PACKED)
@many(2)
@given(data=st.data())
def test_compressed_files(place, name, data):
    path = place / name
    path.write_bytes(data.draw(damaged(_PACKED[name])))

    def read():
        with open_text(path) as file:
            return list(file)

    only_our_errors(place, read)


@many()
@given(
    content=st.one_of(
        contents,
        st.lists(st.tuples(texts, texts, texts).map(" ".join), max_size=4).map(
            lambda lines: "\n".join(["2 2", *lines]).encode("utf-8", "surrogatepass")
        ),
        st.lists(
            st.lists(st.floats().map(str), max_size=3).map(lambda row: " ".join(["a", *row])), max_size=4
        ).map(lambda lines: "\n".join(lines).encode()),
    ),
    more=st.integers(0, 3),
)
def test_vectors(place, content, more):
    path = place / "vectors.txt"
    path.write_bytes(content)
    only_our_errors(place, read_vectors, path, {"a", "the"}, more)


@pytest.mark.parametrize("form", ["brackets", "nltk", "json"])
@many()
@given(
    text=st.one_of(
        texts,
        st.lists(st.sampled_from(["(", ")", "a", " ", "X", "\\", "-LRB-", "\\u{41}", "\n"]), max_size=30).map(
            "".join
        ),
        trees_of_values(["tokens", "nodes", "start", "split", "end", "step", "chance"]).map(json.dumps),
        st.fixed_dictionaries(
            {"tokens": st.lists(st.text(max_size=3), max_size=3), "nodes": trees_of_values(["start"])}
        ).map(json.dumps),
    )
)
def test_trees(place, form, text):
    only_our_errors(place, Tree.read, text, form)


@many()
@given(
    line=st.one_of(
        texts, st.lists(st.sampled_from(["(", ")", "3", "2", "a", " ", "(2 a)"]), max_size=30).map("".join)
    )
)
def test_labelled_trees(line):
    with contextlib.suppress(ValueError):
        read_tree(line)
