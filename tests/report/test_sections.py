"""The sections of a report: what differs, curves, groups, depth, confusion, and which examples are shown."""

import math
import re
import shutil
from importlib.resources import files

from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example
from crvnn_core.runs.records import Variant
from crvnn_report.page import SECTIONS
from crvnn_report.report import Prediction, VariantModel, _spread
from crvnn_report.sections.groups import length_ranges
from crvnn_report.sections.learning import downsampled, smoothed
from crvnn_report.sections.predictions import confusion_counts, depth_charts
from reporting import report


def test_what_differs_is_shown_and_marked_in_the_whole(both):
    outline, _ = both
    assert "model.cellgatedlstm" in outline.section("differences")
    assert "6 more settings, which only some of them have" in outline.section("differences")
    marked = [element[2] for element in outline.all("tr", **{"class": "marked"})]
    assert "model.cellgatedlstm" in marked
    assert not any("model.width" in each for each in marked)
    assert "model.width" in outline.section("spec")
    assert "torch" in outline.section("spec")


def test_curves_groups_and_depth_are_drawn_for_both(both):
    outline, text = both
    titles = [element[2] for element in outline.all("title")]
    for wanted in ("Loss during training", "Accuracy, % during training", "Accuracy, % by group of test"):
        assert wanted in titles
    assert any("development at step 10: " in title for title in titles)
    assert len(re.findall(r"Depth of the recursion against length", text)) == 2
    assert len(re.findall(r"<title>Confusion matrix of ", text)) == 2


def test_every_template_is_that_of_a_section():
    templates = {path.name for path in files("crvnn_report").joinpath("templates/sections").iterdir()}
    assert templates == {"section.html.jinja", *(f"{section.__name__}.html.jinja" for section in SECTIONS)}


def test_confusion_counts_predicted_labels_by_gold_label():
    predictions = [Prediction(1, 1, gold, said) for gold, said in ("ab", "aa", "ab", "ba")]
    assert confusion_counts(predictions, ["a", "b"]) == [[1, 2], [1, 0]]


def test_the_axes_of_a_matrix_say_which_is_true_and_which_is_predicted(both):
    outline, text = both
    assert ">true label</text>" in text
    assert ">predicted label</text>" in text
    assert "true / predicted, " in outline.section("confusion")
    assert "<title>true no, predicted no: " in text


def test_depth_is_drawn_on_the_same_axes_for_all():
    models = [
        VariantModel(Variant("a", ()), predictions=(Prediction(4, 3, "x", "x"), Prediction(8, 5, "x", "x"))),
        VariantModel(
            Variant("b", ()), predictions=(Prediction(40, 30, "x", "x"), Prediction(1, 0, "x", "x"))
        ),
        VariantModel(Variant("c", ())),
    ]
    found = depth_charts(models)
    assert list(found) == [0, 1]
    ticks = [re.findall(r'<text class="tick[^>]*>[^<]*</text>', drawing) for drawing in found.values()]
    assert ticks[0] == ticks[1]
    assert depth_charts([VariantModel(Variant("a", ()), predictions=(Prediction(1, 0, "x", "x"),))]) == {}


def test_a_task_without_groups_is_shown_by_length(small_catalog, pairs_run):
    outline = report(small_catalog, pairs_run)
    assert outline.section("groups").startswith("By length")
    assert not outline.section("groups").startswith("By length and group")
    assert any(element[2] == "Accuracy, % by tokens" for element in outline.all("title"))


def test_groups_of_few_examples_are_marked(both, small_catalog, letters_run, tmp_path):
    path = tmp_path / "many"
    shutil.copytree(letters_run, path)
    results = path / "results.json"
    results.write_text(re.sub(r'"examples": \d+', '"examples": 30', results.read_text()))
    assert "fewer than 30 examples" in both[0].section("groups")
    assert any(re.search(r", \d+ examples?$", element[2]) for element in both[0].all("title"))
    assert "fewer than 30 examples" not in report(small_catalog, path).section("groups")


@given(st.lists(st.integers(1, 60).map(float), max_size=200))
def test_ranges_of_lengths_cover_each_length_once(lengths):
    lengths.sort()
    found = length_ranges(lengths)
    for length in lengths:
        assert sum(low <= length <= high for low, high in found) == 1


numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(numbers, min_size=1, max_size=400), st.integers(1, 50))
def test_downsampling_keeps_the_order_and_the_range_and_the_mean_of_equal_parts(values, most):
    points = list(enumerate(values))
    found = downsampled(points, most)
    assert len(found) == min(most, len(points))
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    assert all(min(values) - 1e-6 <= y <= max(values) + 1e-6 for _, y in found)
    if len(values) % most == 0:
        assert math.isclose(sum(y for _, y in found) / len(found), sum(values) / len(values), abs_tol=1e-6)


@given(st.lists(numbers, min_size=1, max_size=100))
def test_smoothing_stays_within_the_values_leaves_a_constant_alone_and_removes_an_oscillation(values):
    found = smoothed(list(enumerate(values)))
    assert [x for x, _ in found] == list(range(len(values)))
    assert all(min(values) - 1e-6 <= y <= max(values) + 1e-6 for _, y in found)
    assert all(math.isclose(y, 3.0) for _, y in smoothed([(x, 3.0) for x in range(len(values))]))
    assert all(abs(y - 0.5) < 0.1 for _, y in smoothed([(float(x), float(x % 2)) for x in range(100)]))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(0, 8))
def test_examples_to_show_are_different_and_of_all_lengths(lengths, most):
    lengths.sort()
    examples = [Example((("a",) * length,), 0) for length in lengths]
    found = _spread(range(len(examples)), examples, most)
    shown = [lengths[number] for number in found]
    assert len(shown) == len(set(shown)) == min(most, len(set(lengths)))
    assert shown == sorted(shown)
