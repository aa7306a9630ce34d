"""The Stanford Sentiment Treebank."""

import gzip
import re

import pytest

from crvnn_core import Component, Example, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_tasks.sst import Sst2, Sst5, read_tree

TRAIN = """\
(3 (2 A) (4 (4 great) (2 film)))
(0 (1 (2 Not) (1 bad)) (0 terrible))
(2 (2 A) (2 film))
(1 (2 It) (1 (2 's) (1 (2 not) (1 (1 bad) (2 .)))))
"""
DEV = """\
(4 (4 Great) (2 film))
(2 (2 So) (2 it))
(1 (1 bad) (2 !))
"""
TEST = "(1 (1 Not) (1 bad))\n"


@pytest.fixture
def directory(tmp_path):
    for name, text in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def rows(task, split):
    return [(" ".join(example.sequences[0]), example.label) for example in task.examples(split, 0)]


@pytest.mark.parametrize(
    ("line", "words", "phrases"),
    [
        (
            "(3 (2 Not) (1 (1 really) (0 (2 so) (1 bad))))",
            ("not", "really", "so", "bad"),
            [(0, 1, 2), (1, 2, 1), (2, 3, 2), (3, 4, 1), (2, 4, 0), (1, 4, 1), (0, 4, 3)],
        ),
        ("( 3(2 a)( 4  b ) )", ("a", "b"), [(0, 1, 2), (1, 2, 4), (0, 2, 3)]),
        (
            "(2 (2 its) (2 2\u00a01\\/2))",
            ("its", "2", "1/2"),
            [(0, 1, 2), (1, 3, 2), (0, 3, 2)],
        ),  # as published
        ("(2 (2 -LRB-) (2 \\*\\*))", ("(", "**"), [(0, 1, 2), (1, 2, 2), (0, 2, 2)]),
        ("(2 (2 Yes\\/No) (2 -lsb-))", ("yes/no", "["), [(0, 1, 2), (1, 2, 2), (0, 2, 2)]),
    ],
)
def test_a_tree_gives_its_words_and_every_phrase_the_whole_last(line, words, phrases):
    assert (read_tree(line).words, read_tree(line).phrases) == (words, phrases)


def test_very_deep_trees_are_read():
    depth = 50_000
    tree = read_tree("(2 (2 a) " * depth + "(1 b)" + ")" * depth)
    assert len(tree.words) == depth + 1
    assert tree.phrases[-1] == (0, depth + 1, 2)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("(3 (2 a) (4 b)", "the brackets are unbalanced: 1 of them never close"),
        ("(3 (2 a) (4 b", "the brackets are unbalanced: 2 of them never close"),
        ("(3 (2 a) (4 b)))", "')' comes after the end of the tree"),
        ("(3 a) (2 b)", "'(' comes after the end of the tree"),
        ("(5 a)", "after '(' comes a label from 0 to 4, not '5'"),
        ("(3 (2 a) (-1 b))", "after '(' comes a label from 0 to 4, not '-1'"),
        ("(3 (good a))", "after '(' comes a label from 0 to 4, not 'good'"),
        ("()", "after '(' comes a label from 0 to 4, not ')'"),
        ("(", "after '(' comes a label from 0 to 4, not ''"),
        ("(3 )", "there is a label without a text"),
        ("(3 (2 a) (2 ))", "there is a label without a text"),
        ("a film", "a tree begins with '(', not with 'a'"),
        ("(3 a (2 b))", "the word 'a' needs a label of its own"),
        ("(3 (2 a) b)", "the word 'b' needs a label of its own"),
    ],
)
def test_what_is_wrong_with_a_tree_is_said(line, fault):
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
        read_tree(line)


GRADES = {
    Sst5: {
        "train": [("a great film", 3), ("not bad terrible", 0), ("a film", 2), ("it 's not bad .", 1)],
        "dev": [("great film", 4), ("so it", 2), ("bad !", 1)],
    },
    Sst2: {
        "train": [("a great film", 1), ("not bad terrible", 0), ("it 's not bad .", 0)],
        "dev": [("great film", 1), ("bad !", 0)],
    },
}


@pytest.mark.parametrize("build", [Sst5, Sst2])
def test_whole_sentences_have_five_grades_or_two_without_the_neutral_ones(directory, build):
    task = build(str(directory))
    assert {split: rows(task, split) for split in ("train", "dev")} == GRADES[build]
    assert rows(build(str(directory), phrases=True), "dev") == GRADES[build]["dev"]
    assert task.classes[0] == ("very negative" if build is Sst5 else "negative")


def test_phrases_come_once_each_with_their_most_frequent_label(directory):
    found = rows(Sst5(str(directory), phrases=True), "train")
    texts = [text for text, _ in found]
    assert len(set(texts)) == len(texts)
    assert dict(found)["a great film"] == 3
    assert dict(found)["great"] == 4
    assert dict(found)["bad"] == 1
    two = dict(rows(Sst2(str(directory), phrases=True), "train"))
    assert (two["great"], two["bad ."]) == (1, 0)
    assert not {"a", "a film"} & two.keys()  # neutral
    (directory / "train.txt").write_text("(2 (1 Not) (2 (2 not) (2 not)))\n")
    assert dict(rows(Sst5(str(directory), phrases=True), "train"))["not"] == 2


