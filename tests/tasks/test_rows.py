"""Tasks whose examples stand in files."""

import gzip
import json
import re

import pytest

from crvnn_core import CrvnnError, Example, InputError, UnknownNameError
from crvnn_core.files import open_text
from crvnn_tasks.rows import FileTask, Row, json_lines, text_of
from crvnn_tasks.tokenization import vocabulary_of


class Signs(FileTask):
    """Words after a plus or a minus."""

    files = {  # noqa: RUF012
        "train": (("train.txt", "train.txt.gz"),),
        "dev": (("dev.txt",),),
        "test": (("one.txt",), ("two.txt",)),
    }
    source = "example.org"
    classes = ("-", "+")

    def parse(self, path):
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                sign, *tokens = line.split()
                if sign in self.classes:
                    yield Row(path, number, Example((tuple(tokens),), self.classes.index(sign)))
                else:
                    yield Row(path, number, fault=f"'{sign}' is no sign")


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "train.txt").write_text("+ good good\n- bad\n+ fine bad good\n")
    (tmp_path / "dev.txt").write_text("- awful\n+ good\n")
    return tmp_path


def texts(examples):
    return [" ".join(example.sequences[0]) for example in examples]


def test_nothing_is_read_when_a_task_is_made_and_all_splits_are_named_where_the_data_is_elsewhere(tmp_path):
    task = Signs(str(tmp_path / "nowhere"))
    assert task.splits == ("train", "dev", "test")
    task.vocabulary = ("good",)  # as a saved model does
    assert task.vocabulary == ("good",)


def test_splits_are_those_whose_files_are_there(directory):
    assert Signs(str(directory)).splits == ("train", "dev")
    (directory / "one.txt").write_text("+ a\n")
    assert Signs(str(directory)).splits == ("train", "dev")  # a split of two files needs both
    (directory / "two.txt").write_text("- b\n- c\n")
    assert Signs(str(directory)).splits == ("train", "dev", "test")
    assert texts(Signs(str(directory)).examples("test", 0)) == ["a", "b", "c"]


def test_the_first_split_is_for_training_even_where_its_file_is_missing(directory):
    (directory / "train.txt").unlink()
    task = Signs(str(directory))
    assert task.splits == ("train", "dev")
    assert texts(task.examples("dev", 0)) == ["awful", "good"]
    with pytest.raises(CrvnnError, match=r"has no train\.txt"):
        task.epoch(0, 0)


def test_a_packed_file_does_as_well_and_is_read_once(directory):
    plain = (directory / "train.txt").read_bytes()
    (directory / "train.txt").unlink()
    (directory / "train.txt.gz").write_bytes(gzip.compress(plain))
    task = Signs(str(directory))
    before = list(task.examples("train", 0))
    assert len(before) == 3
    (directory / "train.txt.gz").unlink()
    assert list(task.read(directory / "train.txt.gz")) == before


def test_a_missing_file_is_named_with_what_is_there_and_where_it_comes_from(directory):
    (directory / "train.txt").rename(directory / "train_.txt")
    with pytest.raises(CrvnnError) as caught:
        list(Signs(str(directory)).examples("train", 0))
    assert str(caught.value) == (
        f"{directory} has no train.txt. Did you mean 'train_.txt'? It has dev.txt, train_.txt.\n"
        "  The data comes from example.org."
    )


def test_a_directory_without_files_and_one_that_is_missing_are_told_apart(tmp_path):
    with pytest.raises(CrvnnError, match="There is no file in it"):
        Signs(str(tmp_path)).paths("train")
    with pytest.raises(CrvnnError, match=r"(?s)has no train\.txt: there is no such directory.*example\.org"):
        Signs(str(tmp_path / "nowhere")).vocabulary  # noqa: B018


def test_an_unknown_split_is_an_error_that_knows_the_others(directory):
    with pytest.raises(UnknownNameError, match=r"no split is called 'tets'\. Did you mean 'test'"):
        list(Signs(str(directory)).examples("tets", 0))


def test_a_file_that_the_user_names_must_be_there_beside_the_training_file(directory):
    task = Signs(str(directory))
    task.files = {**Signs.files, "dev": (("devv.txt",),)}
    task.named = frozenset({"dev"})
    expected = f"{directory} has no devv.txt. Did you mean 'dev.txt'? It has dev.txt, train.txt."
    with pytest.raises(CrvnnError) as caught:
        task.splits  # noqa: B018
    assert str(caught.value) == expected  # and not where the published files come from
    with pytest.raises(CrvnnError, match=r"has no devv\.txt"):
        list(task.examples("dev", 0))


