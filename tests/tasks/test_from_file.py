"""The task of the user's own files: formats, columns, labels, tokens, held-out rows, and rows that cannot be read."""

import json
import zlib
from pathlib import Path

import pytest

from crvnn_core import Component, CrvnnError, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_tasks.from_file.task import FromFile

CSV = "text,label\nA good film,pos\nA bad film,neg\nGood!,pos\nReally bad,neg\n"
ALL = [("a good film", 1), ("a bad film", 0), ("good !", 1), ("really bad", 0)]


@pytest.fixture
def write(tmp_path):
    def put(name, text, newline="\n"):
        path = tmp_path / name
        path.write_bytes(text.replace("\n", newline).encode())
        return str(path)

    return put


def rows(task, split="train"):
    return [(*(" ".join(s) for s in example.sequences), example.label) for example in task.examples(split, 0)]


def whole(path, **settings):
    """A task that trains on all of a file."""
    return FromFile(path, dev_share=0.0, **settings)


def test_a_csv_file_is_read(write):
    task = whole(write("my.csv", CSV))
    assert rows(task) == ALL
    assert task.classes == ("neg", "pos")
    assert task.splits == ("train",)
    assert task.arity == 1
    assert task.vocabulary == ("a", "bad", "film", "good", "!", "really")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["my.csv", "my.tsv", "my.jsonl", "my.ndjson", "my.json"])
def test_every_format_is_read_whatever_its_line_ends_and_byte_order_mark(write, name, newline):
    rows_of_json = [
        json.dumps(dict(zip(("text", "label"), line.split(","), strict=True)))
        for line in CSV.splitlines()[1:]
    ]
    text = {"my.csv": CSV, "my.tsv": CSV.replace(",", "\t")}.get(name, "\n".join(rows_of_json))
    assert rows(whole(write(name, "\ufeff" + text, newline))) == ALL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'text,label\n"Well, ""good""\nand long",pos\nbad,neg\n',
            [('well , " good " and long', 1), ("bad", 0)],
        ),
        (" text , label\na, pos \nb,neg\n", [("a", 1), ("b", 0)]),
        (
            f'text,label\n{"word " * 40_000},a\n"{"a, " * 40_000}",b\n',
            [("word " * 40_000, 0), ("a , " * 40_000, 1)],
        ),
    ],
    ids=["quoted", "spaces", "long"],
)
def test_cells_may_be_quoted_spaced_and_very_long(write, text, expected):
    assert rows(whole(write("my.csv", text))) == [(words.strip(), label) for words, label in expected]


def test_the_format_can_be_set_where_the_file_name_has_none(write):
    path = write("my.data", CSV)
    assert rows(whole(path, format="csv")) == ALL
    with pytest.raises(
        InputError, match=r"my\.data: the format is not clear from the file name.*task\.format=csv"
    ):
        rows(whole(path))


def test_lines_are_counted_right_after_fields_of_several_lines(write):
    path = write("my.csv", 'text,label\n"one\ntwo\nthree",pos\n\nbad,neg\n"",pos\n')
    with pytest.raises(InputError, match=r"my\.csv:7: 'text' is empty"):
        rows(whole(path))


def test_quotation_marks_in_a_tsv_file_are_characters_unless_they_surround_a_cell(write):
    path = write("my.tsv", 'text\tlabel\n"Good" it said\tpos\n"so ""bad"", so"\tneg\n"\tneg\n')
    assert rows(whole(path)) == [('" good " it said', 1), ('so " bad " , so', 0), ('"', 0)]


