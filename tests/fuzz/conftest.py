"""The bound on the memory of fuzz tests."""

import resource

import pytest

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