def test_a_file_that_the_user_names_may_be_missing_where_there_is_no_training_file(directory):
    (directory / "train.txt").unlink()
    for there in (("train", "dev"), ("train", "dev", "test")):  # with the development file, and with nothing
        task = Signs(str(directory))
        task.named = frozenset({"test"})
        assert task.splits == there
        (directory / "dev.txt").unlink(missing_ok=True)


def test_why_a_split_is_missing_is_said_as_its_examples_would_say_it(directory):
    task = Signs(str(directory))
    with pytest.raises(CrvnnError) as caught:
        list(task.examples("test", 0))
    assert task.why_missing("test") == str(caught.value)
    assert re.search(r"has no one\.txt.*\n  The data comes from example\.org\.", str(caught.value))
    assert task.why_missing("dev") == task.why_missing("tets") == ""
    task.generated = True
    assert task.why_missing("test") == ""


def test_the_vocabulary_has_the_most_frequent_tokens_of_training_first(directory):
    task = Signs(str(directory))
    assert task.vocabulary == ("good", "bad", "fine")
    assert vocabulary_of(task.examples("train", 0), min_count=2) == ("good", "bad")


def test_a_malformed_row_stops_reading_and_is_named_by_file_and_line(directory):
    (directory / "train.txt").write_text("+ good\n? what\n")
    with pytest.raises(InputError) as caught:
        list(Signs(str(directory)).examples("train", 0))
    assert str(caught.value).startswith(f"{directory / 'train.txt'}:2: '?' is no sign\n")
    assert "task.bad_rows=skip" in str(caught.value)


def test_malformed_rows_can_be_skipped_and_are_counted(directory, capsys):
    (directory / "train.txt").write_text("? a\n+ good\n! b\n")
    task = Signs(str(directory), bad_rows="skip")
    assert [(row.line, row.fault) for row in task.rows("train")][:2] == [(1, "'?' is no sign"), (2, "")]
    assert texts(task.examples("train", 0)) == texts(task.examples("train", 1)) == ["good"]
    told = capsys.readouterr().err
    assert (
        told
        == f"crvnn: {directory / 'train.txt'}: skipped 2 of 3 rows; the first is line 1: '?' is no sign\n"
    )


def test_a_file_without_a_usable_row_is_an_error(directory):
    path = directory / "train.txt"
    path.write_text("")
    with pytest.raises(InputError, match=r"this file has no well-formed row$"):
        list(Signs(str(directory)).examples("train", 0))
    path.write_text("? a\n")
    with pytest.raises(
        InputError, match="this file has no well-formed row; the first is line 1: '\\?' is no sign"
    ):
        list(Signs(str(directory), bad_rows="skip").examples("train", 0))


def test_json_lines_come_with_their_line_and_faults_as_texts(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = ['{"a": 1}', "", '{"a": }', "[1]", "null", "3", '"x"', "[" * 100_000, '{"a": 2}']
    path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    found = dict(json_lines(path))
    assert (found[1], found[9]) == ({"a": 1}, {"a": 2})
    assert 2 not in found
    assert found[3] == "this is not JSON: Expecting value (column 7)"
    assert found[4] == "each line must be one JSON object, not a list"
    assert [found[line].rpartition("not ")[2] for line in (5, 6, 7)] == ["null", "a number", "a string"]
    assert found[8].startswith("this JSON cannot be read")


def test_a_text_of_a_row_is_there_and_is_a_text():
    assert text_of({"text": "a"}, "text") == "a"
    with pytest.raises(ValueError, match=r"there is no 'txet'\. Did you mean 'text'\? There is text\."):
        text_of({"text": "a"}, "txet")
    for value, kind in ((5, "a number"), (None, "null"), (["a"], "a list"), (True, "a boolean")):
        with pytest.raises(ValueError, match=f"'text' is {kind}, not a string"):
            text_of(json.loads(json.dumps({"text": value})), "text")


def test_rows_to_predict_are_those_of_the_form_that_the_task_reads(directory, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("+ good\n? bad\n- fine bad\n")
    one, two, three = Signs(str(directory)).inputs(path)
    assert (one.line, one.texts, one.sequences, one.gold) == (1, ("good",), (("good",),), "+")
    assert (two.line, two.fault) == (2, "'?' is no sign")
    assert (three.texts, three.gold) == (("fine bad",), "-")
    path.write_text("good\nfine bad\n")
    assert Signs(str(directory)).inputs(path) is None
