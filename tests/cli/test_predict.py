"""``crvnn eval`` and ``predict``: what they print, and with which exit code."""

import json
import shutil

import pytest

from calling import run
from crvnn_core import load
from small import PLUGIN, leaves

pytestmark = pytest.mark.usefixtures("here")


def test_a_model_is_evaluated_on_its_last_split(letters_run):
    result = run("eval", letters_run, "--plugin", PLUGIN)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0][:3] == ["split", "group", "examples"]
    assert rows[1][:3] == ["test", "all", "20"]
    assert [row[1] for row in rows[2:]] == ["1", "2", "3", "4"]
    found = json.loads((letters_run / "results.json").read_text())["splits"]["test"]["total"]
    assert rows[1][3] == f"{100 * found['accuracy']:.1f}"


def test_an_evaluation_can_be_printed_as_json(letters_run):
    found = json.loads(run("eval", letters_run, "--plugin", PLUGIN, "--split", "dev", "--json").stdout)
    written = json.loads((letters_run / "results.json").read_text())["splits"]["dev"]
    assert (found["run"], found["data"]) == (str(letters_run), "dev")
    assert found["total"] == pytest.approx(written["total"], abs=1e-6)
    assert list(found["buckets"]) == list(written["buckets"])


def test_a_model_is_evaluated_on_a_file(letters_run, here):
    (here / "mine.tsv").write_text("yes\ta b\nno\tc d\nyes\tb\n")
    found = json.loads(run("eval", letters_run, "--plugin", PLUGIN, "--data", "mine.tsv", "--json").stdout)
    assert found["data"] == "mine.tsv"
    assert found["total"]["examples"] == 3
    assert {name: score["examples"] for name, score in found["buckets"].items()} == {"1": 1, "2": 2}
    (here / "mine.tsv").write_text("yes\ta b\nperhaps\tc d\n")
    result = run("eval", letters_run, "--plugin", PLUGIN, "--data", "mine.tsv", code=2)
    assert result.stderr.strip() == "crvnn: mine.tsv:2: expected a label, a tab and letters"


def test_settings_of_the_task_may_change_in_an_evaluation(letters_run):
    args = ("eval", letters_run, "--plugin", PLUGIN, "--split", "train", "--json")
    assert json.loads(run(*args, "--set", "task.rows=11").stdout)["total"]["examples"] == 11
    assert "only the task's settings can change" in run(*args, "--set", "model.width=3", code=2).stderr


def test_a_file_and_a_split_are_not_evaluated_at_once(letters_run):
    result = run("eval", letters_run, "--plugin", PLUGIN, "--data", "x", "--split", "dev", code=2)
    assert "give --data or --split, not both." in result.stderr


def test_an_unknown_split_or_run_is_one_clear_message(letters_run):
    result = run("eval", letters_run, "--plugin", PLUGIN, "--split", "devv", code=2)
    assert result.stderr.startswith("crvnn: no split is called 'devv'. Did you mean 'dev'?")
    assert "nowhere: there is no such run directory" in run("eval", "nowhere", code=2).stderr


def test_each_text_has_a_line_with_its_label(letters_run, small_catalog):
    result = run("predict", letters_run, "a b", "c d e", "--plugin", PLUGIN)
    wanted = load(letters_run, small_catalog).predict(["a b", "c d e"])
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == [answer.label for answer in wanted]
    assert [line[1] for line in lines] == [f"{answer.probabilities[answer.label]:.1%}" for answer in wanted]
    assert [line[2] for line in lines] == ["a b", "c d e"]


def test_trees_are_shown_when_asked_for(letters_run, small_catalog):
    result = run("predict", letters_run, "a b c", "--trees", "--plugin", PLUGIN)
    _, tree = result.stdout.splitlines()
    assert tree.strip() in ("((a b) c)", "(a (b c))")


def test_predictions_can_be_printed_as_json(letters_run, small_catalog):
    found = json.loads(run("predict", letters_run, "a b c", "f", "--plugin", PLUGIN, "--json").stdout)
    wanted = load(letters_run, small_catalog).predict(["a b c", "f"])
    assert [each["text"] for each in found] == ["a b c", "f"]
    assert [each["label"] for each in found] == [answer.label for answer in wanted]
    for each, answer in zip(found, wanted, strict=True):
        assert each["probabilities"] == pytest.approx(answer.probabilities)
        assert each["trees"][0].replace("(", "").replace(")", "").split() == leaves(answer.tree)


