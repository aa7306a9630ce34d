"""Reading plain or compressed text files, writing files atomically, checksums, and where the cache is."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import secrets
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from crvnn_core.errors import CrvnnError

#: What decompression raises on corrupt or truncated files.
_CORRUPT = (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile)


@contextlib.contextmanager
def open_text(path: Path, newline: str | None = None) -> Iterator[IO[str]]:
    """Open a UTF-8 text file: plain, gzipped (``.gz``), or the only member of a ``.zip``.

    Whatever prevents reading it is raised as a ``CrvnnError`` that names the file.
    """
    try:
        with contextlib.ExitStack() as stack:
            yield io.TextIOWrapper(_binary(path, stack), encoding="utf-8-sig", newline=newline)
    except FileNotFoundError:
        raise CrvnnError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise CrvnnError(f"{path}: this is a directory; a file was expected") from None
    except UnicodeDecodeError as error:
        raise CrvnnError(f"{path}: this is not UTF-8 text: {error}") from None
    except PermissionError as error:
        raise CrvnnError(f"{path} cannot be read: {error}") from None
    except _CORRUPT as error:
        raise CrvnnError(f"{path}: the file is damaged or cut short: {error}") from None


def _binary(path: Path, stack: contextlib.ExitStack) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", stack.enter_context(gzip.open(path, "rb")))
    if path.suffix == ".zip":
        archive = stack.enter_context(zipfile.ZipFile(path))
        members = [name for name in archive.namelist() if not name.endswith("/")]
        if len(members) != 1:
            held = ", ".join(members[:5]) + (" ..." if len(members) > 5 else "")
            raise CrvnnError(
                f"{path}: a zip file must hold exactly one file; this one holds {held or 'none'}. Extract one."
            )
        return stack.enter_context(archive.open(members[0]))
    return stack.enter_context(path.open("rb"))


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to, and rename it to ``path`` at the end, after an fsync.

    A reader sees the old file or the new one, never a part. On an error the old file is left untouched. A symbolic link
    stays one: the file that it points to is replaced. What is no regular file (a device, a FIFO) is written into. A new
    file has the permissions that the umask leaves, and one that is replaced keeps its own.
    """
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        old = target.stat() if target.exists() else None
        into = old is not None and not stat.S_ISREG(old.st_mode) and not stat.S_ISDIR(old.st_mode)
        temporary = _created(Path(tempfile.gettempdir()) if into else target.parent, target.name)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle; ValueError: NUL
        raise CrvnnError(f"{path} cannot be written: {error}") from error
    try:
        yield temporary
        if into:
            with temporary.open("rb") as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
            return
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if old is not None:
            temporary.chmod(stat.S_IMODE(old.st_mode))
        temporary.replace(target)
    except OSError as error:
        kept = "; the file is unchanged" if old is not None and not into else ""
        raise CrvnnError(f"{path} cannot be written: {error}{kept}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _created(directory: Path, name: str) -> Path:
    """A new empty file for what becomes ``name``, with the permissions that the umask leaves."""
    while True:
        path = directory / f".{name[:200]}.{secrets.token_hex(4)}"  # a name has at most 255 bytes
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            return path


def write_atomically(path: Path, text: str) -> None:
    """Write text to a file so that no reader sees a part of it, even if the process is killed."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_directory() -> Path:
    """CRVNN_CACHE, or where the system has users' caches."""
    if chosen := os.environ.get("CRVNN_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "crvnn"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crvnn"
