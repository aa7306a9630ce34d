"""``crvnn predict``: what it prints and writes, and with which exit code."""

import csv
import gzip
import json
import re

import pytest

from calling import run
from crvnn_core.inference.trained import load
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.training.trainer import train
from small import PLUGIN, SETTINGS, leaves

pytestmark = pytest.mark.usefixtures("here")


def predict(*args, **more):
    """``crvnn predict`` with the small tasks."""
    return run("predict", "--plugin", PLUGIN, *args, **more)


def answers(*args, **more):
    """What it prints with ``--json``."""
    return json.loads(predict(*args, "--json", **more).stdout)


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_text_has_its_label_and_tree_in_lines_and_as_json(letters_run, small_catalog):
    texts = ["a b c", "f"]
    wanted = load(letters_run, small_catalog).predict(texts)
    lines = [line.split("\t") for line in predict(letters_run, *texts).stdout.splitlines()]
    assert lines == [[each.label, f"{each.probabilities[each.label]:.1%}", each.text] for each in wanted]
    found = answers(letters_run, *texts)
    assert [(each["text"], each["label"]) for each in found] == [(each.text, each.label) for each in wanted]
    for each, answer in zip(found, wanted, strict=True):
        assert each["probabilities"] == pytest.approx(answer.probabilities)
        assert each["trees"][0].replace("(", "").replace(")", "").split() == leaves(answer.tree)
    _, tree, *_ = predict(letters_run, *texts, "--trees").stdout.splitlines()
    assert tree.strip() == found[0]["trees"][0]


def test_tokens_that_the_model_does_not_know_are_named(letters_run):
    args = (letters_run, "a b", "zebra a yak zebra")
    assert predict(*args).stderr == "crvnn: text 2: unknown to the model: 'zebra', 'yak'\n"
    found = answers(*args)
    assert [each["unknown"] for each in found] == [[], ["zebra", "yak"]]
    assert [each["tokens"] for each in found] == [[["a", "b"]], [["zebra", "a", "yak", "zebra"]]]


def test_of_many_texts_with_unknown_tokens_the_first_are_named_and_all_counted(letters_run):
    texts = [" ".join(f"x{i}" for i in range(12)), *(["a zebra"] * 11), "a"]
    lines = predict(letters_run, *texts).stderr.splitlines()
    assert lines[0].endswith("'x8', 'x9' and 2 more")
    assert lines[9:] == [
        "crvnn: text 10: unknown to the model: 'zebra'",
        "crvnn: 12 of 13 texts have tokens unknown to the model; --json has them all",
    ]


@pytest.mark.parametrize(
    "args", [("--file", "texts"), ("--file", "-"), ("-",), ("-", "--lines")], ids=" ".join
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_texts_are_read_from_a_file_or_from_standard_input(letters_run, here, args, end):
    content = end.join(["a b", "c", "d e f"])
    (here / "texts").write_bytes(content.encode())
    result = predict(letters_run, *args, "--json", stdin=content)
    assert [each["text"] for each in json.loads(result.stdout)] == ["a b", "c", "d e f"]


def test_standard_input_is_in_the_help(letters_run):
    assert "| crvnn predict listops -\n" in predict("--help").stdout


def test_pairs_are_two_texts_or_two_columns_and_are_written_in_two(pairs_run, here):
    by_argument = answers(pairs_run, "a b", "a", "c", "d e")
    (here / "pairs").write_text("a b\ta\nc\td e\n")
    by_file = answers(pairs_run, "--file", "pairs")
    assert [{"line": i, **each} for i, each in enumerate(by_argument, 1)] == by_file
    assert [each["text"] for each in by_file] == [["a b", "a"], ["c", "d e"]]
    assert all(len(each["trees"]) == 2 for each in by_file)
    assert predict(pairs_run, "a b", "a").stdout.rstrip().endswith("\ta b  |  a")
    predict(pairs_run, "--file", "pairs", "--out", "preds.csv")
    found = table(here / "preds.csv")
    assert list(found[0]) == ["line", "text_a", "text_b", "label", "p_no", "p_yes", "unknown"]
    assert [(row["text_a"], row["text_b"]) for row in found] == [("a b", "a"), ("c", "d e")]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a\tb\nc d\n", "2: expected two texts with a tab between them"),
        ("a\t\n", "1: expected two texts with a tab between them"),
        ("a\tb\n\nc\td\n", "2: the line is empty"),
    ],
)
def test_a_line_that_is_no_pair_is_named(pairs_run, here, content, line):
    (here / "pairs").write_text(content)
    said = predict(pairs_run, "--file", "pairs", code=2).stderr
    assert said == f"crvnn: pairs:{line}\n  --skip-bad-rows leaves such rows out.\n"


