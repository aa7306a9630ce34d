"""Confusion matrices."""

from crvnn_report.models import Prediction
from crvnn_report.sections.confusion import confusion_counts


def test_confusion_counts_predicted_labels_by_gold_label():
    predictions = [Prediction(1, 1, gold, said) for gold, said in ("ab", "aa", "ab", "ba")]
    assert confusion_counts(predictions, ["a", "b"]) == [[1, 2], [1, 0]]
