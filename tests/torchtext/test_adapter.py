"""torchtext's vectors and datasets, from small files in the layouts that it expects: nothing is fetched."""

import io
import json
import ssl
import sys
import tarfile
import types
import typing
import zipfile
from pathlib import Path

import pytest
import torch

from crvnn_core import Component, CrvnnError, InputError
from crvnn_core.testing import TASK_CHECKS
from crvnn_core.testing.common import run_checks
from crvnn_core.testing.embedding import EMBEDDING_CHECKS, TOKENS
from crvnn_torchtext.adapter import TorchTextTask, TorchTextVectors


def numbers(first, size):
    return " ".join([str(first), *["0.5"] * (size - 1)])


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# Without the package.


def missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchtext", None)


def test_without_torchtext_one_message_says_what_to_install(monkeypatch, tmp_path):
    missing(monkeypatch)
    embedding = TorchTextVectors("glove.6B.50d", cache=str(tmp_path / "cache"))  # building asks for nothing
    task = TorchTextTask("snli", root=str(tmp_path / "data"))
    for ask in (
        lambda: embedding.table(["the"], 4),
        lambda: task.vocabulary,
        lambda: next(task.examples("train", 0)),
        lambda: task.tokenize("a text"),
    ):
        with pytest.raises(
            CrvnnError, match=r"torchtext cannot be imported .*: pip install 'crvnn\[torchtext\]'"
        ):
            ask()
    assert list(tmp_path.iterdir()) == []


def test_without_torchtext_a_trained_model_still_has_classes_and_tokens_at_spaces(monkeypatch):
    missing(monkeypatch)
    task = TorchTextTask("sst", fine_grained=True)
    task.vocabulary = ("a", "fine", "film")
    assert task.tokenize("A  fine film") == ("a", "fine", "film")
    assert len(task.classes) == 5
    assert task.vocabulary == ("a", "fine", "film")