def test_tokens_that_the_model_does_not_know_are_named(letters_run):
    args = ("predict", letters_run, "a b", "zebra a yak zebra", "--plugin", PLUGIN)
    result = run(*args)
    assert result.stderr.splitlines() == ["crvnn: text 2: unknown to the model: 'zebra', 'yak'"]
    found = json.loads(run(*args, "--json").stdout)
    assert [each["unknown"] for each in found] == [[], ["zebra", "yak"]]
    assert [each["tokens"] for each in found] == [[["a", "b"]], [["zebra", "a", "yak", "zebra"]]]


def test_of_many_texts_with_unknown_tokens_the_first_are_named_and_all_counted(letters_run):
    texts = [" ".join(f"x{i}" for i in range(12)), *(["a zebra"] * 11), "a"]
    lines = run("predict", letters_run, *texts, "--plugin", PLUGIN).stderr.splitlines()
    assert lines[0].endswith("'x8', 'x9' and 2 more")
    assert lines[9:] == [
        "crvnn: text 10: unknown to the model: 'zebra'",
        "crvnn: 12 of 13 texts have tokens unknown to the model",
    ]


@pytest.mark.parametrize("way", ["file", "stdin"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_texts_are_read_from_a_file_or_from_standard_input(letters_run, here, way, end):
    content = end.join(["a b", "c", "d e f"])
    (here / "texts").write_bytes(content.encode())
    args = ("texts",) if way == "file" else ("-",)
    result = run("predict", letters_run, "--plugin", PLUGIN, "--file", *args, "--json", stdin=content)
    assert [each["text"] for each in json.loads(result.stdout)] == ["a b", "c", "d e f"]


def test_pairs_are_two_texts_or_two_columns(pairs_run, here):
    by_argument = run("predict", pairs_run, "a b", "a", "c", "d e", "--plugin", PLUGIN, "--json")
    (here / "pairs").write_text("a b\ta\nc\td e\n")
    by_file = run("predict", pairs_run, "--file", "pairs", "--plugin", PLUGIN, "--json")
    assert json.loads(by_argument.stdout) == json.loads(by_file.stdout)
    assert [each["text"] for each in json.loads(by_file.stdout)] == [["a b", "a"], ["c", "d e"]]
    assert all(len(each["trees"]) == 2 for each in json.loads(by_file.stdout))
    shown = run("predict", pairs_run, "a b", "a", "--plugin", PLUGIN)
    assert shown.stdout.rstrip().endswith("\ta b  |  a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nc d\n", "pairs:2: expected two texts with a tab between them"),
        ("a\t\n", "pairs:1: expected two texts with a tab between them"),
        ("a\tb\n\nc\td\n", "pairs:2: the line is empty"),
    ],
)
def test_a_line_that_is_no_pair_is_named(pairs_run, here, content, message):
    (here / "pairs").write_text(content)
    result = run("predict", pairs_run, "--file", "pairs", "--plugin", PLUGIN, code=2)
    assert result.stderr.strip() == f"crvnn: {message}"


def test_a_file_that_is_no_text_is_one_clear_message(letters_run, here):
    (here / "texts").write_bytes(b"caf\xe9\n")
    result = run("predict", letters_run, "--file", "texts", "--plugin", PLUGIN, code=2)
    assert "texts" in result.stderr
    assert "UTF-8" in result.stderr


def test_texts_and_pairs_that_cannot_be_predicted_are_usage_errors(letters_run, pairs_run, here):
    (here / "texts").write_text("a\n")
    for args in ((), ("a", "--file", "texts")):
        assert "give texts, or a file of them" in run("predict", letters_run, *args, code=2).stderr
    result = run("predict", pairs_run, "a", "b", "c", "--plugin", PLUGIN, code=2)
    assert "the task is about pairs of texts; 3 cannot be paired" in result.stderr
    assert "No such file" in run("predict", letters_run, "--file", "nowhere", code=2).stderr


def test_an_empty_text_is_one_clear_message(letters_run):
    result = run("predict", letters_run, "a", " ", "--plugin", PLUGIN, code=2)
    assert result.stderr.strip() == "crvnn: text 2 is empty: there is nothing to predict"


def test_a_run_whose_task_is_not_installed_names_it(letters_run):
    result = run("predict", letters_run, "a", code=2)
    assert "no task is called 'letters'" in result.stderr


def test_a_damaged_run_is_one_clear_message(letters_run, here):
    shutil.copytree(letters_run, here / "a")
    weights = here / "a" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    result = run("predict", "a", "b", "--plugin", PLUGIN, code=2)
    assert result.stderr.startswith("crvnn: a/weights.safetensors is damaged: ")
    assert len(result.stderr.splitlines()) == 1
