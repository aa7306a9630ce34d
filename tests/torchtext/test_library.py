"""torchtext that is missing, or of another version."""

import sys
import types

import pytest

from crvnn_core import CrvnnError
from crvnn_torchtext.task import TorchTextTask
from crvnn_torchtext.vectors import TorchTextVectors


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
    with pytest.raises(CrvnnError, match=r"torchtext 0\.18\.0 has no data\.Field; crvnn needs 0\.6\.0: pip"):
        TorchTextVectors("glove.6B.50d").table(["the"], 4)
