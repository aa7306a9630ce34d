"""The task ``in-memory``: rows that a program has."""

import numpy as np
import pytest

from crvnn_core import Component, CrvnnError, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_tasks.in_memory import InMemory, Row, checksum, read_rows
from sentences import LABELS, PAIRS, SAME, TEXTS


def with_rows(texts=TEXTS, labels=LABELS, **settings):
    task = InMemory(**settings)
    task.give({"train": read_rows(texts, labels)})
    return task


@pytest.mark.parametrize(
    "build", [with_rows, lambda: with_rows(PAIRS, SAME, pairs=True), lambda: with_rows(dev_share=0)]
)
def test_it_satisfies_the_contract_of_tasks(build):
    outcomes = list(run_checks(Component("in-memory", build), CHECKS["task"]))
    assert [outcome for outcome in outcomes if not outcome.kept] == []


@pytest.mark.parametrize("labels", [[n / 7 for n in range(40)], range(40), np.linspace(0, 1, 40)])
def test_labels_that_are_nearly_all_different_numbers_are_refused(labels):
    texts = ["a text"] * 40
    with pytest.raises(InputError) as caught:
        read_rows(texts, labels)
    first, second = str(caught.value).splitlines()
    assert first.startswith("the labels are 40 different numbers in 40 rows, and a class for each would be")
    assert second.endswith(
        "into a few bins, or train a class for each with strings: [str(label) for label in labels]"
    )
    assert len(read_rows(texts, list(map(str, labels)))) == 40
    assert len(read_rows(texts, labels, "dev")) == 40


def test_without_rows_everything_that_needs_them_says_where_they_come_from():
    task = InMemory()
    for needs in (lambda: task.vocabulary, lambda: task.classes, lambda: list(task.examples("dev", 0))):
        with pytest.raises(CrvnnError, match=r"crvnn.train\(spec, texts=..., labels=...\) trains on rows"):
            needs()


def test_the_checksum_depends_on_every_text_label_and_split():
    rows = (Row(("a", "b"), "1"), Row(("b", "c"), "2"))
    sums = [
        checksum({"train": rows}),
        checksum({"train": rows[::-1]}),
        checksum({"train": rows, "dev": rows}),
        checksum({"train": rows, "test": rows}),
        checksum({"train": (Row(("a", "b"), "2"), rows[1])}),
        checksum({"train": (Row(("a b",), "1"), rows[1])}),
    ]
    assert len(set(sums)) == len(sums)
    assert checksum({"train": list(rows)}) == sums[0]


@pytest.mark.parametrize("settings", [{"min_count": 0}, {"dev_share": 1.0}, {"dev_share": -0.1}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        InMemory(**settings)


def test_a_file_is_read_with_the_same_tokens_and_classes(tmp_path):
    (tmp_path / "my.csv").write_text("text,label\nABC,negative\nb,positive\n")
    task = with_rows(tokens="characters")
    examples = list(task.read(tmp_path / "my.csv"))
    assert [(example.sequences[0], task.classes[example.label]) for example in examples] == [
        (("a", "b", "c"), "negative"),
        (("b",), "positive"),
    ]


def test_a_file_of_pairs_is_read_by_its_columns(tmp_path):
    (tmp_path / "my.csv").write_text("text_a,text_b,label\none,two,True\n")
    task = with_rows(PAIRS, SAME, pairs=True)
    (example,) = task.read(tmp_path / "my.csv")
    assert example.sequences == (("one",), ("two",))
