"""Readers take time in proportion to the text; some were quadratic once."""

import contextlib
import gc
import time

import pytest

from crvnn_core import CrvnnError, Tree
from crvnn_core.spec import layers
from crvnn_tasks.sst import Sst5, read_tree
from crvnn_tasks.tokenization import words


def test_the_time_for_a_table_header_is_linear_in_its_spaces():
    assert_linear(lambda size: layers.key_lines(f"[a{' ' * size}x"), 20_000)


def assert_linear(work, size):
    """Four times the size takes about four times the time; sixteen times would be quadratic."""

    def least(size):
        times = []
        for _ in range(3):
            gc.disable()  # whose time depends on what else is in memory
            began = time.process_time()
            work(size)
            times.append(time.process_time() - began)
            gc.enable()
        return min(times)

    least(size)
    assert least(4 * size) < 9 * least(size) + 0.02


READERS = {
    "words, clitics": (lambda size: words("a" + "n't" * size), 20_000),
    "words, combining marks": (lambda size: words("a" + "\u0301\u0316" * size), 10_000),
    "words, letters": (lambda size: words("é" * size), 50_000),
    "treebank words": (lambda size: Sst5("nowhere").tokenize("a" * size), 3_000),
    "brackets, spaces": (lambda size: attempt(Tree.read, " " * size, "brackets"), 20_000),
    "brackets, open": (lambda size: attempt(Tree.read, "(" * size, "brackets"), 20_000),
    "labelled trees, spaces": (lambda size: attempt(Tree.read, " " * size, "nltk"), 20_000),
    "labelled trees, one behind the other": (
        lambda size: attempt(Tree.read, "(X a) " * size, "nltk"),
        10_000,
    ),
    "JSON trees": (lambda size: attempt(Tree.read, '{"tokens":["a"],"nodes":[]}' * size, "json"), 10_000),
    "sentiment trees": (lambda size: attempt(read_tree, "(3 (2 a) (1 b)) " * size), 10_000),
    "sentiment brackets": (lambda size: attempt(read_tree, "(3 " * size), 10_000),
}


def attempt(read, *args):
    with contextlib.suppress(CrvnnError, ValueError):
        read(*args)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_the_time_of_a_reader_is_linear_in_the_text(monkeypatch, reader):
    monkeypatch.setattr(Sst5, "vocabulary", ())
    assert_linear(*reader)


def test_many_clitics_are_split_as_a_few_are():
    assert words("shouldn't've") == ("should", "n't", "'ve")
    assert words("n't" * 3) == ("n't", "n't", "n't")
    assert words("'s" * 2) == ("'s", "'s")