def test_phrases_that_are_whole_sentences_of_other_splits_are_left_out(directory):
    texts = {text for text, _ in rows(Sst5(str(directory), phrases=True), "train")}
    assert "great film" not in texts  # a sentence of dev.txt
    assert "not bad" not in texts  # and one of test.txt
    (directory / "test.txt").unlink()
    assert "not bad" in {text for text, _ in rows(Sst5(str(directory), phrases=True), "train")}


@pytest.mark.parametrize("settings", [{}, {"phrases": True}])
def test_a_malformed_tree_is_named_by_file_and_line(directory, settings, capsys):
    path = directory / "train.txt"
    path.write_text("(3 a)\n\n(3 (2 b)\n(1 c)\n")
    with pytest.raises(InputError) as caught:
        rows(Sst5(str(directory), **settings), "train")
    assert str(caught.value).startswith(f"{path}:3: the brackets are unbalanced")
    task = Sst5(str(directory), bad_rows="skip", **settings)
    assert rows(task, "train") == [("a", 3), ("c", 1)]
    assert "skipped 1 of 3 rows; the first is line 3" in capsys.readouterr().err
    assert [(row.line, bool(row.fault)) for row in task.rows("train") if row.fault] == [(3, True)]


def test_files_may_be_packed_or_in_the_folder_of_the_archive(directory):
    before = {split: rows(Sst5(str(directory)), split) for split in ("train", "dev")}
    (directory / "train.txt.gz").write_bytes(gzip.compress((directory / "train.txt").read_bytes()))
    (directory / "train.txt").unlink()
    (directory / "trees").mkdir()
    (directory / "dev.txt").rename(directory / "trees" / "dev.txt")
    assert {split: rows(Sst5(str(directory)), split) for split in ("train", "dev")} == before


def test_a_users_text_becomes_words_as_the_treebank_has_them(directory):
    task = Sst5(str(directory))
    for text, words in (
        ('It\u2019s "great" (if long)... a must-see!', "it 's `` great '' ( if long ) ... a must-see !"),
        ("Isn't it -LRB- so\\/so -RRB- --ok", "is n't it ( so/so ) -- ok"),
    ):
        assert task.tokenize(text) == tuple(words.split())


def test_words_that_training_met_stay_whole(directory):
    task = Sst5(str(directory))
    assert task.tokenize("Mr. X") == ("mr", ".", "x")
    task.vocabulary = ("mr.", "x")  # as a saved model does
    assert task.tokenize("Mr. X") == ("mr.", "x")


@pytest.mark.parametrize(("build", "phrases"), [(Sst2, True), (Sst5, False)])
def test_it_keeps_the_contract(directory, build, phrases):
    component = Component("sst", build, example={"directory": str(directory), "phrases": phrases})
    assert [outcome for outcome in run_checks(component, CHECKS["task"]) if not outcome.kept] == []


def test_sentences_that_were_read_have_their_published_trees(directory):
    task = Sst5(str(directory))
    golds = [task.gold(example)[0] for example in task.examples("train", 0)]
    assert list(map(str, golds)) == [
        "(a (great film))",
        "((not bad) terrible)",
        "(a film)",
        "(it ('s (not (bad .))))",
    ]
    assert task.gold(Example((("never", "read"),), 0)) == (None,)


def test_a_tree_that_is_not_binary_is_no_gold_tree(tmp_path):
    (tmp_path / "dev.txt").write_text(
        "(2 (2 so) (2 it) (2 goes))\n(2 (2 -LRB-) (2 1\\/2))\n", encoding="utf-8"
    )
    task = Sst5(str(tmp_path))
    one, two = (task.gold(example)[0] for example in task.examples("dev", 0))
    assert one is None
    assert two.tokens == ("(", "1/2")


def test_sentences_to_predict_may_have_a_label_that_is_no_class(directory):
    found = list(Sst2(str(directory)).inputs(directory / "dev.txt"))
    assert [(row.line, row.texts[0], row.gold) for row in found] == [
        (1, "great film", "positive"),
        (2, "so it", ""),
        (3, "bad !", "negative"),
    ]
    assert found[0].sequences == (("great", "film"),)


def test_a_bad_tree_among_trees_is_a_fault_and_plain_sentences_have_another_form(directory, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(DEV + "\n(1 (1 bad)\n", encoding="utf-8")
    assert [(row.line, bool(row.fault)) for row in Sst2(str(directory)).inputs(path)][2:] == [
        (3, False),
        (5, True),
    ]
    path.write_text("A great film\n", encoding="utf-8")
    assert Sst2(str(directory)).inputs(path) is None