def test_a_file_that_is_no_text_is_one_clear_message(letters_run, here):
    (here / "texts").write_bytes(b"caf\xe9\n")
    assert re.search("texts.*UTF-8", predict(letters_run, "--file", "texts", code=2).stderr)


def test_texts_and_pairs_that_cannot_be_predicted_are_usage_errors(letters_run, pairs_run, here):
    (here / "texts").write_text("a\n")
    for args in ((), ("a", "--file", "texts")):
        assert (
            "give texts, or a file of them with --file ('-' for standard input)"
            in predict(letters_run, *args, code=2).stderr
        )
    result = predict(pairs_run, "a", "b", "c", code=2)
    assert "the task is about pairs of texts; 3 cannot be paired" in result.stderr
    assert "'nowhere' does not exist" in predict(letters_run, "--file", "nowhere", code=2).stderr
    for option in ("--lines", "--skip-bad-rows"):
        assert f"{option} is about a file" in predict(letters_run, "a", option, code=2).stderr


# Files of the form that the task reads.

REVIEWS = 'id,text,label\n7,a fine film,pos\n8,"dull,\nreally",neg\n9,fine,pos\n10,a dull film,neg\n11,so fine,pos\n'


def reviews(path, catalog):
    """A run of the task ``from-file`` on the rows in a directory."""
    sets = [*SETTINGS[1:], "task=from-file", f"task.train={path / 'train.csv'}", "training.steps=2"]
    train(assemble(read_spec(catalog, sets=sets), catalog), path / "run")
    return path / "run"


@pytest.fixture(scope="module")
def reviews_run(tmp_path_factory, small_catalog):
    path = tmp_path_factory.mktemp("reviews")
    (path / "train.csv").write_text(REVIEWS)
    return reviews(path, small_catalog)


def test_header_identifiers_and_labels_of_a_file_are_not_texts(reviews_run, here):
    (here / "mine.csv").write_text(REVIEWS)
    found = answers(reviews_run, "--file", "mine.csv")
    columns = {key: [each[key] for each in found] for key in ("text", "line", "id", "gold")}
    assert columns == {
        "text": ["a fine film", "dull,\nreally", "fine", "a dull film", "so fine"],
        "line": [2, 3, 5, 6, 7],
        "id": ["7", "8", "9", "10", "11"],
        "gold": ["pos", "neg", "pos", "neg", "pos"],
    }
    assert found[1]["tokens"] == [["dull", ",", "really"]]
    right = [each["label"] == each["gold"] for each in found]
    data = json.loads(run("eval", reviews_run, "--data", "mine.csv", "--json").stdout)
    assert sum(right) / len(right) == pytest.approx(data["total"]["accuracy"])
    parsed = answers(reviews_run, "--file", "mine.csv", "--trees")
    assert [each["text"] for each in parsed] == columns["text"]


@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.jsonl", "new.csv.gz"])
def test_a_file_to_predict_needs_no_labels(reviews_run, here, name):
    content = "id,text\n1,a fine film\n2,dull\n"
    if "tsv" in name:
        content = content.replace(",", "\t")
    elif "jsonl" in name:
        content = '{"id": 1, "text": "a fine film"}\n{"id": 2, "text": "dull"}\n'
    data = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
    (here / name).write_bytes(data)
    found = answers(reviews_run, "--file", name)
    assert [(str(each["id"]), each["text"]) for each in found] == [("1", "a fine film"), ("2", "dull")]
    assert all("gold" not in each for each in found)


def test_a_text_a_line_is_read_from_any_other_file(reviews_run, here):
    (here / "mine.txt").write_text("text\na fine film\n")
    (here / "mine.csv").write_text("text\na fine film\n")
    for args in (("mine.txt",), ("mine.csv", "--lines")):
        found = answers(reviews_run, "--file", *args)
        assert [each["text"] for each in found] == ["text", "a fine film"]


def test_a_table_without_the_column_says_how_to_read_it(reviews_run, here):
    (here / "mine.csv").write_text("a fine film\ndull\n")
    lines = predict(reviews_run, "--file", "mine.csv", code=2).stderr.splitlines()
    assert lines[0] == "crvnn: mine.csv: there is no column 'text'. The first line names 'a fine film'."
    assert lines[-1] == "  --lines reads the file line by line."
    (here / "other.csv").write_text("review\ndull\n")
    args = ("--file", "other.csv", "--set", 'task.text="review"', "--json")
    assert json.loads(predict(reviews_run, *args).stdout)[0]["text"] == "dull"


