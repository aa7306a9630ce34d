"""Extraction of the files that a task reads from a downloaded zip archive."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from crvnn_core.display.progress import format_bytes
from crvnn_core.errors import CrvnnError
from crvnn_core.files import CORRUPT, UNSUPPORTED, replacing, sha256_of


class DamagedError(CrvnnError):
    """The file is not a zip archive, or a damaged one: it must be downloaded again."""


def extract(archive: Path, name: str, members: Sequence[str], directory: Path) -> dict[str, str]:
    """Extract these files, from whichever folders of the archive, into ``directory``; their checksums by name.

    Each file appears under its name when it is complete.

    :param name: of the archive, for error messages.
    """
    sums = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            found = {member: _find(packed, member, name) for member in members}
            _check_space(directory, sum(info.file_size for info in found.values()))
            for member, info in found.items():
                with replacing(directory / member) as temporary:
                    with packed.open(info) as source, temporary.open("wb") as target:
                        shutil.copyfileobj(source, target, 1 << 20)
                    sums[member] = sha256_of(temporary)
    except (*CORRUPT, *UNSUPPORTED) as error:
        raise DamagedError(f"{name}: this is not a zip archive, or it is damaged: {error}") from None
    return sums


def _find(packed: zipfile.ZipFile, member: str, archive: str) -> zipfile.ZipInfo:
    """The file of this name nearest to the archive's root, macOS resource forks aside."""
    found = [
        info
        for info in packed.infolist()
        if info.filename.rpartition("/")[2] == member and not info.filename.startswith("__MACOSX/")
    ]
    if not found:
        raise CrvnnError(
            f"{archive} contains no {member}; it contains {', '.join(packed.namelist()[:8]) or 'no files'}"
        )
    return min(found, key=lambda info: len(info.filename))


def _check_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise CrvnnError(
            f"{directory} has {format_bytes(free)} of free space; extracting needs {format_bytes(needed)}"
        )
