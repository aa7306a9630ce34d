"""What all tests share."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side; threads would only fight

import pytest
import torch
from hypothesis import settings

from crvnn_core import create_plugin_manager, host, read_catalog

torch.set_num_threads(1)

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


@pytest.fixture(autouse=True)
def _same_randomness_every_time():
    torch.manual_seed(0)
