"""Runs as zip files: the same bytes for the same run, and nothing unpacked that could do harm."""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from crvnn_core.display.progress import format_bytes
from crvnn_core.errors import CrvnnError
from crvnn_core.files import CORRUPT, UNSUPPORTED, replacing, sha256_of

#: An archive is refused if it has more files than this, or unpacks to more than this many times its own size. Weights
#: hardly compress, and text about thirty times.
MOST_FILES = 2000
MOST_EXPANSION = 100
#: Below this many bytes it may expand as it will.
HARMLESS = 50_000_000


def write_archive(out: Path, folder: str, files: Mapping[str, Path | str]) -> str:
    """Write a zip file, whose SHA-256 is returned: a folder with these files, each by its path or as text.

    Nothing is compressed and no dates are kept, so the same files give the same bytes everywhere.
    """
    with replacing(out) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(files):
                info = zipfile.ZipInfo(f"{folder}/{name}")  # dated 1980-01-01
                info.create_system, info.external_attr = 3, 0o644 << 16  # Unix, whatever this system is
                content = files[name]
                if isinstance(content, str):
                    archive.writestr(info, content.encode())
                    continue
                info.file_size = content.stat().st_size
                with content.open("rb") as source, archive.open(info, "w") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        return sha256_of(temporary)


def unpack(archive: Path, name: str, target: Path) -> None:
    """Unpack a run into the directory ``target``, which appears when it is complete; if it exists, compare its files.

    The run is at the root of the archive or in its only folder. An archive with names that lead out of the directory,
    with links, or that expands beyond measure is refused before anything is written.

    :param name: what error messages call the archive.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            members = _checked(packed, name, archive.stat().st_size)
            if target.is_dir():
                return _expect_unchanged(packed, members, target)
            target.parent.mkdir(parents=True, exist_ok=True)
            _expect_space(target.parent, sum(info.file_size for info in members.values()))
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as temporary:
                for path, info in members.items():
                    place = Path(temporary, "run", path)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with packed.open(info) as source, place.open("wb") as file:
                        shutil.copyfileobj(source, file, 1 << 20)
                _rename(Path(temporary, "run"), target)
    except (*CORRUPT, *UNSUPPORTED, ValueError) as error:
        # ValueError: a name that is no UTF-8, though the archive says so
        raise CrvnnError(f"{name}: this is not a zip file, or it is damaged: {error}") from None
    except OSError as error:
        raise CrvnnError(f"{name} cannot be unpacked into {target.parent}: {error}") from error


def _checked(packed: zipfile.ZipFile, name: str, size: int) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """The files of the run by their paths in it; an error if the archive holds none, or could do harm."""
    infos = [info for info in packed.infolist() if not info.is_dir()]
    if len(infos) > MOST_FILES:
        raise CrvnnError(f"{name} is refused: it has {len(infos):,} files; a run has a few")
    total = sum(info.file_size for info in infos)
    if total > max(HARMLESS, MOST_EXPANSION * size):
        raise CrvnnError(
            f"{name} is refused: it has {format_bytes(size)} and would unpack to {format_bytes(total)}"
        )
    paths = {_safe(info, name): info for info in infos}
    if len(paths) < len(infos):
        raise CrvnnError(f"{name} is refused: two of its files have the same name")
    roots = [path.parent for path in paths if path.name in ("spec.toml", "seeds.toml")]
    root = min(roots, key=lambda path: len(path.parts), default=None)
    if root is None or len(root.parts) > 1:
        held = ", ".join(str(path) for path in list(paths)[:4]) + (" ..." if len(paths) > 4 else "")
        raise CrvnnError(
            f"{name} holds no run: there is no spec.toml in it, only {held or 'nothing'}. "
            "'crvnn share pack' packs a run."
        )
    return {path.relative_to(root): info for path, info in paths.items() if path.is_relative_to(root)}


def _expect_unchanged(
    packed: zipfile.ZipFile, members: Mapping[PurePosixPath, zipfile.ZipInfo], target: Path
) -> None:
    """Raise an error unless the files of an unpacked run are those of its archive."""
    for path, info in members.items():
        with packed.open(info) as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()  # type: ignore[arg-type]
        if not (target / path).is_file() or sha256_of(target / path) != digest:
            raise CrvnnError(
                f"{target} is refused: {path} was changed since it was unpacked. Remove this directory; "
                "the next command unpacks it again."
            )


def _safe(info: zipfile.ZipInfo, name: str) -> PurePosixPath:
    """Where a member belongs; an error if that is outside the archive's directory, or if it is a link."""
    path = PurePosixPath(info.orig_filename)
    outside = path.is_absolute() or ".." in path.parts or re.search(r"[\\:\0]", info.orig_filename)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if outside or not path.parts or kind not in (0, stat.S_IFREG):
        what = "is a link or a device" if kind not in (0, stat.S_IFREG) else "leads out of its directory"
        raise CrvnnError(f"{name} is refused: its file {info.orig_filename!r} {what}")
    return path


def _expect_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise CrvnnError(
            f"{directory} has {format_bytes(free)} of free space; unpacking needs {format_bytes(needed)}"
        )


def _rename(unpacked: Path, target: Path) -> None:
    """Give a directory its name, unless another process was quicker."""
    try:
        unpacked.rename(target)
    except OSError:
        if not target.is_dir():
            raise
