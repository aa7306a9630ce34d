"""What the tests of commands share."""

import pytest

from calling import CELLS


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
