"""HTTP transfers, from a server on this machine."""

import errno
import json
import shutil
import socket
from collections import namedtuple

import pytest

from crvnn_core import CrvnnError
from crvnn_core.downloads import transfer
from crvnn_core.downloads.transfer import RefusedError, Retries, check_address, discard, fetch, fetch_text
from serving import serving

CONTENT = bytes(range(256)) * 1200  # some blocks, and not all of them full
QUICK = Retries(attempts=3, pause=0.0, timeout=5.0)


class Report:
    """Keeps what it is told."""

    def __init__(self):
        self.begun, self.bytes, self.notes = [], 0, []

    def begin(self, total, what, done):
        self.begun.append((what, done, total))

    def __call__(self, count):
        self.bytes += count

    def print(self, line):
        if not line.startswith("downloading "):
            self.notes.append(line)


@pytest.fixture
def site():
    with serving() as served:
        served.files["data.bin"] = CONTENT
        yield served


@pytest.fixture
def part(tmp_path):
    return tmp_path / "there" / "data.bin.part"


@pytest.fixture
def report():
    return Report()


def begin(site, part, count):
    """Fetch the first bytes, as if the program had been killed then."""
    site.cuts = [count]
    with pytest.raises(CrvnnError):
        fetch(f"{site.address}/data.bin", part, Report(), Retries(attempts=1, pause=0.0))
    assert part.stat().st_size == count
    site.asked.clear()


@pytest.mark.parametrize(("content", "length"), [(CONTENT, None), (b"", None), (CONTENT, "")])
def test_a_file_is_fetched_whole_even_if_its_size_is_not_said(site, part, report, content, length):
    site.files["data.bin"], site.length = content, length
    assert fetch(f"{site.address}/data.bin", part, report, QUICK) is False
    assert part.read_bytes() == content
    assert report.begun == [("data.bin", 0, len(content) if length is None else None)]
    assert report.bytes == len(content)
    assert report.notes == []


def test_a_transfer_that_breaks_off_goes_on_by_itself(site, part, report):
    site.cuts = [100_000, 50_000, None]
    assert fetch(f"{site.address}/data.bin", part, report, QUICK) is False
    assert part.read_bytes() == CONTENT
    assert [wanted for _, wanted in site.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert report.bytes == len(CONTENT)
    assert len(report.notes) == 2
    assert "connection lost at 100.0 kB of 307.2 kB; retrying in" in report.notes[0]


def test_the_next_call_goes_on_from_where_the_last_one_stopped(site, part, report):
    begin(site, part, 70_000)
    assert fetch(f"{site.address}/data.bin", part, report, QUICK) is True
    assert part.read_bytes() == CONTENT
    assert site.asked == [("data.bin", "bytes=70000-")]
    assert report.begun == [("data.bin", 70_000, len(CONTENT))]


def test_what_was_complete_is_not_fetched_again(site, part, report):
    fetch(f"{site.address}/data.bin", part, report, QUICK)
    site.asked.clear()
    assert fetch(f"{site.address}/data.bin", part, report, QUICK) is True
    assert site.asked == []
    assert part.read_bytes() == CONTENT


def test_a_server_without_parts_starts_over(site, part, report):
    begin(site, part, 70_000)
    site.ranges = False
    fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert part.read_bytes() == CONTENT
    assert report.begun == [("data.bin", 0, len(CONTENT))]


def test_attempts_that_get_on_do_not_count_and_others_do(site, part, report):
    site.cuts = [40_000] * 7
    fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert part.read_bytes() == CONTENT
    discard(part)
    site.asked.clear()
    site.ranges, site.cuts = False, [1000] * 20
    with pytest.raises(CrvnnError, match="3 attempts failed"):
        fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert len(site.asked) == 3


@pytest.mark.parametrize(
    ("tags", "other"), [(True, b"new" * 90_000), (False, b"new" * 90_000), (False, b"short")]
)
def test_a_file_that_has_become_another_one_is_fetched_anew(site, part, report, tags, other):
    site.tags = tags
    begin(site, part, 70_000)
    site.files["data.bin"] = other
    fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert part.read_bytes() == other
    if len(other) < 70_000:
        assert [wanted for _, wanted in site.asked] == ["bytes=70000-", None]
        assert report.notes == [
            "data.bin.part cannot be resumed, the file has changed on the server; starting over"
        ]


def test_a_part_of_unknown_size_that_is_complete_is_recognised(site, part, report):
    begin(site, part, 70_000)
    facts = part.with_name(f"{part.name}.json")
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "total": None}))
    part.write_bytes(CONTENT)
    fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert part.read_bytes() == CONTENT
    assert site.asked == [("data.bin", f"bytes={len(CONTENT)}-")]


