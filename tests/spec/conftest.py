"""What the tests of specs share."""

import pytest


@pytest.fixture
def spec_file(tmp_path):
    """Writes a spec and gives its path."""

    def write(text, name="my.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
