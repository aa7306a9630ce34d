"""``crvnn data check``."""

import gzip
import json
import sys
from collections import Counter
from itertools import pairwise

import pytest
from click.testing import CliRunner

from crvnn_core import CrvnnError
from crvnn_tasks.data import check as checking
from crvnn_tasks.data.check import check_command
from crvnn_tasks.data.survey import histogram
from crvnn_tasks.sst import Sst5

TRAIN = "(4 (4 Great) (2 film))\n(0 (0 bad) (0 (2 film) (2 .)))\n(0 (0 Bad) (0 (2 film) (2 .)))\n(2 so)\n"


@pytest.fixture
def sst(tmp_path):
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "dev.txt").write_text("(4 (4 great) (2 film))\n(1 (1 boring) (2 film))\n")
    return tmp_path


def run(*args, code=0):
    """Run the command in this process; our own errors come through."""
    result = CliRunner().invoke(check_command, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_rows_labels_and_lengths_are_counted(sst):
    assert run("sst5", "--dir", sst).stdout.splitlines() == [
        f"train: 4 rows  ({sst / 'train.txt'})",
        "  labels: very negative 2 (50.0%), negative 0 (0.0%), neutral 1 (25.0%), positive 0 (0.0%), "
        "very positive 1 (25.0%)",
        "  tokens: mean 2.2, median 2.5, at most 3",
        "    1  1",
        "    2  1",
        "    3  2",
        "  rows with a text that an earlier row of this split has: 1",
        f"dev: 2 rows  ({sst / 'dev.txt'})",
        "  labels: very negative 0 (0.0%), negative 1 (50.0%), neutral 0 (0.0%), positive 0 (0.0%), "
        "very positive 1 (50.0%)",
        "  tokens: mean 2.0, median 2, at most 2",
        "    1  0",
        "    2  2",
        "  rows with a text that is in 'train' too: 1",
        "test: missing",
        f"  {sst} has no test.txt or trees/test.txt. It has dev.txt, train.txt.",
        f"  The data comes from {Sst5.source}.",
        "6 rows are well-formed, 0 are malformed.",
    ]


def test_a_file_that_the_user_names_is_an_error_when_it_is_missing(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("text,label\nfine,5\nbad,1\n")
    lines = run(
        "from-file", "--set", f"train={path}", "--set", f"dev={tmp_path / 'mi.csv'}", code=1
    ).stdout.splitlines()
    assert lines[0] == f"train: 2 rows  ({path})"
    assert f"  {tmp_path} has no mi.csv. Did you mean 'my.csv'? It has my.csv." in lines


def test_broken_rows_are_named_by_file_and_line_and_the_exit_code_is_1(sst):
    (sst / "dev.txt").write_text("(4 great)\n(5 good)\n\n(1 (1 bad)\n")
    lines = run("sst5", "--dir", sst, code=1).stdout.splitlines()
    assert f"  {sst / 'dev.txt'}:2: after '(' comes a label from 0 to 4, not '5'" in lines
    assert f"  {sst / 'dev.txt'}:4: the brackets are unbalanced: 1 of them never close" in lines
    assert lines[-1] == "5 rows are well-formed, 2 are malformed."
    (sst / "train.txt").write_text("(1 a)\n(3 b)\n" + "(x a)\n" * 30)
    lines = run("sst5", "--set", f"directory={sst}", code=1).stdout.splitlines()
    assert sum(f"{sst / 'train.txt'}:" in line for line in lines) == 20
    assert "  and 10 more malformed rows" in lines
    assert lines[-1] == "3 rows are well-formed, 32 are malformed."


def test_machines_get_json(sst):
    (sst / "dev.txt").write_text("(4 great)\n(5 good)\n")
    facts = json.loads(run("sst5", "--dir", sst, "--json", code=1).stdout)
    assert facts["task"] == "sst5"
    assert facts["broken"] == 1
    assert list(facts["missing"]) == ["test"]
    assert "crvnn data get sst" in facts["missing"]["test"]
    assert facts["changed"] == []
    train, dev = facts["splits"]["train"], facts["splits"]["dev"]
    assert train["rows"] == 4
    assert train["labels"] == {
        "very negative": 2,
        "negative": 0,
        "neutral": 1,
        "positive": 0,
        "very positive": 1,
    }
    assert train["length"]["max"] == 3
    assert train["length"]["histogram"][-1] == {"from": 3, "to": 3, "count": 2}
    assert train["repeated"] == 1
    assert train["error"] == ""
    assert dev["files"] == [str(sst / "dev.txt")]
    assert dev["faults"] == [
        {"file": str(sst / "dev.txt"), "line": 2, "fault": "after '(' comes a label from 0 to 4, not '5'"}
    ]


def test_both_sentences_of_a_pair_are_counted(tmp_path):
    pair = {"gold_label": "neutral", "sentence1": "a b c", "sentence2": "d"}
    (tmp_path / "train.jsonl").write_text(json.dumps(pair))
    facts = json.loads(run("snli", "--dir", tmp_path, "--json").stdout)
    assert facts["splits"]["train"]["length"] == {
        "mean": 2.0,
        "median": 2.0,
        "max": 3,
        "histogram": [{"from": n, "to": n, "count": count} for n, count in ((1, 1), (2, 0), (3, 1))],
    }


def test_settings_of_the_task_can_be_given(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("review,stars\nfine,5\nbad,1\nok,\n")
    result = run(
        *("from-file", "--set", f"task.train={path}", "--set", 'text=["review"]'),
        *("--set", "label=stars", "--set", "dev_share=0"),
        code=1,
    )
    assert "  labels: 1 1 (50.0%), 5 1 (50.0%)" in result.stdout
    assert f"  {path}:4: 'stars' is empty" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # The catalog has an example of every task's settings for its contract, which says nothing of the user's files.
        ("sst5", "task 'sst5' needs the directory of its files: --dir DIRECTORY"),
        ("from-file", r"task 'from-file' needs a 'train': --set task\.train="),
        ("from-file --dir .", "task 'from-file' has no directory; name its files with --set"),
        ("sst --dir .", "no task is called 'sst'"),
        ("sst5 --dir . --set phrase=true", r"has no parameter 'phrase'\. Did you mean 'phrases'"),
        ("snli --dir . --set max_tokens=-1", "--set max_tokens=-1: must be at least 0"),
    ],
)
def test_missing_and_unknown_settings_are_errors_that_name_them(arguments, message):
    with pytest.raises(CrvnnError, match=message):
        run(*arguments.split())


def test_a_task_that_reads_no_files_cannot_be_checked(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from crvnn_core import Component, Task, hookimpl\n"
        "class Mine(Task):\n    def examples(self, split, seed):\n        return iter(())\n"
        "@hookimpl\ndef crvnn_tasks():\n    return [Component('mine', Mine)]\n"
    )
    with pytest.raises(CrvnnError, match=r"task 'mine' .* reads no files$"):
        run("mine", "--plugin", plugin)


def test_a_missing_training_file_is_told_of_and_the_rest_is_checked(sst):
    (sst / "train.txt").unlink()
    lines = run("sst5", "--dir", sst, code=1).stdout.splitlines()
    assert lines[0] == "train: 0 rows  ()"
    assert "has no train.txt" in lines[1]
    assert lines[-1] == "2 rows are well-formed, 0 are malformed."


def test_a_file_that_is_cut_short_is_told_of_after_what_could_be_read(sst):
    whole = gzip.compress(b"".join(b"(1 word%d)\n" % number for number in range(20_000)))
    (sst / "dev.txt").rename(sst / "other.txt")
    (sst / "dev.txt.gz").write_bytes(whole[: len(whole) // 2])
    facts = json.loads(run("sst5", "--dir", sst, "--json", code=1).stdout)["splits"]["dev"]
    assert "damaged or cut short" in facts["error"]
    assert 0 < facts["rows"] < 20_000


def test_a_file_that_changed_since_it_was_fetched_is_told_of(sst):
    record = {"train.txt": {"sha256": "0" * 64, "url": "https://example.org/train.txt"}}
    (sst / "checksums.json").write_text(json.dumps(record))
    result = run("sst5", "--dir", sst, code=1)
    assert f"{sst / 'train.txt'} has changed since it was downloaded: its checksum differs" in result.stdout
    assert json.loads(run("sst5", "--dir", sst, "--json", code=1).stdout)["changed"] == ["train.txt"]


def test_a_terminal_gets_bars(sst, monkeypatch):
    monkeypatch.setattr(checking, "_block", lambda: "#")
    assert f"    3  2  {'#' * 40}\n" in run("sst5", "--dir", sst).stdout
    assert f"    2  1  {'#' * 20}\n" in run("sst5", "--dir", sst).stdout


def test_bars_are_made_of_what_the_terminal_can_show(monkeypatch):
    class Stream:
        def __init__(self, terminal, encoding):
            self.isatty, self.encoding = lambda: terminal, encoding

    for terminal, encoding, block in ((True, "utf-8", "█"), (True, "ascii", "#"), (False, "utf-8", "")):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", Stream(terminal, encoding))
            assert checking._block() == block


@pytest.mark.parametrize("longest", [1, 12, 13, 24, 25, 99_999])
def test_histograms_have_few_bars_and_every_sequence(longest):
    bars = histogram(Counter([1, longest, longest]))
    assert 1 <= len(bars) <= 12
    assert bars[0]["from"] == 1
    assert all(bar["from"] == before["to"] + 1 for before, bar in pairwise(bars))
    assert bars[-1]["from"] <= longest <= bars[-1]["to"]
    assert sum(bar["count"] for bar in bars) == 3
