"""HTTP transfers that resume: byte ranges, retries with exponential backoff, one clear error in the end."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from email.message import Message
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from attrs import frozen

from crvnn_core.display.progress import Progress, counting, format_bytes
from crvnn_core.errors import CrvnnError
from crvnn_core.files import write_atomically

T = TypeVar("T")
_CHUNK = 1 << 16  # bytes
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # status codes after which a retry may succeed


@frozen
class Retries:
    """How many attempts in a row may fail without any new bytes, and how many seconds to wait."""

    attempts: int = 4
    pause: float = 1.0  # before the first retry; doubled each time
    timeout: float = 30.0  # for an answer


class RefusedError(CrvnnError):
    """The server answers, but not with the file: another server may have it."""


class _TransientError(Exception):
    """A failure after which a retry may succeed."""


def showing_transfers() -> AbstractContextManager[Progress]:
    """What shows the progress of one transfer after the other: a bar, or lines."""
    return counting(None, "downloading", unit=format_bytes, interval=10.0)


def fetch(url: str, partial: Path, progress: Progress, retries: Retries) -> bool:
    """Download ``url`` into the file ``partial``; whether an earlier, interrupted download was resumed.

    After a failure the bytes received so far stay in ``partial``, and the next call requests only the rest.
    """
    resumed = _Partial.read(url, partial).done > 0
    _retry(lambda: _transfer(url, partial, progress, retries.timeout), partial, progress, retries)
    return resumed


def fetch_text(url: str, progress: Progress, retries: Retries) -> str | None:
    """The first 4 kB of a text file; ``None`` if the server does not have it."""

    def read() -> str | None:
        try:
            with _open(url, {}, retries.timeout) as response:
                return _read(response, 4096).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (403, 404, 410):
                    return None
                raise _refusal(url, error) from None

    return _retry(read, None, progress, retries)


def check_address(url: str) -> None:
    """Raise ``CrvnnError`` unless this is an HTTP(S) URL; nothing is requested."""
    try:
        parts = urlsplit(url)
    except ValueError as error:  # a bracket that never closes
        raise CrvnnError(f"{url} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CrvnnError(f"{url} is not a URL: it must begin with http:// or https://, and name a host")


def discard(partial: Path) -> None:
    """Delete a partial download and what was recorded about it."""
    partial.unlink(missing_ok=True)
    _record_of(partial).unlink(missing_ok=True)


def _retry(attempt: Callable[[], T], partial: Path | None, progress: Progress, retries: Retries) -> T:
    """Repeat an attempt after transient failures; an attempt that brought new bytes resets the count."""
    failures, received = 0, _size(partial)
    while True:
        try:
            return attempt()
        except _TransientError as error:
            if _size(partial) > received:
                failures, received = 0, _size(partial)
            failures += 1
            if failures >= retries.attempts:
                kept = f"\n  {format_bytes(_size(partial))} are kept; the same command resumes from there."
                raise CrvnnError(
                    f"{error}. {failures} attempts failed.{kept if _size(partial) else ''}"
                ) from None
            pause = retries.pause * 2 ** (failures - 1)
            progress.print(f"{error}; retrying in {pause:g} s")
            time.sleep(pause)


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.is_file() else 0


@frozen
class _Partial:
    """A partial download: its size, and the total size and validator (ETag or date) of the whole file."""

    done: int = 0
    total: int | None = None
    validator: str = ""

    @classmethod
    def read(cls, url: str, path: Path) -> _Partial:
        """What was recorded about the file at ``path``; an empty one, if it came from another URL or nothing was."""
        try:
            saved = json.loads(_record_of(path).read_text(encoding="utf-8"))
            return cls(_size(path), saved["total"], saved["tag"]) if saved["url"] == url else cls()
        except (OSError, ValueError, KeyError, TypeError):
            return cls()


def _record_of(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _transfer(url: str, path: Path, progress: Progress, timeout: float) -> None:
    """One attempt at the bytes that are missing."""
    known = _Partial.read(url, path)
    if known.done and known.done == known.total:
        return
    headers = {"Range": f"bytes={known.done}-"} if known.done else {}
    if known.done and known.validator:  # the rest of the same version, or all of another
        headers["If-Range"] = known.validator
    try:
        with _open(url, headers, timeout) as response:
            partial = response.status == 206
            length = response.headers.get("Content-Length", "")
            whole = 0, int(length) if length.isdecimal() else None
            start, total = _content_range(response.headers) if partial else whole
            if not partial or (start == known.done and known.total in (None, total)):
                if response.headers.get_content_type() == "text/html":
                    raise RefusedError(
                        f"{url}: a web page came instead of the file; the network may require a login, or the file "
                        "has moved."
                    )
                _save(url, path, response, progress, _Partial(start, total, _validator(response.headers)))
                return
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 416 or not known.done:  # 416: range not satisfiable
                raise _refusal(url, error) from None
            if _content_range(error.headers)[1] == known.done:  # it is complete
                return
    if not known.done:
        raise CrvnnError(f"{url}: the server sends a part of the file although all of it was requested")
    progress.print(f"{path.name} cannot be resumed, the file has changed on the server; starting over")
    discard(path)
    _transfer(url, path, progress, timeout)


def _save(url: str, path: Path, response: Any, progress: Progress, known: _Partial) -> None:
    """Append the body of a response to the file; a transient error unless the file is then complete."""
    done, total = known.done, known.total
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if total is not None and total - done > free:
            raise CrvnnError(
                f"{path.parent} has {format_bytes(free)} of free space; "
                f"{path.stem} needs {format_bytes(total - done)} more"
            )
        if not done:
            path.unlink(missing_ok=True)
        write_atomically(_record_of(path), json.dumps({"url": url, "total": total, "tag": known.validator}))
        present = f", {format_bytes(done)} already present" if done else ""
        size = f" ({format_bytes(total)}{present})" if total else ""
        progress.print(f"downloading {path.stem}{size}")
        progress.begin(total, path.stem, done)
        with path.open("ab") as file:
            while chunk := _read(response, _CHUNK):
                file.write(chunk)
                file.flush()  # so that a full disk raises here
                done += len(chunk)
                progress(len(chunk))
    except OSError as error:
        raise CrvnnError(f"{path} cannot be written: {error}") from error
    if total is not None and done < total:
        raise _TransientError(f"{url}: connection lost at {format_bytes(done)} of {format_bytes(total)}")


def _open(url: str, headers: Mapping[str, str], timeout: float) -> Any:
    """The response; ``HTTPError`` is passed on, other failures become ``_TransientError`` or ``CrvnnError``."""
    check_address(url)
    request = urllib.request.Request(
        url, headers={"User-Agent": "crvnn", "Accept-Encoding": "identity", **headers}
    )
    try:
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise CrvnnError(f"{_host(url)} has no valid certificate: {error.reason}") from None
        raise _TransientError(f"{_host(url)} cannot be reached: {error.reason}") from None
    except (ValueError, http.client.InvalidURL) as error:  # a port that is no number, a space in the name
        raise CrvnnError(f"{url} is not a URL: {error}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _TransientError(f"{_host(url)} does not answer: {error!r}") from None


def _read(response: Any, count: int) -> bytes:
    try:
        chunk: bytes = response.read(count)
    except (OSError, http.client.HTTPException) as error:
        raise _TransientError(f"{_host(response.url)}: connection lost: {error!r}") from None
    return chunk


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    answer = f"{url}: the server answers {error.code} {error.reason}"
    return _TransientError(answer) if error.code in _TRANSIENT else RefusedError(f"{answer}.")


def _content_range(headers: Message) -> tuple[int, int | None]:
    """First byte and total size in ``bytes 5-9/10`` or ``bytes */10``; -1 and ``None`` for what is not given."""
    match = re.match(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", headers.get("Content-Range", ""))
    if match is None:
        return -1, None
    return int(match[1] or -1), None if match[2] == "*" else int(match[2])


def _validator(headers: Message) -> str:
    """What identifies this version of the file for ``If-Range``: a strong ETag, or else the date of its last change."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _host(url: str) -> str:
    return urlsplit(url).netloc or url
