"""SNLI and MultiNLI."""

import gzip
import json

import pytest

from crvnn_core import Component, CrvnnError, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_tasks.nli import Mnli, Snli


def pair(label, first, second, **more):
    return json.dumps({"gold_label": label, "sentence1": first, "sentence2": second, **more})


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


TRAIN = (
    pair("entailment", "Two dogs don't run.", "Two dogs rest.", pairID="1"),
    pair("neutral", "A man sleeps.", "He is old."),
    pair("-", "A man sleeps.", "He dreams."),
    pair("contradiction", "A man sleeps in a very large green tent.", "Nobody sleeps."),
)
DEV = (pair("contradiction", "A cat eats.", "A cat flies."), pair("neutral", "A cat eats.", "It is red."))


@pytest.fixture
def snli(tmp_path):
    write(tmp_path / "snli" / "snli_1.0_train.jsonl", *TRAIN)
    write(tmp_path / "snli" / "snli_1.0_dev.jsonl", *DEV)
    write(tmp_path / "snli" / "snli_1.0_test.jsonl", pair("entailment", "A bird sings.", "A bird."))
    return tmp_path / "snli"


@pytest.fixture
def mnli(tmp_path):
    write(
        tmp_path / "mnli" / "multinli_1.0_train.jsonl",
        pair("neutral", "yeah i know", "I knew it", genre="telephone"),
    )
    write(tmp_path / "mnli" / "multinli_1.0_dev_matched.jsonl", pair("entailment", "so i heard", "I heard"))
    write(
        tmp_path / "mnli" / "multinli_1.0_dev_mismatched.jsonl",
        pair("contradiction", "The house burnt", "It stands"),
    )
    return tmp_path / "mnli"


def rows(task, split):
    return [(*(" ".join(s) for s in example.sequences), example.label) for example in task.examples(split, 0)]


def test_the_published_files_of_snli_are_read_without_pairs_that_have_no_agreed_label(snli, capsys):
    task = Snli(str(snli))
    assert [row.line for row in task.rows("train")] == [1, 2, 4]
    assert capsys.readouterr().err == ""
    assert task.splits == ("train", "dev", "test")
    assert rows(task, "train")[0] == ("two dogs do n't run .", "two dogs rest .", 0)
    assert [label for *_, label in rows(task, "train")] == [0, 1, 2]
    assert rows(task, "test") == [("a bird sings .", "a bird .", 0)]
    assert task.arity == 2
    assert task.classes == ("entailment", "neutral", "contradiction")


def test_simple_names_packed_files_and_names_of_the_users_do_as_well(snli):
    before = {split: rows(Snli(str(snli)), split) for split in ("train", "dev", "test")}
    train, dev = snli / "snli_1.0_train.jsonl", snli / "snli_1.0_dev.jsonl"
    (snli / "train.jsonl.gz").write_bytes(gzip.compress(train.read_bytes()))
    train.unlink()
    dev.rename(snli / "some.jsonl")
    assert {split: rows(Snli(str(snli), dev="some.jsonl"), split) for split in before} == before


@pytest.mark.parametrize(("build", "split"), [(Snli, "dev"), (Mnli, "mismatched")])
def test_a_file_that_the_user_names_goes_before_the_published_one_and_may_not_be_missing(
    snli, mnli, build, split
):
    directory = snli if build is Snli else mnli
    write(directory / "mine.jsonl", pair("neutral", "a", "b"))
    assert rows(build(str(directory), **{split: "mine.jsonl"}), split) == [("a", "b", 1)]
    assert build(str(directory), **{split: "mine.jsonl"}).splits == build(str(directory)).splits
    with pytest.raises(CrvnnError, match=r"has no mien\.jsonl\. Did you mean 'mine\.jsonl'"):
        build(str(directory), **{split: "mien.jsonl"}).splits  # noqa: B018
    nowhere = build(str(directory / "nowhere"), **{split: "mien.jsonl"})  # a trained model without its data
    assert nowhere.splits == build(str(directory)).splits


def test_mnli_has_matched_and_mismatched_development_pairs(mnli):
    task = Mnli(str(mnli))
    assert task.splits == ("train", "dev", "mismatched")
    assert rows(task, "dev") == [("so i heard", "i heard", 0)]
    assert rows(task, "mismatched") == [("the house burnt", "it stands", 2)]


