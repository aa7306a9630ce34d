"""ListOps from published files and from the user's."""

import gzip
from collections import Counter

import pytest

from crvnn_core import Example, InputError
from crvnn_tasks.listops.task import ListOps


def file_of(path, examples):
    path.write_text("".join(f"{label}\t{text}\n" for label, text in examples))
    return path


@pytest.fixture
def directory(tmp_path):
    """Files in the published form: ten short rows, ten long ones, and so on in turn."""
    rows = [(7, f"( ( ( [MAX {number % 8} ) 7 ) ] )") for number in range(10)]
    rows += [(3, "( ( ( " + f"[MED {number} ) {'3 ' * 120}) ] )") for number in range(10)]
    file_of(tmp_path / "train_d20s.tsv", rows * 3)
    file_of(tmp_path / "test_d20s.tsv", rows[5:15])
    return tmp_path


def test_published_files_are_split_as_in_the_paper(directory):
    task = ListOps(str(directory), held_out=15)
    lengths = {split: [len(e.sequences[0]) for e in task.examples(split, 0)] for split in task.splits}
    assert lengths == {
        "train": [4] * 20,  # the rows after the first fifteen, without the long ones
        "dev": [4] * 10 + [123] * 5,
        "test": [4] * 5 + [123] * 5,
    }
    first = next(task.examples("dev", 0))
    assert first == Example((("[MAX", "0", "7", "]"),), 7)


def test_rows_of_files_belong_to_one_split_each(directory):
    task = ListOps(str(directory), held_out=15)
    lines = {split: [row.line for row in task.rows(split)] for split in task.splits}
    assert lines == {"train": list(range(16, 61)), "dev": list(range(1, 16)), "test": list(range(1, 11))}


def test_limits_of_length_and_the_curriculum_apply_to_files_too(directory):
    task = ListOps(str(directory), held_out=5, max_tokens=0, test_min_tokens=100, growing=[50])
    assert Counter(len(e.sequences[0]) for e in task.examples("train", 0)) == {4: 25, 123: 30}
    assert Counter(len(e.sequences[0]) for e in task.epoch(0, 0)) == {4: 25}
    assert Counter(len(e.sequences[0]) for e in task.epoch(0, 1)) == {4: 25, 123: 30}
    assert Counter(len(e.sequences[0]) for e in task.examples("test", 0)) == {123: 5}


def test_files_may_be_compressed_and_the_test_file_may_be_missing(directory):
    train = directory / "train_d20s.tsv"
    (directory / "train_d20s.tsv.gz").write_bytes(gzip.compress(train.read_bytes()))
    train.unlink()
    (directory / "test_d20s.tsv").unlink()
    task = ListOps(str(directory), held_out=15)
    assert tuple(task.splits) == ("train", "dev")
    assert len(list(task.examples("train", 0))) == 20


def test_files_in_the_working_directory_do_not_change_generated_examples(directory, monkeypatch):
    monkeypatch.chdir(directory)
    (directory / "test_d20s.tsv").unlink()
    assert tuple(ListOps().splits) == ("train", "dev", "test")


@pytest.mark.parametrize(
    "text",
    [
        "7\t[MAX 1 7 ]\n2\t[MIN 2 3 ]\n",
        "Target\tSource\n7\t( ( ( [MAX 1 ) 7 ) ] )\n2\t( ( ( [MIN 2 ) 3 ) ] )\n",
        "Source\tTarget\n( ( ( [MAX 1 ) 7 ) ] )\t7\n( ( ( [MIN 2 ) 3 ) ] )\t2\n",
        "[MAX 1 7]\t7\r\n[min 2 3]\t2\r\n",
    ],
)
def test_columns_may_be_in_either_order_and_have_names(tmp_path, text):
    (tmp_path / "mine.tsv").write_bytes(text.encode())
    examples = list(ListOps().read(tmp_path / "mine.tsv"))
    assert [(" ".join(e.sequences[0]), e.label) for e in examples] == [("[MAX 1 7 ]", 7), ("[MIN 2 3 ]", 2)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("7", "expected a label and an expression with a tab between them; found 1"),
        ("7\t[MAX 1 7 ]\tx", "expected a label and an expression with a tab between them; found 3"),
        ("", "expected a label and an expression with a tab between them; the line is empty"),
        ("x\t[MAX 1 7 ]", "neither column is a label, a digit from 0 to 9: 'x', '[MAX 1 7 ]'"),
        ("12\t[MAX 1 7 ]", "neither column is a label"),
        ("7\t", "this is not one whole expression:"),
        ("7\t[MAX 1 7", "'[MAX' is still open"),
        ("7\t[MAX 1 7 ] ]", "token 5, ']', does not fit"),
        ("7\t[MUX 1 7 ]", "token 1, '[MUX', does not fit"),
        ("6\t[MAX 1 7 ]", "the label is 6, but the value of the expression is 7"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path, line, fault):
    path = tmp_path / "mine.tsv"
    path.write_text(f"7\t[MAX 1 7 ]\n{line}\n2\t[MIN 2 3 ]\n")
    with pytest.raises(InputError) as caught:
        list(ListOps().read(path))
    assert str(caught.value).startswith(f"{path}:2: ")
    assert fault in str(caught.value).splitlines()[0]