def test_a_torchtext_that_is_too_new_is_named(monkeypatch):
    newer = types.SimpleNamespace(data=types.SimpleNamespace(), __version__="0.18.0")
    monkeypatch.setitem(sys.modules, "torchtext", newer)
    with pytest.raises(
        CrvnnError, match=r"torchtext 0\.18\.0 has no Fields any more; crvnn needs 0\.6\.0: pip"
    ):
        TorchTextVectors("glove.6B.50d").table(["the"], 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset": "snli", "lower": False}, "lower cannot be false: .*tokenizer=split"),
        ({"dataset": "imdb", "fine_grained": True}, "fine_grained is for sst and trec; imdb"),
        ({"dataset": "trec", "held_out": 0.0}, "held_out must be between 0 and 1, not 0.0"),
        ({"dataset": "trec", "held_out": 1.0}, "held_out must be between 0 and 1, not 1.0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TorchTextTask(**settings)


def test_more_cannot_be_negative():
    with pytest.raises(ValueError, match="more cannot be negative"):
        TorchTextVectors("glove.6B.50d", more=-1)


# With it.


@pytest.fixture
def torchtext():
    return pytest.importorskip("torchtext", reason="the extra 'torchtext' is not installed")


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
    assert sorted(path.name for path in cache.iterdir()) == [
        "glove.6B.100d.txt",
        "glove.6B.50d.txt",
        "glove.6B.50d.txt.pt",
        "glove.6B.zip",
    ]


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


def test_if_no_token_has_a_vector_that_is_an_error(cache):
    with pytest.raises(CrvnnError, match=r"glove\.6B\.50d: none of the task's 1 tokens has a vector here"):
        vectors(cache).table(["[MIN"], 4)


def test_the_vectors_keep_the_contract_of_embeddings(cache):
    component = Component(
        "torchtext", TorchTextVectors, example={"vectors": "glove.6B.50d", "cache": str(cache)}
    )
    assert {outcome.reason for outcome in run_checks(component, EMBEDDING_CHECKS)} == {""}


def test_loading_prints_nothing_and_leaves_the_process_as_it_was(cache, capsys):
    before = ssl._create_default_https_context, ssl._create_unverified_context
    vectors(cache).table(["the"], 4)
    assert (ssl._create_default_https_context, ssl._create_unverified_context) == before
    assert tarfile.TarFile.extraction_filter is None
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


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


# Datasets.


def nli(rows):
    keys = ("gold_label", "sentence1", "sentence2")
    return "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)


def pairs(word):
    return nli(
        [
            ("entailment", f"A {word} sleeps.", "Something rests."),
            ("-", f"A {word} runs.", "Nobody agrees."),
            ("contradiction", f"Two {word}s, asleep", f"The {word} is awake!"),
            ("neutral", f"A {word}'s dream", "It is of food."),
        ]
    )


@pytest.fixture
def root(tmp_path, torchtext):
    """Every dataset, a few rows of each."""
    data = tmp_path / "data"
    for split, word in (("train", "cat"), ("dev", "dog"), ("test", "hen")):
        write(data / "snli" / "snli_1.0" / f"snli_1.0_{split}.jsonl", pairs(word))
        write(
            data / "sst" / "trees" / f"{split}.txt",
            f"(4 (2 A) (3 (3 fine) (2 {word})))\n(0 (1 Bad) (2 {word}))\n",
        )
    names = {"train": "train", "dev_matched": "ant", "dev_mismatched": "bee"}
    for split, word in names.items():
        write(data / "multinli" / "multinli_1.0" / f"multinli_1.0_{split}.jsonl", pairs(word))
    questions = [
        f"{kind} Is it number {n} ?" for n in range(40) for kind in ("NUM:count", "HUM:ind", "LOC:city")
    ]
    write(
        data / "trec" / "train_5500.label",
        "\n".join(questions).encode() + b"\nDESC:def What is a sister\xf0city ?\n",
    )
    write(data / "trec" / "TREC_10.label", "NUM:dist How far is it from Denver to Aspen ?\n")
    for n in range(30):
        for sign, word in (("pos", "Good"), ("neg", "Bad")):
            write(
                data / "imdb" / "aclImdb" / "train" / sign / f"{n}_7.txt",
                f'{word} film, number {n}.<br />"Yes"',
            )
    write(data / "imdb" / "aclImdb" / "test" / "pos" / "0_9.txt", "Fine film")
    write(data / "imdb" / "aclImdb" / "test" / "neg" / "0_1.txt", "Dull film")
    return data


def task(root, dataset, **settings):
    return TorchTextTask(dataset, root=str(root), **settings)


def rows(task, split):
    return [
        (*(" ".join(each) for each in e.sequences), task.classes[e.label]) for e in task.examples(split, 0)
    ]


def test_snli_gives_pairs_with_a_label_that_annotators_agreed_on(root):
    snli = task(root, "snli")
    assert snli.arity == 2
    assert rows(snli, "dev") == [
        ("a dog sleeps .", "something rests .", "entailment"),
        ("two dogs , asleep", "the dog is awake !", "contradiction"),
        ("a dog ' s dream", "it is of food .", "neutral"),
    ]
    assert "cat" in snli.vocabulary
    assert "dog" not in snli.vocabulary
    assert snli.vocabulary[:4] == (".", "cat", "a", "is")  # by frequency, then by name
    assert snli.tokenize("A dog's life.") == ("a", "dog", "'", "s", "life", ".")


def test_multinli_is_tested_on_its_mismatched_set(root):
    assert rows(task(root, "multinli"), "dev")[0][0] == "a ant sleeps ."
    assert rows(task(root, "multinli"), "test")[0][0] == "a bee sleeps ."


def test_tokens_may_be_split_at_spaces_and_keep_their_case(root):
    snli = task(root, "snli", tokenizer="split", lower=False)
    assert rows(snli, "train")[0] == ("A cat sleeps.", "Something rests.", "entailment")
    assert snli.tokenize("A dog's life.") == ("A", "dog's", "life.")


def test_sst_gives_whole_sentences_with_three_or_five_classes(root):
    pytest.importorskip("nltk", reason="torchtext reads SST with nltk, which is not installed")
    assert rows(task(root, "sst"), "train") == [("a fine cat", "positive"), ("bad cat", "negative")]
    assert rows(task(root, "sst", fine_grained=True), "dev") == [
        ("a fine dog", "very positive"),
        ("bad dog", "very negative"),
    ]


def test_without_nltk_sst_says_what_to_install(root, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "nltk.tree", None)
    with pytest.raises(CrvnnError, match=r"(?s)reads 'sst' .*: pip install nltk\n.*'sst5'"):
        rows(task(root, "sst"), "train")
    assert capsys.readouterr().out == ""


def test_trec_has_six_classes_or_fifty_and_a_development_split_of_its_own_training_set(root):
    trec = task(root, "trec")
    parts = {split: rows(trec, split) for split in trec.splits}
    assert parts["test"] == [("how far is it from denver to aspen ?", "NUM")]
    assert len(parts["train"]) + len(parts["dev"]) == 121
    assert 0 < len(parts["dev"]) < 30
    assert not {text for text, _ in parts["train"]} & {text for text, _ in parts["dev"]}
    assert ("what is a sister city ?", "DESC") in parts["train"] + parts["dev"]
    fine = task(root, "trec", fine_grained=True)
    assert fine.classes == ["DESC:def", "HUM:ind", "LOC:city", "NUM:count"]


def test_how_much_is_held_out_can_be_set(root):
    sizes = [len(rows(task(root, "trec", held_out=share), "dev")) for share in (0.1, 0.5, 0.9)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def test_imdb_comes_in_an_order_that_does_not_depend_on_the_file_system(root, monkeypatch):
    import glob

    found = rows(task(root, "imdb"), "train")
    assert {label for _, label in found} == {"neg", "pos"}
    assert all("number" in text and "yes" in text and "<br" not in text for text, _ in found)
    forwards = glob.iglob
    monkeypatch.setattr(glob, "iglob", lambda pattern: sorted(forwards(pattern), reverse=True))
    assert rows(task(root, "imdb"), "train") == found


@pytest.mark.parametrize("dataset", ["snli", "multinli", "trec", "imdb"])
def test_the_datasets_keep_the_contract_of_tasks(root, dataset):
    component = Component("torchtext", TorchTextTask, example={"dataset": dataset, "root": str(root)})
    assert {outcome.reason for outcome in run_checks(component, TASK_CHECKS)} == {""}


def test_a_file_of_the_same_form_can_be_read(root, tmp_path):
    path = write(tmp_path / "mine.jsonl", nli([("neutral", "One.", "Two.")]))
    assert [example.label for example in task(root, "snli").read(path)] == [1]
    with pytest.raises(CrvnnError, match=r"nothing\.jsonl: there is no such file"):
        list(task(root, "snli").read(tmp_path / "nothing.jsonl"))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (("perhaps", "One.", "Two."), "example 1: unknown label 'perhaps'"),
        (("neutral", '"', "Two."), "example 1: a text without tokens"),
    ],
)
def test_an_unusable_row_stops_or_is_skipped_and_counted(root, tmp_path, capsys, row, fault):
    path = write(tmp_path / "mine.jsonl", nli([("neutral", "One.", "Two."), row]))
    with pytest.raises(InputError, match=rf"mine\.jsonl, {fault}.*\n.*task\.bad_rows=skip"):
        list(task(root, "snli").read(path))
    assert len(list(task(root, "snli", bad_rows="skip").read(path))) == 1
    assert capsys.readouterr().err == f"crvnn: {path}: skipped 1 of 2 rows; {fault}\n"


def test_a_file_without_a_usable_row_is_an_error(root, tmp_path):
    for text in ("", nli([("perhaps", "One.", "Two.")])):
        path = write(tmp_path / "mine.jsonl", text)
        with pytest.raises(InputError, match=r"mine\.jsonl: there is not one usable row"):
            list(task(root, "snli", bad_rows="skip").read(path))


def test_a_file_of_another_form_is_named(root, tmp_path):
    path = write(tmp_path / "mine.jsonl", "this is no JSON\n")
    with pytest.raises(CrvnnError, match=r"torchtext could not read .*mine\.jsonl: JSONDecodeError"):
        list(task(root, "snli").read(path))


def test_a_dataset_that_is_not_complete_is_named(root):
    (root / "snli" / "snli_1.0" / "snli_1.0_dev.jsonl").unlink()
    with pytest.raises(CrvnnError, match=r"(?s)snli_1\.0_dev\.jsonl: there is no such file.*delete it"):
        rows(task(root, "snli"), "dev")


# Fetching, by way of a local file.


def serve(torchtext, monkeypatch, content):
    """Let torchtext's download give this content, or raise it."""
    fetched = []

    def download(url, path):
        fetched.append(url)
        if isinstance(content, Exception):
            write(Path(path), "half a fi")
            raise content
        write(Path(path), content)

    monkeypatch.setattr(torchtext.data.dataset, "download_from_url", download)
    return fetched


def test_a_dataset_is_fetched_and_unpacked_once(torchtext, tmp_path, monkeypatch, capsys):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for split in ("train", "dev", "test"):
            archive.writestr(f"snli_1.0/snli_1.0_{split}.jsonl", pairs(split))
    fetched = serve(torchtext, monkeypatch, packed.getvalue())
    for _ in range(2):
        assert len(rows(task(tmp_path, "snli"), "train")) == 3
    assert fetched == ["http://nlp.stanford.edu/projects/snli/snli_1.0.zip"]
    assert [path.name for path in tmp_path.iterdir()] == ["snli"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [OSError("the connection broke"), b"<html>404</html>"])
def test_a_failed_fetch_leaves_nothing_that_looks_whole(torchtext, tmp_path, monkeypatch, content):
    serve(torchtext, monkeypatch, content)
    with pytest.raises(
        CrvnnError, match=r"(?s)could not fetch 'snli': .*snli/snli_1\.0 by hand; .*http://nlp"
    ):
        rows(task(tmp_path, "snli"), "train")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python unpacks archives as they come")
def test_an_archive_cannot_write_outside_its_directory(torchtext, tmp_path, monkeypatch):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../../harm"), io.BytesIO())
    serve(torchtext, monkeypatch, packed.getvalue())
    with pytest.raises(CrvnnError, match=r"could not fetch 'imdb': OutsideDestinationError"):
        rows(task(tmp_path / "deep" / "data", "imdb"), "train")
    assert not list(tmp_path.rglob("harm"))
