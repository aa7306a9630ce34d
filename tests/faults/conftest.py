"""A command that starts at once, undisturbed results to compare with, and the table of faults at the end."""

import pytest

from disturbed import ROWS, Downloading
from fault_table import Told
from serving import serving
from warm import WarmProcess, warm_command

MODULES = (
    "crvnn_core.training.seeds",
    "crvnn_core.inference.trained",
    "crvnn_experiments.sweep_command",
    "crvnn_experiments.sweep",
    "crvnn_experiments.pages",
    "crvnn_experiments.plan",
    "crvnn_tasks.data.downloads",
    "optuna",
    "sqlalchemy.dialects.sqlite",
)
_TOLD = pytest.StashKey[Told]()


def pytest_configure(config):
    config.stash[_TOLD] = Told()


def pytest_terminal_summary(terminalreporter, config):
    told = config.stash.get(_TOLD, None)
    if told is not None and told.rows:
        terminalreporter.section("faults and their messages")
        terminalreporter.write(f"{told}\n")


@pytest.fixture(scope="session")
def told(request):
    """Compares messages with those of the documentation, and remembers which were seen."""
    return request.config.stash[_TOLD]


@pytest.fixture(scope="session")
def warm():
    """The directory of the command that starts at once."""
    with warm_command(*MODULES) as directory:
        yield directory


@pytest.fixture
def crvnn(warm, tmp_path):
    """Begins ``crvnn`` in a directory of the test's own; all processes have ended when the test has."""
    begun = []

    def begin(*args, cwd=tmp_path, fault=None, **variables):
        begun.append(WarmProcess(warm, *args, cwd=cwd, fault=fault, **variables))
        return begun[-1]

    yield begin
    for process in begun:
        process.end()


@pytest.fixture(scope="session")
def site():
    """A mirror of a data set."""
    with serving() as served:
        served.files = dict.fromkeys(("train_d20s.tsv", "test_d20s.tsv"), ROWS)
        served.pace = 0.5
        yield served


class Undisturbed:
    """What work gives that nothing disturbs, and how many seconds it takes; it is done once."""

    def __init__(self, warm, factory):
        self._warm, self._factory, self._found = warm, factory, {}

    def __call__(self, work):
        if work.name not in self._found:
            directory = self._factory.mktemp("undisturbed")
            work.prepare(directory)
            process = WarmProcess(self._warm, *work.begin(directory), cwd=directory)
            try:
                assert process.wait() == work.code, process.err
            finally:
                process.end()
            self._found[work.name] = (work.result(directory), work.files(directory), process.seconds)
        return self._found[work.name]


@pytest.fixture(scope="session")
def undisturbed(warm, tmp_path_factory):
    """The result, the files and the seconds of undisturbed work."""
    return Undisturbed(warm, tmp_path_factory)


@pytest.fixture
def goes_on(crvnn, tmp_path, undisturbed):
    """Lets disturbed work go on, and compares its result and its files with the undisturbed ones."""

    def go_on(work, directory=tmp_path):
        work.check_whole(directory)
        process = crvnn(*work.go_on(directory), cwd=directory)
        assert process.wait() == work.code, process.err
        assert "Traceback" not in process.err
        result, files, _ = undisturbed(work)
        assert work.files(directory) == files
        assert work.result(directory) == result
        return process

    return go_on


@pytest.fixture
def downloading(site):
    """A download of a second."""
    return Downloading(site.address)
