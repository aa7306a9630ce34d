"""'maxout-cell' is installed, and keeps every promise of a cell."""

import pytest

from crvnn_core import create_plugin_manager, read_catalog
from crvnn_core.testing import CHECKS


@pytest.fixture(scope="session")
def component():
    return read_catalog(create_plugin_manager()).find("cell", "maxout-cell").component


def test_it_is_installed(component):
    assert component.name == "maxout-cell"


@pytest.mark.parametrize("check", CHECKS["cell"], ids=lambda check: check.__name__)
def test_it_keeps_its_promises(component, check):
    check(component)
