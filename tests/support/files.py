"""Writing and reading files for tests."""


def write(path, text):
    """Write a text or bytes, make the directories above, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def contents(directory):
    """The bytes of every file in a directory and below, by path."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
