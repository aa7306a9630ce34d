"""Propositional inference from published files and from the user's."""

import gzip
import re
from collections import Counter
from itertools import islice

import pytest

from crvnn_core import Component, CrvnnError, Example, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_tasks.logic.language import RELATIONS, operations, pairs
from crvnn_tasks.logic.task import Logic
from logic_reference import PATTERNS


def publish(directory, kind, number, count=40, packed=False):
    """A file in the published form, and its rows."""
    found = islice(pairs(f"{kind} {number}", lambda pair: operations(pair) == number), count)
    rows = [f"{label}\t{' '.join(left)}\t{' '.join(right)}\n" for label, (left, right) in found]
    text = "".join(rows).encode()
    name = f"{kind}{number}.gz" if packed else f"{kind}{number}"
    (directory / name).write_bytes(gzip.compress(text) if packed else text)
    return rows


def published(directory, kind, numbers):
    """The rows of the files of a kind."""
    paths = [next(directory.glob(f"{kind}{number}*")) for number in numbers]
    texts = [gzip.decompress(p.read_bytes()) if p.suffix else p.read_bytes() for p in paths]
    return [row for text in texts for row in text.decode().splitlines(keepends=True)]


def as_rows(examples):
    return [
        f"{RELATIONS[e.label]}\t{' '.join(e.sequences[0])}\t{' '.join(e.sequences[1])}\n" for e in examples
    ]


@pytest.fixture
def directory(tmp_path):
    for number in range(13):
        publish(tmp_path, "train", number, count=30, packed=number % 2 == 1)
    for number in range(7, 13):
        publish(tmp_path, "test", number, count=20, packed=number % 2 == 0)
    return tmp_path


def test_published_files_are_read_whole(directory):
    task = Logic(str(directory))
    assert tuple(task.splits) == ("train", "dev", "test")
    found = {split: as_rows(task.examples(split, 0)) for split in task.splits}
    assert sorted(found["train"] + found["dev"]) == sorted(published(directory, "train", range(7)))
    assert 8 <= len(found["dev"]) <= 35
    assert found["test"] == published(directory, "test", range(7, 13))


def test_development_rows_do_not_depend_on_their_order(directory):
    before = set(as_rows(Logic(str(directory)).examples("dev", 0)))
    path = directory / "train4"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert set(as_rows(Logic(str(directory)).examples("dev", 0))) == before


def test_without_all_of_the_longer_files_there_is_no_test_split_of_lengths(directory):
    (directory / "test12.gz").unlink()
    assert tuple(Logic(str(directory)).splits) == ("train", "dev")
    assert tuple(Logic(str(directory), setting="C").splits) == ("train", "dev", "test")
    for path in directory.glob("test*"):
        path.unlink()
    task = Logic(str(directory))
    assert tuple(task.splits) == ("train", "dev")
    assert re.match(r".* has no test7\. It has train0, .*\n.*'crvnn data get logic", task.why_missing("test"))
    with pytest.raises(CrvnnError, match="has no test7"):
        next(task.examples("test", 0))


@pytest.mark.parametrize("setting", ["length", "A", "B", "C"])
def test_every_row_of_the_files_is_in_one_split(directory, setting):
    task = Logic(str(directory), setting=setting)
    rows = Counter((row.file.name, row.line) for split in task.splits for row in task.rows(split))
    assert set(rows.values()) == {1}
    assert len(rows) == 7 * 30 + (6 * 20 if setting == "length" else 0)
    for split in task.splits:
        assert [row.example for row in task.rows(split)] == list(task.examples(split, 0))


@pytest.mark.parametrize("setting", ["A", "B", "C"])
def test_rows_with_the_pattern_are_the_test_split(directory, setting):
    task = Logic(str(directory), setting=setting)
    for split in task.splits:
        rows = as_rows(task.examples(split, 0))
        assert rows
        assert {PATTERNS[setting](row) for row in rows} == {split == "test"}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("=\ta", "expected a relation and two sentences with tabs between them; found 2"),
        ("=\ta\ta\ta", "expected a relation and two sentences with tabs between them; found 4"),
        ("", "expected a relation and two sentences with tabs between them; the line is empty"),
        ("~\ta\ta", "'~' is no relation; the relations are = < > ^ | v #"),
        ("=\ta\t( not a", "')' is missing at the end: ( not a"),
        ("=\t( not a ) )\ta", "token 5, ')', closes nothing"),
        ("=\ta\t( not x )", "token 3, 'x', is unknown"),
        ("=\t\ta", "the sentence is empty"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path, line, fault):
    path = tmp_path / "mine"
    path.write_text(f"#\ta\tb\n{line}\n=\ta\ta\n")
    with pytest.raises(InputError) as caught:
        list(Logic().read(path))
    assert str(caught.value).startswith(f"{path}:2: {fault}")
    assert len(list(Logic(bad_rows="skip").read(path))) == 2


def test_the_relation_in_a_file_is_not_recomputed(tmp_path):
    (tmp_path / "mine").write_text("#\ta\ta\n")
    assert next(Logic().read(tmp_path / "mine")) == Example((("a",), ("a",)), RELATIONS.index("#"))


def test_the_contract_is_satisfied_with_files(directory):
    outcomes = run_checks(Component("logic", Logic, example={"directory": str(directory)}), CHECKS["task"])
    assert not [outcome for outcome in outcomes if not outcome.kept]
