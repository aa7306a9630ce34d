"""The published files, from a mirror on this machine."""

import hashlib
import io
import json
import shutil
import zipfile
from collections import namedtuple

import pytest

from crvnn_core import CrvnnError, UnknownNameError
from crvnn_core.downloads.transfer import Retries
from crvnn_tasks.data import downloads
from crvnn_tasks.data.downloads import changed, get
from crvnn_tasks.data.sources import DATASETS, SAME, Part
from serving import serving

QUICK = Retries(attempts=2, pause=0.0, timeout=5.0)
PLAIN = b"a row\n" * 30_000


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def packed(**files):
    """A zip archive of these files in a folder, and some others."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/trees/train.txt", "not this one")
        archive.writestr("../outside.txt", "nor this one")
        for name, text in files.items():
            archive.writestr(f"trees/{name}.txt", text)
    return memory.getvalue()


ARCHIVE = packed(train="some trees\n", dev="a tree\n", test="", more="unwanted")


@pytest.fixture
def site(monkeypatch):
    """A mirror of two data sets: plain files without a known checksum, and an archive with one."""
    members = ("train.txt", "dev.txt", "test.txt")
    with serving() as served:
        served.files = {"train.tsv": PLAIN, "test.tsv": b"b row\n", "trees.zip": ARCHIVE}
        published = f"{served.address}/published"
        monkeypatch.setattr(
            downloads,
            "DATASETS",
            {
                "plain": (Part(f"{published}/train.tsv"), Part(f"{published}/test.tsv")),
                "sst": (Part(f"{published}/trees.zip", sha256(ARCHIVE), members),),
            },
        )
        yield served


class Quiet:
    """Keeps the notes."""

    def __init__(self):
        self.notes = []

    def begin(self, total, what, done):
        pass

    def __call__(self, count):
        pass

    def print(self, line):
        if not line.startswith("downloading "):
            self.notes.append(line)


def fetched(site, name, directory, report=None):
    return get(name, directory, site.address, report or Quiet(), QUICK)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_files_are_fetched_from_where_they_are_published(site, tmp_path):
    site.files = {f"published/{name}": content for name, content in site.files.items()}
    got = get("plain", tmp_path, progress=Quiet(), retries=QUICK)
    assert (tmp_path / "train.tsv").read_bytes() == PLAIN
    assert [(each.file, each.bytes, each.fetched) for each in got] == [
        ("train.tsv", len(PLAIN), True),
        ("test.tsv", 6, True),
    ]
    assert got[0].url == f"{site.address}/published/train.tsv"


def test_a_mirror_takes_the_place_of_all_addresses(site, tmp_path):
    fetched(site, "plain", tmp_path / "new" / "place")
    assert {name for name, _ in site.asked} == {
        "train.tsv",
        "test.tsv",
        "train.tsv.sha256",
        "test.tsv.sha256",
    }
    assert names(tmp_path / "new" / "place") == ["checksums.json", "test.tsv", "train.tsv"]


def test_a_file_that_is_not_there_is_told_of_with_where_it_may_be(site, tmp_path):
    published = f"{site.address}/published/train.tsv"
    site.files = {}
    with pytest.raises(CrvnnError) as caught:
        fetched(site, "plain", tmp_path)
    assert str(caught.value) == (
        f"{site.address}/train.tsv: the server answers 404 Not Found.\n"
        f"  With --mirror URL, train.tsv must be at URL/train.tsv. Without --mirror, it comes from {published}"
    )
    with pytest.raises(CrvnnError) as caught:
        get("plain", tmp_path, progress=Quiet(), retries=QUICK)
    assert str(caught.value) == (
        f"{published}: the server answers 404 Not Found.\n"
        "  If the file has moved, --mirror URL downloads it from another place."
    )
    site.asked.clear()
    with pytest.raises(
        CrvnnError, match=r"^mirror\.example\.org/nli is not a URL: it must begin with http://"
    ):
        get("plain", tmp_path, "mirror.example.org/nli", Quiet(), QUICK)
    assert site.asked == []


def test_wanted_files_and_no_others_are_unpacked(site, tmp_path):
    got = fetched(site, "sst", tmp_path / "data")
    assert names(tmp_path) == ["data"]
    assert names(tmp_path / "data") == ["checksums.json", "dev.txt", "test.txt", "train.txt"]
    assert (tmp_path / "data" / "train.txt").read_text() == "some trees\n"
    assert {each.checked for each in got} == {"published"}
    fetched(site, "sst5", tmp_path / "again")  # a task that reads them
    assert (tmp_path / "again" / "dev.txt").read_text() == "a tree\n"


@pytest.mark.parametrize("name", ["plain", "sst"])
def test_a_second_call_finds_everything_and_asks_for_nothing(site, tmp_path, name):
    first = fetched(site, name, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    site.asked.clear()
    second = fetched(site, name, tmp_path)
    assert site.asked == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert [(each.file, each.sha256) for each in second] == [(each.file, each.sha256) for each in first]
    assert all(each.checked == "recorded" and not each.fetched for each in second)


@pytest.mark.parametrize("name", ["plain", "sst"])
def test_a_file_that_has_changed_since_is_told_of_and_left_alone(site, tmp_path, name):
    file = fetched(site, name, tmp_path)[0].file
    (tmp_path / file).write_text("mine")
    assert changed(tmp_path) == [file]
    with pytest.raises(
        CrvnnError, match=r"is not the file that was downloaded: its sha256 is .*\n.*Move it away"
    ):
        fetched(site, name, tmp_path)
    assert (tmp_path / file).read_text() == "mine"
    (tmp_path / file).unlink()
    assert changed(tmp_path) == []


def test_a_file_of_the_users_is_left_alone_and_not_vouched_for(site, tmp_path):
    (tmp_path / "train.txt").write_text("mine")
    got = {each.file: each for each in fetched(site, "sst", tmp_path)}
    assert (tmp_path / "train.txt").read_text() == "mine"
    assert not got["train.txt"].fetched
    assert got["train.txt"].checked == ""
    assert got["dev.txt"].fetched
    assert "train.txt" not in json.loads((tmp_path / "checksums.json").read_text())


def test_a_file_that_the_user_packed_is_there(site, tmp_path):
    (tmp_path / "train.tsv.gz").write_bytes(b"packed")
    got = fetched(site, "plain", tmp_path)
    assert [each.file for each in got] == ["train.tsv.gz", "test.tsv"]
    assert not (tmp_path / "train.tsv").exists()


def test_a_file_that_is_there_must_have_the_known_checksum(site, tmp_path, monkeypatch):
    parts = {"plain": (Part("https://example.org/train.tsv", sha256(PLAIN)),)}
    monkeypatch.setattr(downloads, "DATASETS", parts)
    (tmp_path / "train.tsv").write_bytes(PLAIN)
    assert fetched(site, "plain", tmp_path)[0].checked == "published"
    (tmp_path / "train.tsv").write_text("mine")
    with pytest.raises(CrvnnError, match="is not the file that was published"):
        fetched(site, "plain", tmp_path)


def test_the_checksum_that_a_mirror_gives_is_compared(site, tmp_path):
    site.files["train.tsv.sha256"] = f"{sha256(PLAIN).upper()}  train.tsv\n".encode()
    got = fetched(site, "plain", tmp_path / "right")
    assert [each.checked for each in got] == ["mirror", ""]
    site.files["train.tsv.sha256"] = b"0" * 64
    with pytest.raises(CrvnnError, match="the checksum is wrong"):
        fetched(site, "plain", tmp_path / "wrong")
    assert names(tmp_path / "wrong") == []
    site.files["train.tsv.sha256"] = b"<html>"
    with pytest.raises(CrvnnError, match="this is not a sha256 checksum"):
        fetched(site, "plain", tmp_path / "strange")


def test_a_file_with_another_checksum_than_the_known_one_is_not_kept_whatever_the_mirror_says(site, tmp_path):
    site.files["trees.zip"] = forged = packed(train="forged", dev="", test="")
    site.files["trees.zip.sha256"] = sha256(forged).encode()
    with pytest.raises(CrvnnError, match=r"trees\.zip: the checksum is wrong, so the file was deleted"):
        fetched(site, "sst", tmp_path)
    assert names(tmp_path) == []


def begin(site, name, directory, count):
    site.cuts = [count]
    site.answers = []
    with pytest.raises(CrvnnError):
        get(name, directory, site.address, Quiet(), Retries(attempts=1))
    site.asked.clear()


def test_what_was_interrupted_goes_on(site, tmp_path):
    begin(site, "sst", tmp_path, 100)
    assert names(tmp_path) == ["trees.zip.part", "trees.zip.part.json"]
    fetched(site, "sst", tmp_path)
    assert site.asked == [("trees.zip", "bytes=100-")]
    assert names(tmp_path) == ["checksums.json", "dev.txt", "test.txt", "train.txt"]


def test_a_part_that_was_damaged_is_fetched_anew(site, tmp_path):
    begin(site, "sst", tmp_path, 100)
    (tmp_path / "trees.zip.part").write_bytes(b"x" * 100)
    report = Quiet()
    fetched(site, "sst", tmp_path, report)
    assert [wanted for _, wanted in site.asked] == ["bytes=100-", None]
    assert "trees.zip has a wrong checksum after it was resumed; starting over" in report.notes
    assert (tmp_path / "train.txt").read_text() == "some trees\n"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"this is no archive", "trees.zip: this is not a zip archive, or it is damaged"),
        (ARCHIVE[:-30], "trees.zip: this is not a zip archive, or it is damaged"),
        (packed(train="a"), "trees.zip contains no dev.txt; it contains __MACOSX/trees/train.txt, "),
    ],
)
def test_an_archive_that_cannot_be_used_is_one_message(site, tmp_path, monkeypatch, content, what):
    (part,) = downloads.DATASETS["sst"]
    site.files["trees.zip"] = content
    monkeypatch.setitem(downloads.DATASETS, "sst", (Part(part.url, sha256(content), part.members),))
    with pytest.raises(CrvnnError) as caught:
        fetched(site, "sst", tmp_path)
    assert str(caught.value).startswith(what)
    assert not (tmp_path / "train.txt").exists()


def test_a_disk_without_room_for_what_is_unpacked_is_one_message(site, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    sizes = iter([10**9, 5])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, next(sizes)))
    with pytest.raises(CrvnnError, match="has 5 bytes of free space; extracting needs 18 bytes"):
        fetched(site, "sst", tmp_path)
    assert (tmp_path / "trees.zip.part").is_file()  # the download is not lost


def test_a_record_that_cannot_be_read_is_one_message(site, tmp_path):
    (tmp_path / "train.tsv").write_text("a")
    for content in ("{", "[]", '{"train.tsv": 5}', '{"train.tsv": {}}'):
        (tmp_path / "checksums.json").write_text(content)
        with pytest.raises(CrvnnError, match=r"checksums\.json cannot be read"):
            fetched(site, "plain", tmp_path)
    with pytest.raises(CrvnnError, match="cannot be"):  # a file is no directory
        fetched(site, "plain", tmp_path / "train.tsv")


def test_an_unknown_name_is_an_error_that_knows_the_others(tmp_path):
    with pytest.raises(
        UnknownNameError, match=r"no data set is called 'snil'\. Did you mean 'snli'\?\nThere are listops"
    ):
        get("snil", tmp_path)


def test_every_published_file_has_an_address_and_every_checksum_is_one():
    for name, parts in DATASETS.items():
        wanted = [file for part in parts for file in part.wanted]
        assert len(set(wanted)) == len(wanted), name
        for part in parts:
            assert part.url.startswith("https://")
            assert part.file
            assert part.sha256 == "" or (len(part.sha256) == 64 and int(part.sha256, 16))
            assert not part.members or part.file.endswith(".zip")
    assert set(SAME.values()) <= set(DATASETS)


@pytest.mark.parametrize(
    ("name", "task"),
    [("sst", "sst5"), ("snli", "snli"), ("mnli", "mnli"), ("logic", "logic"), ("listops", "listops")],
)
def test_what_is_fetched_is_what_the_task_reads(catalog, tmp_path, name, task):
    for part in DATASETS[name]:
        for file in part.wanted:
            (tmp_path / file).write_text("")
    built = catalog.find("task", task).component.load()(str(tmp_path))
    assert all(built.paths(split) for split in built.files)
