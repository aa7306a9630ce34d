"""Reading plain or compressed text files, writing files atomically, checksums, and where the cache is."""

from __future__ import annotations

import contextlib
import glob
import gzip
import hashlib
import io
import lzma
import os
import secrets
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from platformdirs import user_cache_path

from crvnn_core.errors import CrvnnError

#: What decompression raises on corrupt, truncated or encrypted files, and on methods that it does not have.
CORRUPT = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile)
UNSUPPORTED = (NotImplementedError, RuntimeError)  # of zipfile: unknown methods; encrypted files

#: The most bytes of a line, so that a small compressed file cannot fill the memory with one.
LONGEST_LINE = 1 << 25


@contextlib.contextmanager
def open_text(path: Path, newline: str | None = None) -> Iterator[IO[str]]:
    """Open a UTF-8 text file: plain, gzipped (``.gz``), or the only member of a ``.zip``.

    Whatever prevents reading it is raised as a ``CrvnnError`` that names the file.
    """
    try:
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(_Bounded(_binary(path, stack), path, newline))
            yield io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline=newline)
    except FileNotFoundError:
        raise CrvnnError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise CrvnnError(f"{path}: this is a directory; a file was expected") from None
    except UnicodeDecodeError as error:
        raise CrvnnError(f"{path}: this is not UTF-8 text: {error}") from None
    except CORRUPT as error:
        raise CrvnnError(f"{path}: the file is damaged or cut short: {error}") from None
    except OSError as error:  # such as a path that is too long, or damage in what bzip2 has packed
        raise CrvnnError(f"{path!s:.200} cannot be read: {error.strerror or error}") from None


class _Bounded(io.RawIOBase):
    """The bytes of a file, with an error if a line has too many.

    :param newline: as for ``open``; it says where lines end.
    """

    def __init__(self, source: IO[bytes], path: Path, newline: str | None) -> None:
        self._source, self._path = source, path
        self._ends = (b"\n",) if newline == "\n" else (b"\n", b"\r")
        self._line = 0  # bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._source.read(len(buffer))
        except UNSUPPORTED as error:
            raise zipfile.BadZipFile(str(error)) from None
        buffer[: len(data)] = data
        end = max(data.rfind(each) for each in self._ends)
        self._line = self._line + len(data) if end < 0 else len(data) - end - 1
        if self._line > LONGEST_LINE:
            raise CrvnnError(
                f"{self._path}: a line is longer than {LONGEST_LINE // 2**20} MiB; is this a text with a row a line?"
            )
        return len(data)


def _binary(path: Path, stack: contextlib.ExitStack) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", stack.enter_context(gzip.open(path, "rb")))
    if path.suffix == ".zip":
        try:
            return _only_member(path, stack)
        except UNSUPPORTED as error:
            raise CrvnnError(
                f"{path} cannot be read: {error}. Extract the file, and give its own path."
            ) from None
    return stack.enter_context(path.open("rb"))


def _only_member(path: Path, stack: contextlib.ExitStack) -> IO[bytes]:
    archive = stack.enter_context(zipfile.ZipFile(path))
    members = [name for name in archive.namelist() if not name.endswith("/")]
    if len(members) != 1:
        held = ", ".join(members[:5]) + (" ..." if len(members) > 5 else "")
        raise CrvnnError(
            f"{path}: a zip file must hold exactly one file; this one holds {held or 'none'}. Extract one."
        )
    return stack.enter_context(archive.open(members[0]))


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to, and rename it to ``path`` at the end, after an fsync.

    A reader sees the old file or the new one, never a part. On an error the old file is left untouched. A symbolic link
    stays one: the file that it points to is replaced. A new file has the permissions that the umask leaves, and one
    that is replaced keeps its own. Temporary files for the same ``path`` whose process was killed are removed.
    """
    kept = ""
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():  # a directory, or /dev/null, which is not to be replaced
            raise CrvnnError(f"{path} cannot be written: it is no regular file")
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        kept = "; the file is unchanged" if mode is not None else ""
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_orphans(target)
        temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}")  # of at most 255 bytes
        try:
            with temporary.open("xb") as lock:  # held until the process ends, however it does
                _locked(lock)
                yield temporary
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
                if mode is not None:
                    temporary.chmod(mode)
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise CrvnnError(f"{path} cannot be written: {error}{kept}") from error


def _remove_orphans(target: Path) -> None:
    """Remove temporary files for ``target`` that killed processes have left: nobody holds their locks."""
    for path in target.parent.glob(f".{glob.escape(target.name[:200])}.{'[0-9a-f]' * 8}"):
        with contextlib.suppress(OSError), path.open("rb+") as file:  # another process may have been quicker
            if _locked(file):
                path.unlink()


def _locked(file: IO[bytes]) -> bool:
    """Lock an open file; false if another process has, or where there are no such locks (Windows, some networks)."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


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
    return user_cache_path("crvnn", appauthor=False)
