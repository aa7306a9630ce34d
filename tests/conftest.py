"""What all tests share."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side; threads would only fight

import signal
import threading

import pytest
import torch
from hypothesis import settings

import small
from crvnn_core import create_plugin_manager, read_catalog, train_seeds
from crvnn_core.host import manager as host
from crvnn_core.inference.trained import load
from crvnn_core.kernels import in_use, without
from crvnn_core.spec import read_spec
from crvnn_core.training.trainer import train
from warm import warm_command

torch.set_num_threads(1)

# A shell starts background jobs with SIGINT ignored, which tests send and processes inherit.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A reader of the tutorial has a package of their own installed here. It must not make our tests fail.
_everyone = host._installed
host._installed = lambda: [
    entry for entry in _everyone() if entry.dist is not None and entry.dist.name == "crvnn"
]

settings.register_profile("crvnn", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("crvnn")


@pytest.fixture(scope="session")
def catalog():
    """Everything that is installed."""
    return read_catalog(create_plugin_manager())


@pytest.fixture(scope="session")
def eager_run(tmp_path_factory):
    """A run whose decision composes everything in the first step, in conflicts."""
    path = tmp_path_factory.mktemp("eager") / "run"
    train(small.variant("training.steps=1", "model.decision=eager"), path)
    return path


@pytest.fixture(params=["kernels", "torch"])
def by(request):
    """Once with the native kernels, once by torch alone, for tests marked with ``usefixtures("by")``.

    Where only some cases of a test reach a kernel, parametrise it over ``by`` with ``indirect=["by"]``.
    """
    if request.param == "kernels":
        if not in_use():
            pytest.skip("the native kernels are not built ('crvnn doctor --build')")
        yield
    else:
        with without():
            yield


@pytest.fixture(autouse=True)
def _same_randomness_every_time():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def commands():
    """A directory with a ``crvnn`` that starts at once."""
    with warm_command() as directory:
        yield directory


def _trained(tmp_path_factory, *sets):
    path = tmp_path_factory.mktemp("trained") / "run"
    train(small.variant("training.steps=30", "training.evaluate_every=10", *sets), path)
    return path


@pytest.fixture(scope="session")
def letters_run(tmp_path_factory):
    """A run directory of a model that knows its letters; to be copied before it is changed."""
    return _trained(tmp_path_factory)


@pytest.fixture(scope="session")
def seeds_run(tmp_path_factory, small_catalog):
    """A directory with the runs of the seeds 3 to 5; to be copied before it is changed."""
    path = tmp_path_factory.mktemp("seeds") / "run"
    sets = [*small.SETTINGS, "training.steps=12", "training.evaluate_every=6", "seed=3"]
    train_seeds(read_spec(small_catalog, sets=sets), path, seeds=3, catalog=small_catalog)
    return path


@pytest.fixture(scope="session")
def pairs_run(tmp_path_factory):
    """A run directory of a model for pairs; to be copied before it is changed."""
    return _trained(tmp_path_factory, "task=pairs", "training.steps=10")


@pytest.fixture(scope="module")
def letters(letters_run, small_catalog):
    """The model that knows its letters, loaded."""
    return load(letters_run, small_catalog)


@pytest.fixture(scope="module")
def pairs(pairs_run, small_catalog):
    """The model for pairs, loaded."""
    return load(pairs_run, small_catalog)


@pytest.fixture(scope="session")
def small_catalog():
    """Everything that is installed, and the small tasks."""
    return small.catalog_with()


@pytest.fixture(autouse=True)
def numbers_of_every_size():
    """Training flushes the smallest numbers to zero, in the whole process; no other test should notice."""
    torch.set_flush_denormal(False)
    yield
    torch.set_flush_denormal(False)
