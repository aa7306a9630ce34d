"""Samples of a split."""

from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example
from crvnn_report.samples import _spread


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(0, 8))
def test_examples_to_show_are_different_and_of_all_lengths(lengths, most):
    lengths.sort()
    examples = [Example((("a",) * length,), 0) for length in lengths]
    found = _spread(range(len(examples)), examples, most)
    shown = [lengths[number] for number in found]
    assert len(shown) == len(set(shown)) == min(most, len(set(lengths)))
    assert shown == sorted(shown)
