"""The bound on the memory of fuzz tests, and the number of their examples."""

import resource

import pytest

from fuzzing import COUNTS

MOST_MEMORY = 400 * 2**10  # KiB that a test may add to the peak of the process


@pytest.fixture(autouse=True)
def bounded_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory for the files of all examples of a module."""
    return tmp_path_factory.mktemp("fuzz")


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # one of several processes
        session.config.workeroutput["fuzzed"] = dict(COUNTS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    COUNTS.update(getattr(node, "workeroutput", {}).get("fuzzed", {}))


def pytest_terminal_summary(terminalreporter):
    if COUNTS:
        terminalreporter.section("generated examples")
        for name, number in sorted(COUNTS.items()):
            terminalreporter.write_line(f"{number:9,}  {name}")
        terminalreporter.write_line(f"{sum(COUNTS.values()):9,}  in all")