def test_a_table_that_the_task_does_not_read_is_said_to_be_read_by_lines(letters_run, here):
    (here / "mine.csv").write_text("a b\nc\n")
    result = predict(letters_run, "--file", "mine.csv")
    assert result.stderr.splitlines() == [
        "crvnn: mine.csv: read line by line, since the task 'letters' does not read such files"
    ]


def test_bad_rows_are_all_named_with_their_lines_and_may_be_skipped(reviews_run, here):
    (here / "mine.csv").write_text("id,text\n1,a fine film\n2,\n3,one,two\n4,dull\n")
    faults = [
        "mine.csv:3: 'text' is empty",
        "mine.csv:4: the row has 3 columns; the first line names 2",
    ]
    lines = predict(reviews_run, "--file", "mine.csv", code=2).stderr.splitlines()
    assert lines == [f"crvnn: {faults[0]}", faults[1], "  --skip-bad-rows leaves such rows out."]
    result = predict(reviews_run, "--file", "mine.csv", "--skip-bad-rows", "--json")
    assert result.stderr.splitlines() == ["crvnn: mine.csv: left out 2 of 4 rows:", *faults]
    assert [each["line"] for each in json.loads(result.stdout)] == [2, 5]


# What is right.

TEXT, GUIDED = "[MAX 2 9 [MIN 4 7 ] 0 ]", "listops-guided"


def test_an_answer_is_correct_where_the_task_computes_the_same_label():
    assert predict(GUIDED, TEXT).stdout.split("\t")[::3] == ["9", "correct\n"]
    found = answers(GUIDED, TEXT, "[MAX 2 8 ]")
    assert [(each["gold"], each["correct"]) for each in found] == [("9", True), ("8", True)]


def test_an_answer_is_correct_or_wrong_where_the_file_has_a_label(letters_run, here):
    (here / "rows.tsv").write_text("yes\ta b\nno\ta b\n")
    found = answers(letters_run, "--file", "rows.tsv")
    assert [(each["text"], each["gold"]) for each in found] == [("a b", "yes"), ("a b", "no")]
    assert [each["correct"] for each in found] == [each["label"] == each["gold"] for each in found]
    assert {each["correct"] for each in found} == {True, False}
    shown = [line.split("\t")[3] for line in predict(letters_run, "--file", "rows.tsv").stdout.splitlines()]
    assert shown == ["correct" if each["correct"] else f"wrong, true label {each['gold']}" for each in found]


def test_nothing_is_said_to_be_correct_where_nobody_knows(letters_run):
    assert len(predict(letters_run, "a b").stdout.split("\t")) == 3
    assert predict(letters_run, "a b", "--trees").stderr == ""
    for more in ((), ("--trees",)):
        (answer,) = answers(letters_run, "a b", *more)
        assert not {"gold", "correct", "agreement"} & answer.keys()


def test_trees_alone_say_on_standard_error_whether_label_and_tree_are_right(letters_run, here):
    (here / "rows.tsv").write_text("yes\ta b\nno\ta b\n")
    alone = ("--format", "brackets")
    assert predict(GUIDED, TEXT, "--trees").stderr == "crvnn: text 1: This is the gold tree.\n"
    assert predict(GUIDED, TEXT, *alone).stderr == "crvnn: text 1: label 9, correct. This is the gold tree.\n"
    said = predict(letters_run, "--file", "rows.tsv", *alone).stderr.splitlines()
    judged = {line.partition(", ")[2] for line in said}
    assert judged in ({"correct.", f"wrong, true label {label}."} for label in ("no", "yes"))
    (found,) = answers(GUIDED, TEXT, "--trees")
    assert (found["label"], found["gold"], found["correct"]) == ("9", "9", True)
    assert found["agreement"] == ["This is the gold tree."]
    *first, last = predict(GUIDED, *["[MAX 2 8 ]"] * 12, "--trees").stderr.splitlines()
    assert len(first) == 10
    assert last == "crvnn: 12 of 12 texts have a gold label or tree; --json has them all"


# Predictions in a file.


