"""CSV, TSV and JSONL files: formats, quotation marks, columns, and rows that cannot be read."""

import csv
import gzip
import json
import zipfile

import pytest

from crvnn_core import CrvnnError, InputError
from crvnn_tasks.from_file import tables
from user_files import ALL, CSV, rows, whole


def test_a_csv_file_is_read(write):
    task = whole(write("my.csv", CSV))
    assert rows(task) == ALL
    assert task.classes == ("neg", "pos")
    assert task.splits == ("train",)
    assert task.arity == 1
    assert task.vocabulary == ("a", "bad", "film", "good", "!", "really")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(write, newline):
    assert rows(whole(write("my.csv", "\ufeff" + CSV, newline))) == ALL
    assert rows(whole(write("my.tsv", "\ufeff" + CSV.replace(",", "\t"), newline))) == ALL


def test_tsv_and_jsonl_files_are_read(write):
    lines = [dict(zip(("text", "label"), line.split(","), strict=True)) for line in CSV.splitlines()[1:]]
    assert rows(whole(write("my.tsv", CSV.replace(",", "\t")))) == ALL
    for name in ("my.jsonl", "my.ndjson", "my.json"):
        assert rows(whole(write(name, "\n".join(map(json.dumps, lines))))) == ALL


def test_compressed_files_are_read(tmp_path):
    (tmp_path / "my.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    with zipfile.ZipFile(tmp_path / "my.csv.zip", "w") as archive:
        archive.writestr("my.csv", CSV)
    assert rows(whole(str(tmp_path / "my.csv.gz"))) == rows(whole(str(tmp_path / "my.csv.zip"))) == ALL


def test_the_format_can_be_set_where_the_file_name_has_none(write):
    path = write("my.data", CSV)
    assert rows(whole(path, format="csv")) == ALL
    with pytest.raises(
        InputError, match=r"my\.data: the format is not clear from the file name.*task\.format=csv"
    ):
        rows(whole(path))


def test_columns_are_named_and_the_others_do_not_matter(write):
    path = write("my.csv", "id,stars,review\n1,5,great\n2,1,awful\n")
    assert rows(whole(path, text=["review"], label="stars")) == [("great", 1), ("awful", 0)]


def test_quoted_fields_hold_commas_quotation_marks_and_lines(write):
    path = write("my.csv", 'text,label\n"Well, ""good""\nand long",pos\nbad,neg\n')
    assert rows(whole(path)) == [('well , " good " and long', 1), ("bad", 0)]


def test_lines_are_counted_right_after_fields_of_several_lines(write):
    path = write("my.csv", 'text,label\n"one\ntwo\nthree",pos\n\nbad,neg\n"",pos\n')
    with pytest.raises(InputError, match=r"my\.csv:7: 'text' is empty"):
        rows(whole(path))


def test_quotation_marks_in_a_tsv_file_are_characters_unless_they_surround_a_cell(write):
    path = write("my.tsv", 'text\tlabel\n"Good" it said\tpos\n"so ""bad"", so"\tneg\n"\tneg\n')
    assert rows(whole(path)) == [('" good " it said', 1), ('so " bad " , so', 0), ('"', 0)]


def test_spaces_around_names_and_labels_do_not_matter(write):
    assert rows(whole(write("my.csv", " text , label\na, pos \nb,neg\n"))) == [("a", 1), ("b", 0)]


@pytest.mark.parametrize(
    ("name", "row", "fault"),
    [
        ("my.csv", "only one", "the row has 1 columns; the first line names 2"),
        ("my.csv", "a,b,pos", "the row has 3 columns; the first line names 2"),
        ("my.csv", " ,pos", "'text' is empty"),
        ("my.csv", "a,", "'label' is empty"),
        ("my.csv", '"never closed,pos', "a quotation mark never closes"),
        ("my.csv", '"a" b,pos', "misplaced quotation mark: ',' expected after '\"'"),
        ("my.tsv", "a\tb\tpos", "the row has 3 columns; the first line names 2"),
        ("my.jsonl", "{", "this is not JSON: Expecting property name enclosed in double quotes (column 2)"),
        ("my.jsonl", '{"text": 5, "label": "pos"}', "'text' is a number, not a string"),
        ("my.jsonl", '{"text": "a", "label": null}', "'label' is null, not a string"),
        ("my.jsonl", '{"text": "a", "label": ["pos"]}', "'label' is a list, not a string"),
        (
            "my.jsonl",
            '{"txt": "a", "label": "pos"}',
            "there is no 'text'. Did you mean 'txt'? There is txt, label.",
        ),
        ("my.jsonl", '{"text": "a"}', "there is no 'label'. There is text."),
        ("my.jsonl", '["a", "pos"]', "each line must be one JSON object, not a list"),
        ("my.jsonl", '{"text": "\\u00ad", "label": "pos"}', "'text' is empty"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(write, name, row, fault):
    good = {
        "my.csv": "text,label\na,pos\nb,neg",
        "my.tsv": "text\tlabel\na\tpos\nb\tneg",
        "my.jsonl": '{"text": "a", "label": "pos"}\n\n{"text": "b", "label": "neg"}',
    }
    path = write(name, f"{good[name]}\n{row}\n")
    with pytest.raises(InputError) as caught:
        rows(whole(path))
    assert str(caught.value).splitlines()[0] == f"{path}:4: {fault}"
    assert rows(whole(path, bad_rows="skip")) == [("a", 1), ("b", 0)]


@pytest.mark.parametrize("bad_rows", ["stop", "skip"])
@pytest.mark.parametrize(
    ("last", "what"),
    [
        ("z,pos", "a quotation mark never closes"),
        ('say "no" now,pos', "misplaced quotation mark: ',' expected after '\"'"),
    ],
)
def test_an_unclosed_quotation_mark_is_an_error_even_where_malformed_rows_are_skipped(
    write, bad_rows, last, what
):
    rest = "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(3000))
    path = write("my.csv", f'text,label\na,pos\nb,neg\n"never closed,pos\n{rest}{last}\n')
    with pytest.raises(InputError) as caught:
        rows(whole(path, bad_rows=bad_rows))
    assert str(caught.value).splitlines()[0] == (
        f"{path}:4: {what}; the row that begins here would reach to line 3005."
    )


def test_cells_may_be_very_long(write):
    path = write("my.csv", f'text,label\n{"word " * 40_000},pos\n"{"wort, " * 40_000}",neg\n')
    task = whole(path)
    assert [len(example.sequences[0]) for example in task.examples("train", 0)] == [40_000, 80_000]


def test_a_csv_error_other_than_of_quotation_marks_is_reported_as_it_is(write, monkeypatch):
    monkeypatch.setattr(tables, "_LONGEST_CELL", 100)
    path = write("my.csv", f"text,label\na,pos\nb,neg\n{'c' * 101},pos\n")
    limit = csv.field_size_limit()
    try:
        with pytest.raises(InputError, match=r"my\.csv:4: the row cannot be read: field larger than"):
            rows(whole(path))
    finally:
        csv.field_size_limit(limit)


def test_rows_after_bad_quotation_marks_are_read(write):
    path = write("my.csv", 'text,label\n"a" b,pos\nc,neg\nd,pos\n')
    assert rows(whole(path, bad_rows="skip")) == [("c", 0), ("d", 1)]


def test_a_missing_column_is_named_with_the_nearest_and_the_existing_ones(write):
    path = write("my.csv", "Text,lable,id\na,pos,1\n")
    with pytest.raises(InputError) as caught:
        rows(whole(path))
    assert str(caught.value).startswith(
        f"{path}: there is no column 'text'. Did you mean 'Text'? The first line names 'Text', 'lable', 'id'."
    )
    with pytest.raises(InputError, match=r"there is no column 'label'\. Did you mean 'lable'"):
        rows(whole(path, text=["Text"]))


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_csv_file_with_another_delimiter_is_read(write, mark):
    assert rows(whole(write("my.csv", CSV.replace(",", mark)))) == ALL
    path = write("my.csv", f'stars{mark}text, "as it is"\n5{mark}"one{mark} two, three"\n1{mark}four\n')
    assert rows(whole(path, text='text, "as it is"', label="stars"))[1] == ("four", 0)


def test_the_delimiter_is_named_with_the_columns_that_were_found(write):
    expected = (
        r"no column 'label'\. The first line names 'text', 'stars, or so' \(columns are separated by ';'\)\."
    )
    with pytest.raises(InputError, match=expected):
        rows(whole(write("my.csv", "text;stars, or so\na;5\n")))
    with pytest.raises(InputError, match=r"names 'text,label' \(columns are separated by '\\t'\)\."):
        rows(whole(write("my.tsv", CSV)))


def test_two_columns_of_one_name_are_an_error(write):
    with pytest.raises(InputError, match="two columns are called 'text'"):
        rows(whole(write("my.csv", "text,text,label\na,b,pos\n")))


def test_an_empty_file_is_an_error(write):
    for name in ("my.csv", "my.tsv"):
        with pytest.raises(InputError, match=f"{name}: the file is empty"):
            rows(whole(write(name, "")))
    with pytest.raises(InputError, match="has no label in its column 'label'"):
        rows(whole(write("my.jsonl", "")))


def test_text_of_another_encoding_is_an_error(tmp_path):
    (tmp_path / "my.csv").write_bytes("text,label\ncafé,pos\n".encode("latin-1"))
    with pytest.raises(CrvnnError, match="this is not UTF-8 text"):
        rows(whole(str(tmp_path / "my.csv")))
