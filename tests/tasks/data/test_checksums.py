"""Checksums of downloaded files."""

import hashlib

import pytest

from crvnn_core import CrvnnError
from crvnn_core.files import sha256_of
from crvnn_tasks.data.checksums import add_to_record, changed, read_record

CONTENT = bytes(range(256)) * 1200


def test_checksums_are_sha256(tmp_path):
    (tmp_path / "a").write_bytes(CONTENT)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(CONTENT).hexdigest()


def test_files_that_changed_are_named_and_files_that_were_removed_are_not(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(name)
    add_to_record(tmp_path, {name: sha256_of(tmp_path / name) for name in "abc"}, "https://example.org")
    (tmp_path / "b").write_text("other")
    (tmp_path / "c").unlink()
    assert changed(tmp_path) == ["b"]


def test_a_new_entry_leaves_the_others_in_the_record(tmp_path):
    assert read_record(tmp_path) == {}
    add_to_record(tmp_path, {"b": "1"}, "https://example.org/b")
    add_to_record(tmp_path, {"a": "2"}, "https://example.org/a")
    assert read_record(tmp_path) == {
        "a": {"sha256": "2", "url": "https://example.org/a"},
        "b": {"sha256": "1", "url": "https://example.org/b"},
    }


def test_a_damaged_record_is_one_message(tmp_path):
    (tmp_path / "checksums.json").write_text("{")
    with pytest.raises(CrvnnError, match=r"checksums\.json cannot be read"):
        changed(tmp_path)