@pytest.mark.parametrize(
    ("name", "row", "fault"),
    [
        ("my.csv", "only one", "the row has 1 column; the first line names 2"),
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


@pytest.mark.parametrize(
    ("last", "what"),
    [
        ("z,pos", "a quotation mark never closes"),
        ('say "no" now,pos', "misplaced quotation mark: ',' expected after '\"'"),
    ],
)
def test_an_unclosed_quotation_mark_is_an_error_even_where_malformed_rows_are_skipped(write, last, what):
    rest = "".join(f"row {n},{'pos' if n % 2 else 'neg'}\n" for n in range(3000))
    path = write("my.csv", f'text,label\na,pos\nb,neg\n"never closed,pos\n{rest}{last}\n')
    with pytest.raises(InputError) as caught:
        rows(whole(path, bad_rows="skip"))
    assert str(caught.value).splitlines()[0] == (
        f"{path}:4: {what}; the row that begins here would reach to line 3005."
    )


FEW = "in its column 'label'; at least two are needed"
WHY = "\n  Of the rows that cannot be read, this is the first: line "


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "my.csv",
            "Text,lable,id\na,pos,1\n",
            ": there is no column 'text'. Did you mean 'Text'? The first line names 'Text', 'lable', 'id'.",
        ),
        (
            "my.csv",
            "text;stars, or so\na;5\n",
            ": there is no column 'label'. The first line names 'text', 'stars, or so' (columns are separated by ';').",
        ),
        (
            "my.tsv",
            CSV,
            ": there is no column 'text'. Did you mean 'text,label'? The first line names 'text,label' "
            "(columns are separated by '\\t').",
        ),
        ("my.csv", "text,text,label\na,b,pos\n", ": two columns are called 'text'"),
        ("my.csv", "", ": the file is empty"),
        ("my.tsv", "", ": the file is empty"),
        ("my.jsonl", "", f" has no label {FEW}"),
        ("my.csv", "text,label\na,pos\nb,pos\n", f" has only the label 'pos' {FEW}"),
        (
            "my.csv",
            'text,label\na,x\n"b" c,y\n',
            f" has only the label 'x' {FEW}{WHY}3: misplaced quotation mark",
        ),
        (
            "my.json",
            '[{"text": "a", "label": "x"}]\n',
            f" has no label {FEW}{WHY}1: each line must be one JSON object, not a list",
        ),
    ],
)
def test_a_file_without_the_columns_or_with_fewer_than_two_labels_is_an_error(write, name, text, message):
    path = write(name, text)
    with pytest.raises(InputError) as caught:
        rows(whole(path))
    assert str(caught.value).startswith(f"{path}{message}")


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_csv_file_with_another_delimiter_is_read(write, mark):
    assert rows(whole(write("my.csv", CSV.replace(",", mark)))) == ALL
    path = write("my.csv", f'stars{mark}text, "as it is"\n5{mark}"one{mark} two, three"\n1{mark}four\n')
    assert rows(whole(path, text='text, "as it is"', label="stars"))[1] == ("four", 0)


def test_one_column_needs_no_list_and_two_make_a_pair(write):
    path = write("my.csv", "id,stars,first,second\n1,5,It rains,It is wet\n2,1,It rains,It is dry\n")
    one, two = whole(path, text="first", label="stars"), whole(path, text=["first", "second"], label="stars")
    assert (one.arity, two.arity) == (1, 2)
    assert rows(one) == [("it rains", 1), ("it rains", 0)]
    assert rows(two) == [("it rains", "it is wet", 1), ("it rains", "it is dry", 0)]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "-1", "2.5"], ("-1", "2.5", "9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["nan", "9", "10"], ("10", "9", "nan")),
        ([2, 10], ("2", "10")),
        ([True, False], ("false", "true")),
    ],
)
def test_numbers_are_sorted_by_size_and_names_by_letters(write, labels, classes):
    lines = (json.dumps({"text": "a", "label": label}) for label in labels)
    task = whole(write("my.jsonl", "\n".join(lines)))
    assert task.classes == classes
    first = str(labels[0]).lower() if isinstance(labels[0], bool) else str(labels[0])
    assert rows(task)[0] == ("a", classes.index(first))


def numbered(numbers):
    return "text,score\n" + "".join(f"text {place},{number}\n" for place, number in enumerate(numbers))


@pytest.mark.parametrize("numbers", [[n / 7 for n in range(40)], list(range(30)) + [3] * 20])
def test_numbers_that_are_nearly_all_different_are_refused(write, numbers):
    task = whole(write("my.csv", numbered(numbers)), label="score")
    with pytest.raises(InputError) as caught:
        rows(task)
    first, second = str(caught.value).splitlines()
    different = len(set(numbers))
    assert first.endswith(
        f"my.csv: the column 'score' has {different} different numbers in {len(numbers)} rows, and a class for each "
        "would be trained; numbers themselves are not learned (regression)"
    )
    assert second.endswith("into a few bins, or train a class for each with --set task.label_kind=classes")
    insisting = whole(write("my.csv", numbered(numbers)), label="score", label_kind="classes")
    assert len(insisting.classes) == different


