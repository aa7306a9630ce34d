"""Confusion matrices."""

from crvnn_report.models import Prediction
from crvnn_report.sections.confusion import confusion_counts


def test_confusion_counts_predicted_labels_by_gold_label():
    predictions = [Prediction(1, 1, gold, said) for gold, said in ("ab", "aa", "ab", "ba")]
    assert confusion_counts(predictions, ["a", "b"]) == [[1, 2], [1, 0]]


def test_the_axes_of_a_matrix_say_which_is_true_and_which_is_predicted(both):
    outline, text = both
    assert ">true label</text>" in text
    assert ">predicted label</text>" in text
    assert "true / predicted, " in outline.section("confusion")
    assert "<title>true no, predicted no: " in text
