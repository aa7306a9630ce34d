"""Fetching files over HTTP: on from where a transfer broke off, with retries, and one clear error in the end."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from attrs import frozen

from crvnn_core import CrvnnError
from crvnn_core.files import write_atomically

T = TypeVar("T")
_BLOCK = 1 << 16
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that may be another one in a moment


class Report(Protocol):
    """Is told how a transfer goes."""

    def began(self, file: str, done: int, total: int | None) -> None:
        """A transfer begins or goes on; so many of its bytes are there already."""

    def moved(self, count: int) -> None:
        """So many more bytes are there."""

    def noted(self, message: str) -> None:
        """Something happened that the user should know."""


@frozen
class Patience:
    """How often to try without getting on, and how many seconds to wait: before trying again, and for an answer."""

    attempts: int = 4
    pause: float = 1.0  # doubled each time
    timeout: float = 30.0


class RefusedError(CrvnnError):
    """The server does not give the file: another one may have it."""


class _PassingError(Exception):
    """What may work when it is tried again."""


def fetch(url: str, part: Path, report: Report, patience: Patience) -> bool:
    """Bring all of ``url`` to the file ``part``, and tell whether some of it was there already.

    What came before a failure stays in ``part``; the next call goes on from there if the server lets it.
    """
    resumed = _Facts.of(url, part).done > 0
    _patiently(lambda: _transfer(url, part, report, patience.timeout), part, report, patience)
    return resumed


def fetch_text(url: str, report: Report, patience: Patience) -> str | None:
    """A short text; ``None`` if the server has none."""

    def read() -> str | None:
        try:
            with _open(url, {}, patience.timeout) as response:
                return _receive(response, 4096).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (403, 404, 410):
                    return None
                raise _refusal(url, error) from None

    return _patiently(read, None, report, patience)


def check_address(url: str) -> None:
    """An error unless this is an address that can be fetched from; nothing is asked for."""
    try:
        parts = urlsplit(url)
    except ValueError as error:  # a bracket that never closes
        raise CrvnnError(f"{url} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CrvnnError(f"{url}: an address begins with http:// or https://, and names a host")


def forget(part: Path) -> None:
    """Remove an unfinished file and what is known about it."""
    part.unlink(missing_ok=True)
    _facts_beside(part).unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_in_words(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _patiently(attempt: Callable[[], T], part: Path | None, report: Report, patience: Patience) -> T:
    """Try again after what may pass; give up after so many attempts that brought nothing new."""
    failures, farthest = 0, _size(part)
    while True:
        try:
            return attempt()
        except _PassingError as error:
            if _size(part) > farthest:
                failures, farthest = 0, _size(part)
            failures += 1
            if failures >= patience.attempts:
                kept = f"\n  {size_in_words(_size(part))} are kept; the same command goes on from there."
                raise CrvnnError(
                    f"{error}. {failures} attempts failed.{kept if _size(part) else ''}"
                ) from None
            pause = patience.pause * 2 ** (failures - 1)
            report.noted(f"{error}; trying again in {pause:g} s")
            time.sleep(pause)


def _size(part: Path | None) -> int:
    return part.stat().st_size if part is not None and part.is_file() else 0


@frozen
class _Facts:
    """What is known about an unfinished file: its size, and what the server said of the whole."""

    done: int = 0
    total: int | None = None
    tag: str = ""

    @classmethod
    def of(cls, url: str, part: Path) -> _Facts:
        """Of the file that was begun from this address; nothing, if it was another one or is not known."""
        try:
            saved = json.loads(_facts_beside(part).read_text(encoding="utf-8"))
            known = cls(_size(part), saved["total"], saved["tag"])
            same = saved["url"] == url and (known.total is None or known.done <= known.total)
        except (OSError, ValueError, KeyError, TypeError):
            return cls()
        return known if same else cls()

    def range(self) -> dict[str, str]:
        """The headers that ask for the rest; the whole, if the file is no longer the same."""
        if not self.done:
            return {}
        return {"Range": f"bytes={self.done}-", **({"If-Range": self.tag} if self.tag else {})}


def _facts_beside(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _transfer(url: str, part: Path, report: Report, timeout: float) -> None:
    """One attempt at what is missing."""
    facts = _Facts.of(url, part)
    if facts.done and facts.done == facts.total:
        return
    try:
        response = _open(url, facts.range(), timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 416 or not facts.done:
                raise _refusal(url, error) from None
            complete = _content_range(error.headers)[1] == facts.done
        if not complete:  # there is no such part: the file has become another one
            _start_over(url, part, report, timeout)
        return
    with response:
        resumed = response.status == 206
        start, total = _content_range(response.headers) if resumed else (0, _length(response.headers))
        fits = not resumed or (start == facts.done and facts.total in (None, total))
        if fits:
            _check_kind(url, response.headers)
            _receive_into(url, part, response, report, _Facts(start, total, _tag(response.headers)))
    if not fits:
        if not facts.done:
            raise CrvnnError(f"{url}: the server sends a part of the file although all of it was asked for")
        _start_over(url, part, report, timeout)


def _start_over(url: str, part: Path, report: Report, timeout: float) -> None:
    report.noted(f"{part.name} does not go on from where it stopped; starting over")
    forget(part)
    _transfer(url, part, report, timeout)


def _receive_into(url: str, part: Path, response: Any, report: Report, facts: _Facts) -> None:
    """Write what comes to the end of the file; an error unless all of it came."""
    done, total = facts.done, facts.total
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(part.parent).free
        if total is not None and total - done > free:
            raise CrvnnError(
                f"{part.parent} has {size_in_words(free)} of free space; "
                f"{size_in_words(total - done)} more are needed for {part.stem}"
            )
        if not done:
            part.unlink(missing_ok=True)
        write_atomically(_facts_beside(part), json.dumps({"url": url, "total": total, "tag": facts.tag}))
        report.began(part.stem, done, total)
        with part.open("ab") as file:
            while block := _receive(response, _BLOCK):
                file.write(block)
                file.flush()  # a full disk is to be heard of here
                done += len(block)
                report.moved(len(block))
    except OSError as error:
        raise CrvnnError(f"{part} cannot be written: {error}") from error
    if total is not None and done < total:
        raise _PassingError(f"{url} broke off at {size_in_words(done)} of {size_in_words(total)}")


def _open(url: str, headers: Mapping[str, str], timeout: float) -> Any:
    """The server's answer; what may pass as ``_PassingError``."""
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
            raise CrvnnError(f"{_host(url)} cannot be trusted: {error.reason}") from None
        raise _PassingError(f"{_host(url)} cannot be reached: {error.reason}") from None
    except (ValueError, http.client.InvalidURL) as error:  # a port that is no number, a space in the name
        raise CrvnnError(f"{url} is no address: {error}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _PassingError(f"{_host(url)} does not answer: {error!r}") from None


def _receive(response: Any, count: int) -> bytes:
    try:
        block: bytes = response.read(count)
    except (OSError, http.client.HTTPException) as error:
        raise _PassingError(f"{_host(response.url)} broke off: {error!r}") from None
    return block


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    answer = f"{url}: the server answers {error.code} {error.reason}"
    if error.code in _PASSING:
        return _PassingError(answer)
    return RefusedError(f"{answer}.")


def _check_kind(url: str, headers: Message) -> None:
    if headers.get_content_type() == "text/html":
        raise RefusedError(
            f"{url}: a web page came instead of the file; the network may want you to sign in, or the file has moved."
        )


def _content_range(headers: Message) -> tuple[int, int | None]:
    """First byte and size of the whole, of ``bytes 5-9/10`` or ``bytes */10``; -1 and ``None`` for what is unknown."""
    match = re.match(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", headers.get("Content-Range", ""))
    if match is None:
        return -1, None
    return int(match[1] or -1), None if match[2] == "*" else int(match[2])


def _length(headers: Message) -> int | None:
    length = headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _tag(headers: Message) -> str:
    """What the server recognises this version of the file by; only a strong one is good for parts."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _host(url: str) -> str:
    return urlsplit(url).netloc or url