def test_numbers_in_json_that_are_nearly_all_different_are_classes_only_as_strings(write):
    def lines(kind):
        return "".join(json.dumps({"text": "a", "label": kind(n / 7)}) + "\n" for n in range(40))

    with pytest.raises(InputError, match="40 different numbers in 40 rows"):
        whole(write("my.jsonl", lines(float))).classes  # noqa: B018
    assert len(whole(write("my.jsonl", lines(str))).classes) == 40


@pytest.mark.parametrize(
    "labels",
    [
        [n % 100 for n in range(400)],
        list(range(10)),
        [n / 2 for n in range(11)] * 3,
        [f"user-{n}" for n in range(40)],
        [*range(40), "unknown"],
    ],
)
def test_numbers_with_rows_enough_and_names_are_classes(write, labels):
    assert len(whole(write("my.csv", numbered(labels)), label="score").classes) == len(set(labels))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "it 's 5.5 , ok"),
        ({"lower": False}, "It 's 5.5 , OK"),
        ({"tokens": "spaces"}, "it's 5.5, ok"),
        ({"tokens": "characters"}, "i t ' s 5 . 5 , o k"),
        ({"tokens": "characters", "lower": False}, "I t ' s 5 . 5 , O K"),
    ],
)
def test_tokens_are_words_or_characters_or_separated_by_spaces(write, settings, expected):
    task = whole(write("my.csv", CSV), **settings)
    assert task.tokenize("It's 5.5, OK") == tuple(expected.split())


def test_rare_tokens_are_left_out_of_the_vocabulary(write):
    path = write("my.csv", CSV)
    assert set(whole(path, min_count=2).vocabulary) == {"a", "bad", "film", "good"}
    with pytest.raises(InputError, match=r"no token occurs 9 times in the training split \(min_count\)"):
        whole(path, min_count=9).vocabulary  # noqa: B018


def test_a_development_file_and_a_test_file_are_read(write):
    task = FromFile(
        write("a.csv", CSV),
        dev=write("b.tsv", "label\ttext\npos\tfine\n"),
        test=write("c.csv", "text,label\nx,neg\n"),
    )
    assert task.splits == ("train", "dev", "test")
    assert rows(task) == ALL
    assert rows(task, "dev") == [("fine", 1)]
    assert rows(task, "test") == [("x", 0)]


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_file_that_is_named_must_exist(write, tmp_path, split):
    train, missing = write("a.csv", CSV), str(tmp_path / "devv.csv")
    write("dev.csv", CSV)
    task = FromFile(train, **{split: missing})
    expected = r"has no devv\.csv\. Did you mean 'dev\.csv'\? It has a\.csv, dev\.csv\.$"
    with pytest.raises(CrvnnError, match=expected):
        task.splits  # noqa: B018
    with pytest.raises(CrvnnError, match=expected):
        rows(task, split)
    assert split in FromFile("nowhere.csv", **{split: missing}).splits  # a trained model without its data


def many(count):
    return "text,label\n" + "".join(f"text number {n},{n % 2}\n" for n in range(count))


@pytest.mark.parametrize(
    ("count", "share", "held_out"),
    [
        (2000, 0.1, 200),
        (24, 0.1, 2),
        (26, 0.1, 3),
        (24, 0.25, 6),
        (3, 0.1, 1),
        (4, 1e-9, 1),
        (4, 0.999999999, 3),
    ],
)
def test_without_a_development_file_a_share_of_the_texts_is_held_out_by_their_hashes(
    write, count, share, held_out
):
    task = FromFile(write("my.csv", many(count)), dev_share=share)
    train, dev = rows(task), rows(task, "dev")
    assert task.splits == ("train", "dev")
    assert sorted(train + dev) == sorted((f"text number {n}", n % 2) for n in range(count))
    smallest = sorted((text for text, _ in train + dev), key=lambda text: zlib.crc32(text.encode()))
    assert {text for text, _ in dev} == set(smallest[:held_out])