def test_predictions_are_written_to_a_table_in_order(reviews_run, here):
    (here / "mine.csv").write_text(REVIEWS.replace("so fine", "so odd"))
    result = predict(reviews_run, "--file", "mine.csv", "--out", "out/preds.csv", "--trees")
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "crvnn: mine.csv:7: unknown to the model: 'odd'",
        "wrote 5 predictions: out/preds.csv",
    ]
    found = table(here / "out" / "preds.csv")
    assert list(found[0]) == ["line", "id", "gold", "text", "label", "p_neg", "p_pos", "tree", "unknown"]
    assert [row["id"] for row in found] == ["7", "8", "9", "10", "11"]
    assert [row["unknown"] for row in found] == ["", "", "", "", "odd"]
    shown = answers(reviews_run, "--file", "mine.csv")
    for row, each in zip(found, shown, strict=True):
        assert (row["line"], row["text"]) == (str(each["line"]), each["text"])
        assert (row["gold"], row["label"]) == (each["gold"], each["label"])
        assert float(row["p_pos"]) == pytest.approx(each["probabilities"]["pos"], abs=1e-6)
        assert row["tree"] == each["trees"][0]


def test_predictions_are_written_as_json_lines(reviews_run, here):
    (here / "mine.csv").write_text(REVIEWS)
    predict(reviews_run, "--file", "mine.csv", "--out", "preds.jsonl")
    written = [json.loads(line) for line in (here / "preds.jsonl").read_text().splitlines()]
    assert written == answers(reviews_run, "--file", "mine.csv")


def test_a_column_named_like_a_prediction_is_kept_beside_it(reviews_run, here):
    (here / "mine.csv").write_text("unknown,text,p_pos\nyes,fine,high\n")
    predict(reviews_run, "--file", "mine.csv", "--out", "preds.csv")
    (row,) = table(here / "preds.csv")
    assert (row["input_unknown"], row["input_p_pos"], row["unknown"]) == ("yes", "high", "")


def test_no_cell_of_a_table_is_a_formula_and_numbers_stay_numbers(reviews_run, here):
    (here / "mine.csv").write_text("text,@sum,id\n=HYPERLINK(A1) film,+1+cmd,-0.5\n- dull,@a,-film\n")
    predict(reviews_run, "--file", "mine.csv", "--out", "preds.csv")
    found = table(here / "preds.csv")
    assert [(row["text"], row["'@sum"], row["id"]) for row in found] == [
        ("'=HYPERLINK(A1) film", "'+1+cmd", "-0.5"),
        ("'- dull", "'@a", "'-film"),
    ]


def test_labels_and_texts_cannot_command_a_terminal_or_break_a_line(here, small_catalog):
    (here / "train.csv").write_text('text,label\na film,"\x1b[31m\tred\n"\nb film,\x9b2J\n' * 5)
    reviews(here, small_catalog)
    (here / "mine.csv").write_text('text,label\n"a\x1b[2J\n\tfilm","\x1b[31m\tred\n"\nb film,\x9b2J\n')
    labels = {r"\u{1b}[31m\tred", r"\u{9b}2J"}
    lines = [line.split("\t") for line in predict("run", "--file", "mine.csv").stdout.splitlines()]
    assert [line[2] for line in lines] == [r"a\u{1b}[2J\n\tfilm", "b film"]
    assert {line[0] for line in lines} <= labels
    assert {line[3].removeprefix("wrong, true label ") for line in lines} <= {"correct", *labels}
    for command in ("predict", "run", "--file", "mine.csv", "--trees"), ("eval", "run", "--data", "mine.csv"):
        result = run(*command)
        assert not {"\x1b", "\x9b"} & set(result.stdout + result.stderr)
    assert answers("run", "--file", "mine.csv")[0]["text"] == "a\x1b[2J\n\tfilm"


def test_an_error_that_quotes_a_file_cannot_command_a_terminal(here):
    (here / "my.toml").write_text("seed = 1 \x1b]0;title\x07\n")  # colours click removes by itself
    assert "\x1b" not in run("assemble", "my.toml", code=2).stderr


def test_a_file_that_predictions_cannot_be_written_to_is_refused_at_once(letters_run, here):
    result = predict("nowhere", "a", "--out", "preds.xlsx", code=2)
    assert "preds.xlsx: predictions are written to files that end in .csv or .jsonl" in result.stderr
    result = predict(letters_run, "a", "--out", "preds.csv", "--json", code=2)
    assert "--json prints everything; it goes with neither --format nor --out." in result.stderr
    (here / "preds.csv").write_text("old\n")
    predict(letters_run, "a", " ", "--out", "preds.csv", code=2)
    assert (here / "preds.csv").read_text() == "old\n"
