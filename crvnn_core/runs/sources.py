"""Runs that are not directories here: zip files, http(s) addresses, and what plug-ins can fetch.

They are unpacked into the cache, in a directory named by the SHA-256 of the zip file. One that was downloaded with a
checksum is kept beside it, so that every use can compare both.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from crvnn_core.errors import CrvnnError, nearest
from crvnn_core.files import cache_directory, sha256_of
from crvnn_core.host.catalog import WEB, Catalog
from crvnn_core.runs.archive import unpack

_CHECKSUM = re.compile(r"#sha256=(.*)$")


def fetched(run: str, catalog: Catalog) -> Path | None:
    """The directory of a run that is given as a zip file or an address, fetched and unpacked if need be.

    ``None`` if ``run`` is neither. ``#sha256=...`` behind it says which zip file is meant; any other is refused.

    :param catalog: with what plug-ins can fetch, by the scheme of the address.
    """
    match = _CHECKSUM.search(run)
    place, expected = (run[: match.start()], _checksum(run, match[1])) if match else (run, "")
    if Path(place).is_dir() and match:
        raise CrvnnError(f"{place} is a directory; a checksum is that of a zip file")
    if Path(place).is_file():
        return _unpacked(Path(place), place, expected)
    scheme, colon, rest = place.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9+.-]+", scheme):  # a single letter is a drive
        return None
    if scheme in WEB:
        return _downloaded(place, expected)
    if scheme not in catalog.run_sources:
        known = (*WEB, *catalog.run_sources)
        raise CrvnnError(
            f"{run}: runs cannot be fetched from '{scheme}:'.{nearest(scheme, known)}\n"
            f"An address begins with {', '.join(f'{name}:' for name in known)}."
        )
    if expected:
        raise CrvnnError(f"{run}: a checksum is that of a zip file; '{scheme}:' has none")
    return catalog.run_sources[scheme][0].load()(rest.removeprefix("//"))


def _checksum(run: str, text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise CrvnnError(f"{run}: a SHA-256 checksum has 64 hexadecimal digits, not {len(text)} characters")
    return text.lower()


def _unpacked(archive: Path, name: str, expected: str) -> Path:
    """The cached directory of a zip file, after comparing the checksum if one is expected."""
    try:
        digest = sha256_of(archive)
    except OSError as error:
        raise CrvnnError(f"{name} cannot be read: {error}") from error
    if expected and digest != expected:
        raise CrvnnError(
            f"{name} is refused: this is another file than expected.\n  sha256   {digest}\n  expected {expected}"
        )
    unpack(archive, name, _cache() / digest)
    return _cache() / digest


def _downloaded(url: str, expected: str) -> Path:
    """The cached directory of a zip file at an address. Without a checksum it is downloaded every time."""
    from crvnn_core.downloads.transfer import Retries, discard, fetch, showing_transfers

    kept = _cache() / f"{expected}.zip"
    if _is_whole(kept, expected):
        return _unpacked(kept, url, expected)
    number, file = (
        hashlib.sha256(url.encode()).hexdigest()[:12],
        re.sub(r"[^\w.-]", "_", url.rpartition("/")[2]),
    )
    partial = _cache() / number / f"{file}.part"
    with _alone(_cache() / f"{number}.lock"), showing_transfers() as progress:
        if _is_whole(kept, expected):  # by another process
            return _unpacked(kept, url, expected)
        fetch(url, partial, progress, Retries())
        try:
            directory = _unpacked(partial, url, expected)
            if expected:
                partial.replace(kept)
        finally:
            discard(partial)
        if not expected:
            progress.print(
                f"not verified, and downloaded again next time; with its checksum this is {url}#sha256={directory.name}"
            )
        return directory


def _is_whole(archive: Path, expected: str) -> bool:
    return archive.is_file() and sha256_of(archive) == expected


def _cache() -> Path:
    return cache_directory() / "runs"


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """A block that one process at a time is in; others wait. Without ``fcntl`` (Windows) nothing is locked."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise CrvnnError(f"{path.parent} cannot be used: {error}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
