"""Embeddings: vectors at random, vectors from files, and the contract that both keep."""

import gzip
import math
import re
import zipfile

import pytest
import torch

from crvnn_core import Component, CrvnnError, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_core.testing.contracts.embedding import TOKENS
from crvnn_parts.embeddings import GloVe, Random, read_vectors

FILE = """\
the 0.1 0.2 0.3
, 1 2 3
at name@domain.com 4 5 6
cat -1e-2 .5 7
the 9 9 9
dog 8 8.5 -8
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="vectors.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def plain(vectors):
    return {word: [round(float(number), 4) for number in vector] for word, vector in vectors.items()}


def read(path, tokens=("the", "cat"), more=0):
    asked, others = read_vectors(path, frozenset(tokens), more)
    return plain(asked), plain(others)


# Random vectors.


def test_random_vectors_are_drawn_by_torchs_generator_as_its_own_embedding_is():
    torch.manual_seed(5)
    tokens, vectors = Random().table(("a", "b", "c"), 4)
    torch.manual_seed(5)
    assert torch.equal(vectors, torch.nn.Embedding(3, 4).weight)
    assert list(tokens) == ["a", "b", "c"]


def test_random_vectors_have_the_size_that_is_set_or_the_models_width():
    assert Random(size=7).table(("a",), 4)[1].shape == (1, 7)
    assert Random(size=0).table(("a",), 4)[1].shape == (1, 4)
    assert Random().trainable


def test_random_vectors_may_be_uniform_within_a_bound():
    torch.manual_seed(0)
    vectors = Random(bound=0.1).table([str(i) for i in range(100)], 50)[1]
    assert vectors.abs().max() <= 0.1
    assert vectors.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.05)


# Reading files.


WORDS = ("the", "cat")
READ = {
    "the vectors of the tokens and nothing else": (
        (FILE, ("cat", "the", "unicorn"), 0),
        ({"the": [0.1, 0.2, 0.3], "cat": [-0.01, 0.5, 7.0]}, {}),
    ),
    "a word with a space": (
        (FILE, ("at name@domain.com", "at", "at name"), 0),
        ({"at name@domain.com": [4, 5, 6]}, {}),
    ),
    "other words, of one that comes twice the first vector": (
        (FILE, ("dog", "at name@domain.com"), 2),
        ({"at name@domain.com": [4, 5, 6], "dog": [8, 8.5, -8]}, {"the": [0.1, 0.2, 0.3], ",": [1, 2, 3]}),
    ),
    "spaces of other kinds are in words, and lines end only where they end": (
        ("a\xa0b 1 2\n\u2028 3 4\n\x85 5 6\nx\ry 7 8\n", ("a\xa0b", "\u2028", "\x85", "x\ry"), 0),
        ({"a\xa0b": [1, 2], "\u2028": [3, 4], "\x85": [5, 6], "x\ry": [7, 8]}, {}),
    ),
    "windows": (("the 1 2\r\ncat 3 4\r\n", WORDS, 0), ({"the": [1, 2], "cat": [3, 4]}, {})),
    "trailing spaces": (("the 1 2 \ncat 3 4 \n", WORDS, 0), ({"the": [1, 2], "cat": [3, 4]}, {})),
    "byte order mark and no end": (
        ("\ufeffthe 1 2\ncat 3 4", WORDS, 0),
        ({"the": [1, 2], "cat": [3, 4]}, {}),
    ),
    "empty lines and double spaces": (
        ("the 1 2\n\ncat  3 4\n\n", WORDS, 0),
        ({"the": [1, 2], "cat": [3, 4]}, {}),
    ),
    "a header of word2vec": (
        ("3 2\nthe 1 2\n3 4 5\ncat 6 7\n", ("3",), 9),
        ({"3": [4, 5]}, {"the": [1, 2], "cat": [6, 7]}),
    ),
    "a first word that is a number": (("1 0.5 2\n", ("1",), 0), ({"1": [0.5, 2]}, {})),
    "a line without a word": (("the 1 2\n 3 4\ncat 5 6\n", ("the",), 9), ({"the": [1, 2]}, {"cat": [5, 6]})),
    "an end as soon as everything is found": (
        ("the 1 2\ncat 3 4\nbroken\n", WORDS, 0),
        ({"the": [1, 2], "cat": [3, 4]}, {}),
    ),
}


@pytest.mark.parametrize("case", READ)
def test_a_file_is_read_as_it_should_be(write, case):
    (text, tokens, more), wanted = READ[case]
    found = read(write(text), tokens, more)
    assert found == wanted
    assert [list(each) for each in found] == [list(each) for each in wanted]  # in the order of the file


def test_of_a_word_that_comes_twice_the_first_vector_is_taken(write):
    assert read(write(FILE), ("the", "unicorn"))[0] == {"the": [0.1, 0.2, 0.3]}


def test_packed_files_are_read_as_they_are(write, tmp_path):
    packed = tmp_path / "vectors.txt.gz"
    packed.write_bytes(gzip.compress(FILE.encode()))
    zipped = tmp_path / "vectors.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("vectors.txt", FILE)
    wanted = read(write(FILE), more=2)
    assert read(packed, more=2) == wanted
    assert read(zipped, more=2) == wanted


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("cat 3", "'cat 3'"),  # too few numbers, even on a line that nobody asked for
        ("broken", "'broken'"),  # also one behind everything that is there, while a token is missing
        ("unicorn 3 x", "'unicorn 3 x'"),
        ("unicorn 3 nan", "'unicorn 3 nan'"),
        ("unicorn 1e39 0", "'unicorn 1e39 0'"),  # more than a float32 can hold
        ("unicorn 3 ", "'unicorn 3 '"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_line(write, line, shown):
    path = write(f"the 1 2\n{line}\n")
    message = f"{path}:2: expected a word and finite numbers, 2 of them as the first line says; got {shown}"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        read(path, ("the", "unicorn"))


def test_a_long_malformed_line_is_cut_short(write):
    with pytest.raises(InputError) as caught:
        read(write("the 1 2\nunicorn 3 " + "x" * 10_000), ("the", "unicorn"))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["the\n", "the\t1\t2\n", "\nthe 1 2\n", "5 0\n"])
def test_a_first_line_without_numbers_is_named(write, text):
    path = write(text)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}:1: expected a word and its numbers"):
        read(path)


def test_an_empty_file_is_an_error(write):
    path = write("")
    with pytest.raises(InputError, match=re.escape(f"{path}: the file is empty")):
        read(path)


# The embedding.


def test_glove_gives_the_tasks_tokens_in_their_order_then_the_others(write):
    embedding = GloVe(str(write(FILE)), more=1)
    tokens, vectors = embedding.table(["dog", "unicorn", "the"], 64)
    assert tokens == ["dog", "the", ","]
    assert vectors.dtype == torch.float32
    assert torch.equal(vectors, torch.tensor([[8, 8.5, -8], [0.1, 0.2, 0.3], [1, 2, 3]]))


def test_glove_says_how_many_tokens_have_a_vector(write):
    embedding = GloVe(str(write(FILE, "glove.txt")), more=2)
    assert list(embedding.notes) == []
    embedding.table(["dog", "unicorn", "the"], 64)
    assert embedding.notes == ["glove.txt: vectors for 2 of 3 tokens (66.7%), and 2 more words"]
    embedding = GloVe(str(write(FILE, "glove.txt")), more=0)
    embedding.table(["dog"], 64)
    assert embedding.notes == ["glove.txt: vectors for 1 of 1 tokens (100.0%)"]


def test_if_no_token_has_a_vector_the_error_shows_some(write):
    path = write(FILE, "glove.txt")
    with pytest.raises(
        CrvnnError, match=r"^glove\.txt: none of the task's 2 tokens has a vector here; .* '\[MIN', '\[MAX'$"
    ):
        GloVe(str(path)).table(["[MIN", "[MAX"], 64)


def test_building_glove_reads_nothing_and_a_missing_file_is_named_when_it_is_needed(tmp_path):
    embedding = GloVe(str(tmp_path / "nothing.txt"))
    with pytest.raises(CrvnnError, match=r"nothing\.txt: there is no such file"):
        embedding.table(["the"], 4)


def test_the_path_may_begin_at_home(write, monkeypatch, tmp_path):
    write(FILE, "glove.txt")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert GloVe("~/glove.txt", more=0).table(["the"], 4)[0] == ["the"]


# The contract.


def reasons(component):
    return {outcome.check: outcome.reason for outcome in run_checks(component, CHECKS["embedding"])}


def test_the_built_in_embeddings_satisfy_their_contract(write):
    lines = "".join(f"{token} 0.5 {number}\n" for number, token in enumerate(TOKENS[:-1]))
    path = str(write(lines + "extra 1 2\n"))
    for component in (
        Component("random", Random),
        Component("random", Random, example={"size": 3}),
        Component("glove", GloVe, example={"path": path}),
        Component("glove", GloVe, example={"path": path, "more": 0, "trainable": True}),
    ):
        assert set(reasons(component).values()) == {""}
