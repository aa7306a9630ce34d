"""Accuracy and depth by group or length."""

import re
import shutil

from hypothesis import given
from hypothesis import strategies as st

from crvnn_report.sections.groups import length_ranges
from reporting import report


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
