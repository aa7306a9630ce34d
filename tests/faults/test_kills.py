"""SIGKILL at random moments: the work goes on to the bits of work that nothing disturbed."""

import random
import signal

import pytest

from disturbed import DataMaking, Downloading, Reproducing, Saving, Seeds, Sweeping, Training

KILLED = 128 + signal.SIGKILL
#: How often each is killed; 50 times in all.
KILLS = {
    Training: 12,
    Saving: 12,
    Seeds: 8,
    DataMaking: 5,
    Downloading: 5,
    Sweeping: 4,
    Reproducing: 4,
}
#: The kills that the default tests have.
FEW = ((Training, 0), (Saving, 0), (DataMaking, 0))
CASES = [
    pytest.param(
        work, number, id=f"{work.name}-{number + 1}", marks=() if (work, number) in FEW else pytest.mark.slow
    )
    for work, count in KILLS.items()
    for number in range(count)
]


def test_there_are_fifty_kills():
    assert sum(KILLS.values()) == 50


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_work_that_was_killed_goes_on_to_the_same_bits(kind, number, crvnn, tmp_path, request, goes_on, told):
    work = kind(request.getfixturevalue("site").address) if kind is Downloading else kind()
    work.prepare(tmp_path)
    kill = killed_while_saving if kind is Saving else killed_after_a_while
    assert kill(work, number, crvnn, tmp_path, request) == KILLED
    goes_on(work)
    told.killed(work.name)


def killed_after_a_while(work, number, crvnn, directory, request):
    """The exit code of work that was killed at a random moment, not before it has written anything."""
    _, _, seconds = request.getfixturevalue("undisturbed")(work)
    chance = random.Random(f"{work.name} {number}").random()
    while True:
        process = crvnn(*work.begin(directory), cwd=directory)
        process.wait(chance * seconds)
        process.send(signal.SIGKILL)
        if process.wait() == KILLED:
            return KILLED
        chance /= 2  # it was quicker than the undisturbed one, and had ended
        clear(directory)
        work.prepare(directory)


def killed_while_saving(work, number, crvnn, directory, request):
    """The exit code of training that was killed before a random change of a file, or within a random file."""
    generator = random.Random(f"{work.name} {number}")
    if number % 2:
        fault = {"kind": "die_in_file", "number": generator.randint(1, 18), "share": generator.random()}
    else:
        fault = {"kind": "die_at_change", "number": generator.randint(1, 80), "under": work.out}
    return crvnn(*work.begin(directory), cwd=directory, fault=fault).wait()


def clear(directory):
    """Remove everything in a directory."""
    import shutil

    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
