"""What the tests of commands share."""

import pytest

CELLS = """
from crvnn_core import Cell, Component, hookimpl


class Forgetful(Cell):
    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        return left


@hookimpl
def crvnn_cells():
    return [Component("forgetful", Forgetful, summary="keeps the left child only")]
"""


@pytest.fixture
def plugin_file(tmp_path):
    path = tmp_path / "cells.py"
    path.write_text(CELLS)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
