"""Files: read however they are packed, written whole or not at all."""

import errno
import gzip
import os
import stat
import sys
import zipfile
from pathlib import Path

import platformdirs
import pytest

from crvnn_core import CrvnnError
from crvnn_core.files import cache_directory, open_text, replacing, write_atomically

TEXT = "eins\nzwei\ndrei \N{SNOWMAN}\n"


def plain(path, content):
    path.write_bytes(content)
    return path


def gzipped(path, content):
    return plain(path.with_suffix(".gz"), gzip.compress(content))


def zipped(path, content):
    path = path.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/words.txt", content)
    return path


@pytest.mark.parametrize("pack", [plain, gzipped, zipped])
@pytest.mark.parametrize("mark", [b"", "\N{ZERO WIDTH NO-BREAK SPACE}".encode()])
def test_a_text_is_read_however_it_is_packed(pack, mark, tmp_path):
    path = pack(tmp_path / "words.txt", mark + TEXT.encode())
    with open_text(path) as lines:
        assert list(lines) == ["eins\n", "zwei\n", f"drei {chr(0x2603)}\n"]


def test_line_ends_are_made_alike_unless_asked_otherwise(tmp_path):
    path = plain(tmp_path / "words.txt", b"a\r\nb\rc\n")
    with open_text(path) as lines:
        assert list(lines) == ["a\n", "b\n", "c\n"]
    with open_text(path, newline="") as lines:
        assert list(lines) == ["a\r\n", "b\r", "c\n"]


def reading(path):
    with open_text(path) as lines:
        return list(lines)


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path):
    for name in ("x.txt", "x.gz", "x.zip"):
        with pytest.raises(CrvnnError, match=rf"{name}: there is no such file"):
            reading(tmp_path / name)
    with pytest.raises(CrvnnError, match="this is a directory; a file was expected"):
        reading(tmp_path)


def test_a_file_that_may_not_be_read_is_a_clear_error(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    path = plain(tmp_path / "words.txt", b"a")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CrvnnError, match=r"words\.txt.*Permission denied"):
        reading(path)


@pytest.mark.parametrize("pack", [plain, gzipped, zipped])
def test_what_is_no_utf8_is_said_to_be_none(pack, tmp_path):
    path = pack(tmp_path / "words.txt", b"caf\xe9\n")
    with pytest.raises(CrvnnError, match=rf"{path.name}: this is not UTF-8 text"):
        reading(path)


@pytest.mark.parametrize("pack", [gzipped, zipped])
def test_a_packed_file_that_is_cut_short_or_changed_is_damaged(pack, tmp_path):
    content = "".join(f"line {number**3}\n" for number in range(2000)).encode()
    path = pack(tmp_path / "words.txt", content)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:100] + b"\xff\x00\xff" + whole[103:], b"no such thing"):
        path.write_bytes(broken)
        with pytest.raises(CrvnnError, match=rf"{path.name}: the file is damaged or cut short"):
            reading(path)


@pytest.mark.parametrize(
    ("names", "held"), [([], "none"), (["a.txt", "b.txt"], "a.txt, b.txt"), (list("abcdef"), "a, b, c, d, e")]
)
def test_a_zip_file_must_hold_one_file(names, held, tmp_path):
    path = tmp_path / "words.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    with pytest.raises(CrvnnError, match=rf"a zip file must hold exactly one file; this one holds {held}"):
        reading(path)


def test_an_error_of_the_readers_own_is_passed_on(tmp_path):
    path = plain(tmp_path / "words.txt", b"a\n")

    def fail():
        with open_text(path) as lines:
            raise KeyError(next(lines))

    with pytest.raises(KeyError, match="a"):
        fail()


def test_a_file_takes_the_place_of_another_in_one_go(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    write_atomically(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent  # so that it can be renamed
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_process_has_left_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "a[1].txt"
    orphan, other = tmp_path / ".a[1].txt.0123abcd", tmp_path / ".a1.txt.0123abcd"
    mine = tmp_path / ".a[1].txt.of-mine"
    for each in (orphan, other, mine):
        each.write_text("half")
    with replacing(path) as temporary:
        assert not orphan.exists()
        with replacing(path) as another:  # by another process, say
            assert temporary.exists()
            another.write_text("second")
        temporary.write_text("first")
    assert path.read_text() == "first"
    assert set(tmp_path.iterdir()) == {path, other, mine}


def test_where_files_cannot_be_locked_nothing_is_taken_for_an_orphan(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    path, left = tmp_path / "a.txt", tmp_path / ".a.txt.0123abcd"
    left.write_text("half")
    write_atomically(path, "whole")
    assert path.read_text() == "whole"
    assert set(tmp_path.iterdir()) == {path, left}


@pytest.mark.parametrize(
    ("before", "mask", "mode"),
    [(None, 0o022, 0o644), (None, 0o077, 0o600), (None, 0o002, 0o664), (0o640, 0o022, 0o640)],
)
def test_a_new_file_has_the_permissions_that_the_umask_leaves_and_a_replaced_one_its_own(
    before, mask, mode, tmp_path
):
    if before:
        plain(tmp_path / "x", b"old").chmod(before)
    umask = os.umask(mask)
    try:
        write_atomically(tmp_path / "x", TEXT)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == mode
    assert (tmp_path / "x").read_bytes() == TEXT.encode()


def test_a_link_stays_a_link_and_the_file_behind_it_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target = plain(tmp_path / "there" / "x", b"old")
    (tmp_path / "link").symlink_to("there/x")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link", "there", "x"]


def test_a_device_is_refused_and_stays(tmp_path):
    path = tmp_path / "x"
    path.symlink_to(os.devnull)
    with pytest.raises(CrvnnError, match=r"x cannot be written: it is no regular file"):
        write_atomically(path, "new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_that_is_as_long_as_can_be_is_written(tmp_path):
    write_atomically(tmp_path / ("x" * 255), "new")
    with pytest.raises(CrvnnError, match=r"cannot be written: .*too long"):
        write_atomically(tmp_path / ("x" * 256), "new")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("mine")])
def test_when_writing_fails_the_old_file_is_still_there(error, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half of the n")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("where", "name"), [(os, "fsync"), (Path, "replace"), (Path, "write_text")])
@pytest.mark.parametrize("before", ["old", None])
def test_a_full_disk_is_a_clear_error(where, name, before, tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    if before:
        path.write_text(before)

    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(where, name, fail)
        with pytest.raises(
            CrvnnError, match=r"file\.txt cannot be written: .*No space left on device"
        ) as caught:
            write_atomically(path, "new")
    assert ("the file is unchanged" in str(caught.value)) == bool(before)
    assert [file.read_text() for file in tmp_path.iterdir()] == ([before] if before else [])


def test_a_place_where_nothing_can_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(CrvnnError, match=r"file/x\.txt cannot be written"):
        write_atomically(tmp_path / "file" / "x.txt", "new")


def test_the_cache_is_the_users_or_the_one_that_is_named(monkeypatch):
    monkeypatch.delenv("CRVNN_CACHE", raising=False)
    assert cache_directory() == platformdirs.user_cache_path("crvnn", appauthor=False)
    monkeypatch.setenv("CRVNN_CACHE", "~/mine")
    assert cache_directory() == Path.home() / "mine"
