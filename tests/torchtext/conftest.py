import pytest


@pytest.fixture
def torchtext():
    return pytest.importorskip("torchtext", reason="the extra 'torchtext' is not installed")
