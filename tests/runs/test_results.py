"""Precision, recall and F1 from a confusion matrix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import InputError
from crvnn_core.runs.results import Classification

CLASSES = ("a", "b", "c", "d")
PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


def counted(pairs):
    return Classification.count(CLASSES, *zip(*pairs, strict=True))


@given(PAIRS)
def test_scores_agree_with_their_definitions(pairs):
    found = counted(pairs)
    f1s = []
    for label, score in enumerate(found.scores):
        gold = {i for i, (wanted, _) in enumerate(pairs) if wanted == label}
        said = {i for i, (_, answer) in enumerate(pairs) if answer == label}
        assert (score.name, score.support, score.predicted) == (CLASSES[label], len(gold), len(said))
        assert score.precision == (len(gold & said) / len(said) if said else None)
        assert score.recall == (len(gold & said) / len(gold) if gold else None)
        if not gold and not said:
            assert score.f1 is None
            continue
        precision, recall = score.precision or 0.0, score.recall or 0.0
        wanted = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        assert score.f1 == pytest.approx(wanted)
        f1s.append(score.f1)
    assert found.macro_f1 == pytest.approx(sum(f1s) / len(f1s))


def test_scores_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (0, 0), (1, 0), (2, 1)]
    gold, said = zip(*pairs, strict=True)
    assert counted(pairs).macro_f1 == pytest.approx(metrics.f1_score(gold, said, average="macro"))
    assert [row[:3] for row in counted(pairs).confusion[:3]] == metrics.confusion_matrix(gold, said).tolist()


def test_the_matrix_has_a_row_for_each_gold_class():
    found = counted([(0, 1), (0, 1), (1, 1), (3, 0)])
    assert found.confusion == [[0, 2, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert found.confusions() == [(2, "a", "b"), (1, "d", "a")]
    assert found.absent == ("c",)
    assert found.never_predicted == ("d",)


@given(PAIRS, PAIRS)
def test_the_sum_of_two_is_that_of_all_examples(one, two):
    assert (counted(one) + counted(two)).confusion == counted(one + two).confusion


def test_different_classes_have_no_sum():
    with pytest.raises(InputError, match="the classes differ"):
        counted([(0, 0)]) + Classification.count(("a",), [0], [0])