def test_mnli_can_be_trained_on_with_snli(mnli, snli):
    task = Mnli(str(mnli), with_snli=str(snli))
    assert rows(task, "train") == rows(Mnli(str(mnli)), "train") + rows(Snli(str(snli)), "train")
    assert rows(task, "dev") == rows(Mnli(str(mnli)), "dev")
    assert task.paths("train") == [mnli / "multinli_1.0_train.jsonl", snli / "snli_1.0_train.jsonl"]
    assert {"yeah", "dogs"} <= set(task.vocabulary)
    (snli / "snli_1.0_train.jsonl").rename(snli / "part.jsonl")
    assert len(rows(Mnli(str(mnli), with_snli=str(snli / "part.jsonl")), "train")) == 4


def test_snli_that_is_missing_is_told_of(mnli, tmp_path):
    task = Mnli(str(mnli), with_snli=str(tmp_path / "nowhere"))
    assert task.splits == ("train", "dev", "mismatched")
    with pytest.raises(CrvnnError, match="crvnn data get snli"):
        rows(task, "train")


def test_long_training_pairs_can_be_left_out_and_are_counted(snli, capsys):
    task = Snli(str(snli), max_tokens=6)
    assert [second for _, second, _ in rows(task, "train")] == ["two dogs rest .", "he is old ."]
    assert rows(task, "train") == rows(task, "train")
    told = capsys.readouterr().err
    assert told == f"crvnn: {snli}: omitted 1 of 3 training pairs with more than 6 tokens\n"
    assert [row.line for row in task.rows("train")] == [1, 2]
    assert len(rows(Snli(str(snli), max_tokens=2), "dev")) == 2  # only training is cut
    with pytest.raises(InputError, match=r"every training pair has more than 1 tokens \(max_tokens\)"):
        rows(Snli(str(snli), max_tokens=1), "train")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            pair("entailmnet", "a", "b"),
            "the label 'entailmnet' is not one of the training labels: entailment, neutral, contradiction. "
            "Did you mean 'entailment'?",
        ),
        (
            pair("hidden", "a", "b"),
            "the label 'hidden' is not one of the training labels: entailment, neutral, contradiction.",
        ),
        (pair("neutral", "", "b"), "'sentence1' is empty"),
        (pair("neutral", "a", "  "), "'sentence2' is empty"),
        (
            '{"gold_label": "neutral", "sentence1": "a"}',
            "there is no 'sentence2'. Did you mean 'sentence1'? There is gold_label, sentence1.",
        ),
        ('{"sentence1": "a", "sentence2": "b"}', "there is no 'gold_label'. There is sentence1, sentence2."),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(snli, line, fault):
    path = snli / "snli_1.0_train.jsonl"
    write(path, TRAIN[0], "", line)
    with pytest.raises(InputError) as caught:
        rows(Snli(str(snli)), "train")
    assert str(caught.value).splitlines()[0] == f"{path}:3: {fault}"
    assert len(rows(Snli(str(snli), bad_rows="skip"), "train")) == 1


def test_both_keep_the_contract(snli, mnli):
    for build, settings in (
        (Snli, {"directory": str(snli), "max_tokens": 8}),
        (Mnli, {"directory": str(mnli), "with_snli": str(snli)}),
    ):
        component = Component("nli", build, example=settings)
        assert [outcome for outcome in run_checks(component, CHECKS["task"]) if not outcome.kept] == []


def test_pairs_to_predict_need_no_label(snli, tmp_path):
    path = tmp_path / "mine.jsonl"
    unlabelled = json.dumps({"sentence1": "A bird.", "sentence2": "It sings."})
    write(path, *TRAIN, unlabelled, "{}", pair("neutral", "", "x"))
    found = list(Snli(str(snli)).inputs(path))
    assert [row.gold for row in found[:5]] == ["entailment", "neutral", "", "contradiction", ""]
    assert found[0].texts == ("Two dogs don't run.", "Two dogs rest.")
    assert found[0].sequences == (("two", "dogs", "do", "n't", "run", "."), ("two", "dogs", "rest", "."))
    assert found[0].columns == {"pairID": "1"}
    assert [(row.line, row.fault[:21]) for row in found[5:]] == [
        (6, "there is no 'sentence"),
        (7, "'sentence1' is empty"),
    ]
    write(tmp_path / "mine.txt", "A bird.\tIt sings.")
    assert Snli(str(snli)).inputs(tmp_path / "mine.txt") is None