@pytest.mark.parametrize(
    ("name", "record"),
    [("copy.bin", None), ("data.bin", ""), ("data.bin", "{"), ("data.bin", "[]"), ("data.bin", "{}")],
)
def test_a_part_from_another_address_or_of_which_nothing_is_known_is_not_used(
    site, part, report, name, record
):
    begin(site, part, 70_000)
    site.files["copy.bin"] = CONTENT
    if record is not None:
        part.with_name(f"{part.name}.json").write_text(record)
    assert fetch(f"{site.address}/{name}", part, report, QUICK) is False
    assert site.asked == [(name, None)]
    assert part.read_bytes() == CONTENT


def test_a_server_that_is_busy_is_asked_again_after_growing_pauses(site, part, report, monkeypatch):
    pauses = []
    monkeypatch.setattr(transfer.time, "sleep", pauses.append)
    site.answers = [503, 429, 503]
    fetch(f"{site.address}/data.bin", part, report, Retries(pause=0.5))
    assert part.read_bytes() == CONTENT
    assert pauses == [0.5, 1.0, 2.0]
    assert "the server answers 503 Service Unavailable; retrying in" in report.notes[0]


def test_giving_up_says_what_is_kept(site, part, report):
    site.cuts = [100_000, 0, 0, 0]
    with pytest.raises(CrvnnError) as caught:
        fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert "connection lost at 100.0 kB of 307.2 kB. 3 attempts failed." in str(caught.value)
    assert "100.0 kB are kept; the same command resumes from there." in str(caught.value)


def test_a_missing_file_is_not_asked_for_again(site, part, report):
    with pytest.raises(RefusedError, match=r"nothing\.bin: the server answers 404 Not Found\.$"):
        fetch(f"{site.address}/nothing.bin", part, report, QUICK)
    assert len(site.asked) == 1
    assert not part.exists()


def test_a_host_that_cannot_be_reached_is_one_message(part, report):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CrvnnError, match=f"{host} cannot be reached: .*refused. 3 attempts failed.$"):
            fetch(f"http://{host}/data.bin", part, report, QUICK)


def test_a_server_that_never_answers_is_given_up(part, report):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(CrvnnError, match="2 attempts failed"):
            fetch(
                f"http://127.0.0.1:{silent.getsockname()[1]}/data.bin",
                part,
                report,
                Retries(attempts=2, pause=0.0, timeout=0.1),
            )


def test_a_web_page_is_not_the_file(site, part, report):
    site.kind = "text/html; charset=utf-8"
    with pytest.raises(RefusedError, match="a web page came instead of the file"):
        fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert not part.exists()


@pytest.mark.parametrize(
    "url",
    [
        *("mirror.example.org/nli", "/data/nli", "ftp://a.org/a", "https:", "http://[a"),
        *("file:///etc/hostname", "http://127.0.0.1:x/a"),
    ],
)
def test_what_is_no_web_address_is_refused(part, report, url):
    with pytest.raises(CrvnnError, match=r"is not a URL"):
        fetch(url, part, report, QUICK)
    if "x/a" not in url:  # only asking shows that a port is no number
        with pytest.raises(CrvnnError, match=r"is not a URL"):
            check_address(url)
    check_address("https://mirror.example.org/nli")


def test_a_disk_without_room_is_told_of_before_anything_is_fetched(site, part, report, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**6, 10**6 - 1000, 1000))
    with pytest.raises(CrvnnError, match=r"has 1\.0 kB of free space; data\.bin needs 307\.2 kB more"):
        fetch(f"{site.address}/data.bin", part, report, QUICK)


def test_a_disk_that_fills_up_is_one_message_and_the_part_is_kept(site, part, report):
    class Full(Report):
        def __call__(self, count):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CrvnnError, match=r"data\.bin\.part cannot be written: .*No space left on device"):
        fetch(f"{site.address}/data.bin", part, Full(), QUICK)
    assert part.is_file()
    fetch(f"{site.address}/data.bin", part, report, QUICK)
    assert part.read_bytes() == CONTENT


def test_a_directory_that_cannot_be_made_is_one_message(site, tmp_path, report):
    (tmp_path / "file").write_text("")
    with pytest.raises(CrvnnError, match="cannot be written"):
        fetch(f"{site.address}/data.bin", tmp_path / "file" / "data.bin.part", report, QUICK)


def test_a_short_text_is_read_or_there_is_none(site, report):
    site.files["data.sha256"] = b"abc  data.bin\n"
    assert fetch_text(f"{site.address}/data.sha256", report, QUICK) == "abc  data.bin\n"
    assert fetch_text(f"{site.address}/no.sha256", report, QUICK) is None
    site.answers = [401]
    with pytest.raises(CrvnnError, match="401"):
        fetch_text(f"{site.address}/data.sha256", report, QUICK)
