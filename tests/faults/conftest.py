"""Commands to disturb, and undisturbed results to compare with."""

import functools

import pytest

from disturbed import ROWS, WORKS, left_by
from serving import serving
from warm import WarmProcess


@pytest.fixture(scope="session")
def begin(commands):
    """Begins ``crvnn`` in a directory; ``{mirror}`` is the address of a mirror of a data set."""
    with serving() as mirror:
        mirror.files = dict.fromkeys(("train_d20s.tsv", "test_d20s.tsv"), ROWS)
        mirror.pace = 0.5

        def begin(*args, cwd, code=""):
            named = [mirror.address if arg == "{mirror}" else arg for arg in args]
            return WarmProcess(commands, *named, cwd=cwd, code=code)

        yield begin


@pytest.fixture
def crvnn(begin, tmp_path):
    """Begins ``crvnn`` in a directory of the test's own; all processes have ended when the test has."""
    begun = []

    def begin_here(*args, cwd=tmp_path, code=""):
        begun.append(begin(*args, cwd=cwd, code=code))
        return begun[-1]

    yield begin_here
    for process in begun:
        process.end()


@pytest.fixture(scope="session")
def undisturbed(begin, tmp_path_factory):
    """What work leaves that nothing disturbs, and how many seconds it takes; it is done once."""

    @functools.cache
    def find(name):
        work, directory = WORKS[name], tmp_path_factory.mktemp("undisturbed")
        work.prepare(directory)
        process = begin(*work.command, cwd=directory)
        try:
            assert process.wait() == work.code, process.err
        finally:
            process.end()
        return left_by(directory), process.seconds

    return find


@pytest.fixture
def goes_on(crvnn, tmp_path, undisturbed):
    """Lets disturbed work go on, and compares what it leaves with what undisturbed work does."""

    def go_on(name, directory=tmp_path):
        left_by(directory)  # every file is whole
        process = crvnn(*WORKS[name].resumption(directory), cwd=directory)
        assert process.wait() == WORKS[name].code, process.err
        assert "Traceback" not in process.err
        expected, _ = undisturbed(name)
        assert left_by(directory) == expected

    return go_on
