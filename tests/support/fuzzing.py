"""What fuzz tests share: the number of examples, texts and bytes likely to do harm, and a watch on side effects."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from crvnn_core import CrvnnError

#: For each test; ``make test-fuzz`` takes many more.
EXAMPLES = int(os.environ.get("CRVNN_FUZZ_EXAMPLES", "20"))
#: An example that takes longer counts as a hang.
LONGEST = timedelta(seconds=20)


#: How many examples each test has had in this process.
COUNTS: Counter[str] = Counter()


def many(cost: int = 1) -> Callable[[Any], Any]:
    """Settings for a test whose examples take ``cost`` times as long as those of others; its examples are counted."""
    chosen = settings(
        max_examples=max(5, EXAMPLES // cost),
        deadline=LONGEST,
        suppress_health_check=list(HealthCheck),
        derandomize=EXAMPLES < 100,
        database=None,
    )

    def decorate(test: Any) -> Any:
        inner = test.hypothesis.inner_test

        @functools.wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            COUNTS[inner.__name__] += 1
            return inner(*args, **kwargs)

        test.hypothesis.inner_test = counted
        return chosen(test)

    return decorate


_PIECES = [
    *"()[]{}\"'\\/.,:;=#-_ \t\n\r\0",
    *("a", "b", "the", "0", "7", "1e30", "-1", "nan", "inf", "Infinity", "NaN", "null", "true", "None"),
    *("\ufeff", "\u0301", "\u202e", "\u2028", "\u00ad", "\ud800", "\U0001f600", "é", "²", "\x85"),
    *("../../etc/passwd", "/etc/passwd", "~root", "~x", "file:///etc/passwd", "C:\\x", "$HOME", "%s", "{0}"),
    *(
        "1" * 5000,
        "9" * 400,
        "[" * 3000,
        "(" * 3000,
        "{" * 3000,
        " " * 3000,
        "n't" * 500,
        "a." * 300,
        "x" * 5000,
    ),
    *("-LRB-", "\\u{110000}", "\\ud83d", '\\"', '"""', "'''", "[MAX", "]", "( not", "( and", "(3", "(2 a)"),
    *(
        "__import__('os').system('x')",
        "!!python/object",
        "\x80\x04.",
        "[[stages]]",
        "[model]",
        "extends",
        "preset",
    ),
]
#: Texts of pieces that parsers stumble over, and of any characters.
texts = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=12).map("".join),
    st.text(max_size=60),
    st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=8)), max_size=8).map(" ".join),
)
_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(_PIECES),
)


def trees_of_values(keys: list[str]) -> st.SearchStrategy[object]:
    """JSON of any shape, with some of these keys."""
    return st.recursive(
        _values,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(keys) | st.text(max_size=5), inner, max_size=5)
        ),
        max_leaves=12,
    )


def as_bytes(text: str) -> bytes:
    """The bytes of a text, halves of surrogate pairs included."""
    return text.encode("utf-8", "surrogatepass")


#: The bytes of such texts, and any bytes.
contents = st.one_of(texts.map(as_bytes), st.binary(max_size=200))


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with some bytes changed, removed or added."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        change = draw(st.sampled_from(["flip", "cut", "insert", "repeat"]))
        if change == "flip" and data:
            data[place] = draw(st.integers(0, 255))
        elif change == "cut":
            del data[place : place + draw(st.integers(1, 50))]
        elif change == "insert":
            data[place:place] = draw(st.binary(min_size=1, max_size=8))
        else:
            data[place:place] = data[max(0, place - 20) : place]
    return bytes(data)


_RUNS_CODE = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "pickle.find_class",
    "socket.connect",
)
_watched: list[tuple[Path, list[str]]] = []
_installed = False


def _audit(event: str, args: tuple[object, ...]) -> None:
    if not _watched:
        return
    directory, found = _watched[-1]
    if event in _RUNS_CODE:
        found.append(f"{event} {args}")
    if event != "open" or not isinstance(args[0], (str, bytes, os.PathLike)) or not isinstance(args[2], int):
        return
    if args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        path = Path(os.fsdecode(args[0])).absolute()
        harmless = path == Path(os.devnull) or "__pycache__" in path.parts
        if not path.is_relative_to(directory) and not harmless:
            found.append(f"{event} {path}")


@contextlib.contextmanager
def watched(directory: Path) -> Iterator[None]:
    """Fail if a program is started, something unpickled, a connection made, or a file written elsewhere."""
    global _installed
    if not _installed:
        sys.addaudithook(_audit)
        _installed = True
    found: list[str] = []
    _watched.append((directory, found))
    try:
        yield
    finally:
        _watched.pop()
    assert not found, found


def only_our_errors(directory: Path, work: object, *args: object) -> None:
    """Call a function, which may raise a ``CrvnnError`` with a message, and nothing else."""
    with watched(directory):
        try:
            found = work(*args)  # type: ignore[operator]
            if isinstance(found, Iterator):
                for _ in found:
                    pass
        except CrvnnError as error:
            message = str(error)
        else:
            message = "none"
    assert 0 < len(message) < 100_000
