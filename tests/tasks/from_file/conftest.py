"""What the tests of files of the user's own share."""

import pytest


@pytest.fixture
def write(tmp_path):
    def put(name, text, newline="\n"):
        path = tmp_path / name
        path.write_bytes(text.replace("\n", newline).encode())
        return str(path)

    return put
