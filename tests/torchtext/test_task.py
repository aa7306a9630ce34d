"""torchtext's datasets, from small files in the layouts that it expects: nothing is downloaded."""

import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from crvnn_core import Component, CrvnnError, InputError
from crvnn_core.testing import CHECKS, run_checks
from crvnn_torchtext.task import TorchTextTask
from files import write


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset": "snli", "lower": False}, "lower cannot be false: .*tokenizer=split"),
        ({"dataset": "imdb", "fine_grained": True}, "fine_grained is for sst and trec; imdb"),
        ({"dataset": "trec", "held_out": 0.0}, "held_out must be above 0 and below 1, not 0.0"),
        ({"dataset": "trec", "held_out": 1.0}, "held_out must be above 0 and below 1, not 1.0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TorchTextTask(**settings)


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
    with pytest.raises(CrvnnError, match=r"(?s)to read 'sst' .*: pip install nltk\n.*'sst5'"):
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
    assert len(rows(task(root, "trec", held_out=0.9), "dev")) > len(parts["dev"])
    fine = task(root, "trec", fine_grained=True)
    assert fine.classes == ["DESC:def", "HUM:ind", "LOC:city", "NUM:count"]


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
    assert {outcome.reason for outcome in run_checks(component, CHECKS["task"])} == {""}


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"mine\.jsonl: there is no well-formed row"),
        (nli([("perhaps", "One.", "Two.")]), r"mine\.jsonl: there is no well-formed row"),
        ("this is no JSON\n", r"torchtext could not read .*mine\.jsonl: JSONDecodeError"),
    ],
)
def test_a_file_without_a_usable_row_is_an_error(root, tmp_path, text, message):
    path = write(tmp_path / "mine.jsonl", text)
    with pytest.raises(CrvnnError, match=message):
        list(task(root, "snli", bad_rows="skip").read(path))


def test_a_dataset_that_is_not_complete_is_named(root):
    (root / "snli" / "snli_1.0" / "snli_1.0_dev.jsonl").unlink()
    with pytest.raises(CrvnnError, match=r"(?s)snli_1\.0_dev\.jsonl: there is no such file.*delete it"):
        rows(task(root, "snli"), "dev")


# Downloads, from a local file.


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
        CrvnnError, match=r"(?s)could not download 'snli': .*snli/snli_1\.0 by hand; .*http://nlp"
    ):
        rows(task(tmp_path, "snli"), "train")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python unpacks archives as they come")
def test_an_archive_cannot_write_outside_its_directory(torchtext, tmp_path, monkeypatch):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../../harm"), io.BytesIO())
    serve(torchtext, monkeypatch, packed.getvalue())
    with pytest.raises(CrvnnError, match=r"could not download 'imdb': OutsideDestinationError"):
        rows(task(tmp_path / "deep" / "data", "imdb"), "train")
    assert not list(tmp_path.rglob("harm"))