def test_added_rows_change_the_split_of_few_others(write):
    few = rows(FromFile(write("few.csv", many(300))), "dev")
    more = rows(FromFile(write("more.csv", many(330))), "dev")
    assert len(few) == 30
    assert len(set(few) & set(more)) >= 27


def test_rows_with_the_same_text_are_in_the_same_split(write):
    text = "text,label\n" + "".join(f"Same  {n % 7}!,{n % 2}\nsame {n % 7} !,{n % 2}\n" for n in range(60))
    task = FromFile(write("my.csv", text), dev_share=0.5)
    train, dev = ({text for text, _ in rows(task, split)} for split in ("train", "dev"))
    assert train
    assert dev
    assert train.isdisjoint(dev)


def test_a_file_of_one_text_cannot_be_split(write):
    with pytest.raises(InputError, match=r"too few distinct texts.*task\.dev_share=0"):
        rows(FromFile(write("my.csv", "text,label\na,x\na,y\n")))


def test_rows_are_split_like_examples_and_malformed_ones_are_reported_once(write):
    task = FromFile(write("my.csv", many(300) + ",1\n"), bad_rows="skip")
    for split in ("train", "dev"):
        assert [row.example for row in task.rows(split) if row.example] == list(task.examples(split, 0))
    assert [row.line for split in ("train", "dev") for row in task.rows(split) if row.fault] == [302]


def test_a_label_absent_from_training_is_a_malformed_row(write):
    path = write("dev.csv", "text,label\na,pos\nb,postive\n")
    task = FromFile(write("my.csv", CSV.replace("pos", "positive")), dev=path)
    with pytest.raises(
        InputError, match=r"dev\.csv:2: the label 'pos' is not one of the training labels: neg, positive\."
    ):
        rows(task, "dev")
    faults = [row.fault for row in task.rows("dev")]
    assert faults[1].endswith("Did you mean 'positive'?")


def test_without_the_training_file_there_is_no_vocabulary(tmp_path):
    with pytest.raises(CrvnnError, match=r"has no nothing\.csv"):
        FromFile(str(tmp_path / "nothing.csv")).vocabulary  # noqa: B018


def test_paths_are_relative_to_the_current_directory(write, tmp_path, monkeypatch):
    write("my.csv", CSV)
    monkeypatch.chdir(tmp_path)
    assert rows(whole("my.csv")) == ALL
    with pytest.raises(CrvnnError, match=r"the current directory has no mi\.csv\. Did you mean 'my\.csv'\?"):
        rows(whole("mi.csv"))


def test_a_trained_model_needs_no_data(write):
    task = FromFile("nowhere.csv")
    task.classes, task.vocabulary = ("no", "yes"), ("a",)
    assert [e.label for e in task.read(Path(write("new.csv", "text,label\na,yes\n")))] == [1]
    assert task.splits == ("train", "dev")


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"train": ""}, "train must name a file"),
        ({"text": []}, "text must name one column"),
        ({"text": ["a", "b", "c"]}, "text must name one column"),
        ({"text": ["a", "a"]}, "text must name one column"),
        ({"text": [""]}, "text must name one column"),
        ({"text": ""}, r'text must name one column, as in \["text"\], or two'),
        ({"label": ""}, "label must name a column"),
        ({"label": "text"}, "label must name a column"),
        ({"min_count": 0}, "min_count must be at least 1"),
        ({"dev_share": 1.0}, "dev_share must be at least 0 and below 1"),
        ({"dev_share": -0.1}, "dev_share must be at least 0 and below 1"),
    ],
)
def test_invalid_settings_are_refused(settings, what):
    with pytest.raises(ValueError, match=what):
        FromFile(**{"train": "my.csv", **settings})


@pytest.mark.parametrize(
    "settings",
    [{}, {"tokens": "characters"}, {"tokens": "spaces", "lower": False}, {"text": ["text", "more"]}],
)
def test_the_contract_of_tasks_is_satisfied(write, settings):
    text = "text,more,label\n" + "".join(
        f"It's no {n}.,more {n},{'yes' if n % 3 else 'no'}\n" for n in range(40)
    )
    component = Component("mine", FromFile, example={"train": write("my.csv", text), **settings})
    assert [outcome for outcome in run_checks(component, CHECKS["task"]) if not outcome.kept] == []
