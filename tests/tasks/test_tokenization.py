"""Words of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_tasks.tokenization import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A good film!", "a good film !"),
        ("Don't. It's Ann's, they'll shouldn't've", "do n't . it 's ann 's , they 'll should n't 've"),
        ("don\u2019t", "do n't"),
        ("can't won't shouldn't've", "ca n't wo n't should n't 've"),
        ("n'tn'tn't 's's", "n't n't n't 's 's"),
        ("10 o'clock rock'n'roll", "10 o'clock rock'n'roll"),
        ("the dogs' 'south' 's", "the dogs ' ' south ' 's"),
        ("1,000.5 3.5kg 2nd 1.", "1,000.5 3.5 kg 2nd 1 ."),
        ("well-known U.S. e-mail", "well - known u . s . e - mail"),
        ("a  b\tc\n", "a b c"),
        ("naïve cafe\u0301 co\u00adoperate", "naïve café cooperate"),
        ("हिन्दी में", "हिन्दी में"),
        ("snake_case x² ...", "snake_case x² . . ."),
        ("", ""),
        (" \n", ""),
    ],
)
def test_words(text, expected):
    assert words(text) == tuple(expected.split())


@given(st.one_of(st.text(), st.text(alphabet="nt'srevlmd o.,1-\u2019\u0301é")), st.booleans())
def test_words_of_words_are_the_same_words(text, lower):
    found = words(text, lower)
    assert words(" ".join(found), lower) == found


def test_a_long_chain_of_contractions_breaks_nothing():
    assert len(words("a" + "'s" * 5000)) == 5001


def test_words_can_keep_their_capitals_and_equal_ones_are_one_object():
    assert words("DON'T Shout", lower=False) == ("DO", "N'T", "Shout")
    assert words("a horse is a horse")[1] is words("my horse")[1]
