"""A disk that is full: one message, nothing half-written, and the work goes on once there is room."""

import contextlib
import os
import subprocess

import pytest

from disturbed import DataMaking, Downloading, Saving, Seeds, Training

FAULTS = {
    Saving: "a full disk while training",
    Seeds: "a full disk while training several seeds",
    DataMaking: "a full disk while making data",
    Downloading: "a full disk while downloading",
}
CASES = [pytest.param(kind, marks=() if kind is DataMaking else pytest.mark.slow) for kind in FAULTS]


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, and a function that changes its size."""
    place = tmp_path / "disk"
    place.mkdir()

    def size(text, *more):
        options = ["-o", ",".join([*more, f"size={text}"])]
        subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", place], check=True, capture_output=True)

    try:
        size("1m")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a tmpfs needs root")
    try:
        yield place, lambda text: size(text, "remount")
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(directory, left):
    """Write a file that leaves so many bytes of room."""
    free = os.statvfs(directory)
    with contextlib.suppress(OSError), (directory / "filling").open("wb") as file:
        file.write(bytes(max(free.f_bavail * free.f_frsize - left, 0)))


@pytest.mark.parametrize("kind", CASES)
def test_work_on_a_full_disk_goes_on_when_there_is_room(kind, crvnn, disk, request, goes_on, told):
    place, resize = disk
    work = kind(request.getfixturevalue("site").address) if kind is Downloading else kind()
    fill(place, 120_000 if kind in (Saving, Seeds) else 40_000)
    process = crvnn(*work.begin(place), cwd=place)
    assert process.wait() == 2, process.err
    told(FAULTS[kind], process.err)
    (place / "filling").unlink()
    resize("64m")
    assert [path.name for path in place.rglob(".*")] == []
    goes_on(work, place)


@pytest.mark.slow
def test_a_write_that_the_kernel_refuses_is_one_message(crvnn, tmp_path, goes_on, told):
    work = Training()
    process = crvnn(*work.begin(tmp_path), fault={"kind": "limit_files", "size": 20_000})
    assert process.wait() == 2, process.err
    told("a file that may not become larger", process.err)
    goes_on(work)
