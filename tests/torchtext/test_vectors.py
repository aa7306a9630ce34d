"""torchtext's vectors, from small files in its cache: nothing is downloaded."""

import ssl
import tarfile
import typing
import zipfile
from pathlib import Path

import pytest
import torch

from crvnn_core import Component, CrvnnError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_core.testing.contracts.embedding import TOKENS
from crvnn_torchtext.vectors import TorchTextVectors
from files import write


def numbers(first, size):
    return " ".join([str(first), *["0.5"] * (size - 1)])


def test_more_cannot_be_negative():
    with pytest.raises(ValueError, match="more must be at least 0"):
        TorchTextVectors("glove.6B.50d", more=-1)


@pytest.fixture
def cache(tmp_path, torchtext):
    """A cache with the text file of 50-dimensional GloVe vectors in it."""
    words = [*TOKENS[:-1], "cat", "dog", "the"]
    text = "".join(f"{word} {numbers(place, 50)}\n" for place, word in enumerate(words))
    write(tmp_path / "cache" / "glove.6B.50d.txt", text)
    return tmp_path / "cache"


def vectors(cache, name="glove.6B.50d", **settings):
    return TorchTextVectors(name, cache=str(cache), **settings)


def test_every_name_that_torchtext_knows_is_offered_and_no_other(torchtext):
    hints = typing.get_type_hints(TorchTextVectors.__init__)
    assert set(typing.get_args(hints["vectors"])) == set(torchtext.vocab.pretrained_aliases)


def test_the_files_have_the_names_that_torchtext_gives_them(torchtext, tmp_path, monkeypatch):
    class Stop(Exception):  # noqa: N818
        pass

    asked = []

    def note(self, name, *more, **options):
        asked.append(name)
        raise Stop

    monkeypatch.setattr(torchtext.vocab.Vectors, "cache", note)
    for name, load in torchtext.vocab.pretrained_aliases.items():
        with pytest.raises(Stop):
            load(cache=str(tmp_path))
        assert asked[-1] == vectors(tmp_path, name)._file


def test_tokens_have_torchtexts_vectors_and_more_words_follow(cache):
    embedding = vectors(cache, more=2)
    tokens, table = embedding.table(["dog", "unicorn", "and"], 4)
    assert tokens == ["dog", "and", "the", "of"]
    assert table.shape == (4, 50)
    assert table[:, 0].tolist()[:2] == [9, 2]
    assert table[:, 1].tolist() == [0.5] * 4
    assert embedding.notes == ["glove.6B.50d: vectors for 2 of 3 tokens (66.7%), and 2 more words"]
    assert embedding.trainable is False
    with pytest.raises(CrvnnError, match=r"glove\.6B\.50d: none of the task's 1 tokens has a vector here"):
        vectors(cache).table(["[MIN"], 4)


def test_the_second_time_the_vectors_come_from_torchtexts_own_cache(cache):
    first = vectors(cache).table(["dog", "cat"], 4)
    (cache / "glove.6B.50d.txt").unlink()
    assert [path.name for path in cache.iterdir()] == ["glove.6B.50d.txt.pt"]
    second = vectors(cache).table(["dog", "cat"], 4)
    assert first[0] == second[0]
    assert torch.equal(first[1], second[1])


def test_an_archive_in_the_cache_is_unpacked_rather_than_fetched(torchtext, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    with zipfile.ZipFile(cache / "glove.6B.zip", "w") as archive:
        archive.writestr("glove.6B.50d.txt", f"the {numbers(1, 50)}\n")
        archive.writestr("glove.6B.100d.txt", f"the {numbers(1, 100)}\n")
    assert vectors(cache).table(["the"], 4)[1].shape == (1, 50)
    names = {"glove.6B.100d.txt", "glove.6B.50d.txt", "glove.6B.50d.txt.pt", "glove.6B.zip"}
    assert {path.name for path in cache.iterdir()} == names


def test_fasttext_files_have_a_header(torchtext, tmp_path):
    text = f"2 300\nthe {numbers(1, 300)} \ncat {numbers(2, 300)} \n"
    write(tmp_path / "wiki.simple.vec", text)
    tokens, table = vectors(tmp_path, "fasttext.simple.300d").table(["cat"], 4)
    assert tokens == ["cat", "the"]
    assert table[:, 0].tolist() == [2, 1]


def test_vectors_of_letters_are_made_for_any_token_that_has_known_ones(torchtext, tmp_path):
    text = f"2gram-ca {numbers(1, 100)}\n3gram-cat {numbers(3, 100)}\n"
    write(tmp_path / "charNgram.txt", text)
    tokens, table = vectors(tmp_path, "charngram.100d").table(["cat", "dog", "cab"], 4)
    assert tokens == ["cat", "cab"]
    assert table[:, 0].tolist() == [2, 1]


def test_the_vectors_keep_the_contract_of_embeddings(cache):
    component = Component(
        "torchtext", TorchTextVectors, example={"vectors": "glove.6B.50d", "cache": str(cache)}
    )
    assert {outcome.reason for outcome in run_checks(component, CHECKS["embedding"])} == {""}


def test_loading_prints_nothing_and_leaves_the_process_as_it_was(cache, capsys):
    before = ssl._create_default_https_context, ssl._create_unverified_context
    vectors(cache).table(["the"], 4)
    assert (ssl._create_default_https_context, ssl._create_unverified_context) == before
    assert tarfile.TarFile.extraction_filter is None
    assert capsys.readouterr() == ("", "")


def test_certificates_are_checked_while_torchtext_fetches(torchtext, tmp_path, monkeypatch):
    seen = []

    def fetch(url, path, reporthook=None):
        seen.append(ssl._create_default_https_context())
        raise OSError("no network")

    monkeypatch.setattr(torchtext.vocab, "urlretrieve", fetch)
    with pytest.raises(CrvnnError):
        vectors(tmp_path / "cache", "fasttext.simple.300d").table(["the"], 4)
    assert seen[0].verify_mode == ssl.CERT_REQUIRED
    assert seen[0].check_hostname


def test_a_failed_download_leaves_nothing_behind(torchtext, tmp_path, monkeypatch):
    def fetch(url, path, reporthook=None):
        write(Path(path), "half a fi")
        raise OSError("the connection broke")

    monkeypatch.setattr(torchtext.vocab, "urlretrieve", fetch)
    with pytest.raises(
        CrvnnError, match=r"could not load 'fasttext\.simple\.300d' from .*: OSError: the connection broke"
    ):
        vectors(tmp_path / "cache", "fasttext.simple.300d").table(["the"], 4)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"half a fi", b"PK\x03\x04" + b"x" * 500])
def test_a_damaged_cache_is_one_clear_message(cache, damage):
    write(cache / "glove.6B.50d.txt.pt", damage)
    with pytest.raises(CrvnnError, match=r"(?s)could not load 'glove\.6B\.50d' from .*damaged, delete it"):
        vectors(cache).table(["the"], 4)


def test_a_cache_that_would_run_code_is_refused(cache):
    class Harm:
        def __reduce__(self):
            return (write, (cache / "harm", "done"))

    torch.save(Harm(), cache / "glove.6B.50d.txt.pt")
    with pytest.raises(CrvnnError, match="could not load"):
        vectors(cache).table(["the"], 4)
    assert not (cache / "harm").exists()
