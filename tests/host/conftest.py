"""What the tests of the host share."""

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from crvnn_core.host import manager


class _Package:
    def __init__(self, name, version):
        self.name, self.version = name, version


@pytest.fixture
def install(monkeypatch):
    """Pretend that packages are installed, each with one plug-in module."""
    entries = []
    monkeypatch.setattr(manager, "_installed", lambda: entries)

    def add(name, module, package, version="1.0"):
        if isinstance(module, types.ModuleType):
            monkeypatch.setitem(sys.modules, module.__name__, module)
            module = module.__name__
        entries.append(EntryPoint(name, module, "crvnn")._for(_Package(package, version)))

    return add
