"""SIGKILL at random moments: the work goes on to the bits of work that nothing disturbed."""

import random
import shutil
import signal

import pytest

from disturbed import WORKS

KILLED = 128 + signal.SIGKILL
#: How often each is killed.
KILLS = {
    "training": 12,
    "saving": 12,
    "training several seeds": 8,
    "making data": 5,
    "downloading": 5,
    "sweeping": 4,
    "reproducing": 4,
}
CASES = [
    pytest.param(
        name, number, marks=() if (name, number) in (("saving", 0), ("making data", 0)) else pytest.mark.slow
    )
    for name, count in KILLS.items()
    for number in range(count)
]
#: Kills its process before a change of a file below a directory, by its number.
KILL_BEFORE = """
import os, signal, sys
changes = iter(range({number}))
def count(event, args):
    if event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.truncate"):
        return
    if event == "open" and (isinstance(args[0], int) or not args[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    if os.path.abspath(os.fsdecode(args[0])).startswith({under!r}) and next(changes, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
"""


@pytest.mark.parametrize(("name", "number"), CASES)
def test_work_that_was_killed_goes_on_to_the_same_bits(name, number, crvnn, tmp_path, undisturbed, goes_on):
    work, generator = WORKS[name], random.Random(f"{name} {number}")
    work.prepare(tmp_path)
    if name == "saving":
        code = KILL_BEFORE.format(number=generator.randrange(80), under=str(tmp_path / "a"))
        assert crvnn(*work.command, code=code).wait() == KILLED
    else:
        kill_after(generator.random() * undisturbed(name)[1], work, crvnn, tmp_path)
    goes_on(name)


def kill_after(seconds, work, crvnn, directory):
    while True:
        process = crvnn(*work.command)
        process.wait(seconds)
        process.send(signal.SIGKILL)
        if process.wait() == KILLED:
            return
        seconds /= 2  # it was quicker than the undisturbed one, and had ended
        for path in directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        work.prepare(directory)
