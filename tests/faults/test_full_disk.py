"""A disk that is full: one message, nothing half-written, and the work goes on once there is room."""

import os
import subprocess

import pytest

from disturbed import TRAINING, WORKS, assert_told

#: The bytes of room that there are.
ROOM = {"saving": 120_000, "training several seeds": 120_000, "making data": 40_000, "downloading": 40_000}


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own, and a function that changes its size."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options):
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True, capture_output=True
        )

    try:
        mount("size=1m")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a tmpfs needs root")
    try:
        yield place, mount
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "making data" else pytest.mark.slow) for name in ROOM]
)
def test_work_on_a_full_disk_goes_on_when_there_is_room(name, crvnn, disk, goes_on):
    place, mount = disk
    free = os.statvfs(place)
    (place / "filling").write_bytes(bytes(free.f_bavail * free.f_frsize - ROOM[name]))
    process = crvnn(*WORKS[name].command, cwd=place)
    assert process.wait() == 2, process.err
    assert_told(f"a full disk while {'training' if name == 'saving' else name}", process.err)
    (place / "filling").unlink()
    mount("remount,size=64m")
    assert [path.name for path in place.rglob(".*")] == []
    goes_on(name, place)


@pytest.mark.slow
def test_a_write_that_the_kernel_refuses_is_one_message(crvnn, goes_on):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    process = crvnn(*TRAINING.command, code=limit)
    assert process.wait() == 2, process.err
    assert_told("a file that may not become larger", process.err)
    goes_on("training")
