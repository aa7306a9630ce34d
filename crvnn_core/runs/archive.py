"""Runs as zip files: the same bytes for the same run, and nothing unpacked that could do harm."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from crvnn_core.display.progress import format_bytes
from crvnn_core.errors import CrvnnError
from crvnn_core.files import CORRUPT, UNSUPPORTED, replacing, sha256_of

#: An archive is refused if it unpacks to more than this many times its own size. Weights hardly compress, and text
#: about thirty times.
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
    """Unpack a run into the directory ``target``, which appears when it is complete, if there is none.

    The run is at the root of the archive or in its only folder. No file is written elsewhere, and no link is made.

    :param name: what error messages call the archive.
    """
    if target.is_dir():
        return
    try:
        with zipfile.ZipFile(archive) as packed:
            root, members = _run_in(packed, name, archive.stat().st_size)
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as temporary:
                packed.extractall(Path(temporary, "run"), members)
                unpacked = Path(temporary, "run", root)
                try:
                    unpacked.rename(target)
                except OSError:
                    if not target.is_dir():  # else another process was quicker
                        raise
    except (*CORRUPT, *UNSUPPORTED, ValueError, IndexError) as error:
        # ValueError: a name that is no UTF-8, though the archive says so. IndexError: a file without a name
        raise CrvnnError(f"{name}: this is not a zip file, or it is damaged: {error}") from None
    except OSError as error:
        raise CrvnnError(f"{name} cannot be unpacked into {target.parent}: {error}") from error


def _run_in(packed: zipfile.ZipFile, name: str, size: int) -> tuple[PurePosixPath, list[zipfile.ZipInfo]]:
    """The directory of the run and its files; an error if the archive holds none, or expands beyond measure."""
    infos = {PurePosixPath(info.filename): info for info in packed.infolist() if not info.is_dir()}
    total = sum(info.file_size for info in infos.values())
    if total > max(HARMLESS, MOST_EXPANSION * size):
        raise CrvnnError(
            f"{name} is refused: it has {format_bytes(size)} and would unpack to {format_bytes(total)}"
        )
    roots = [path.parent for path in infos if path.name in ("spec.toml", "seeds.toml")]
    root = min(roots, key=lambda path: len(path.parts), default=None)
    if root is None or len(root.parts) > 1:
        held = ", ".join(map(str, list(infos)[:4])) + (" ..." if len(infos) > 4 else "")
        raise CrvnnError(
            f"{name} holds no run: there is no spec.toml in it, only {held or 'nothing'}. "
            "'crvnn share pack' packs a run."
        )
    return root, [info for path, info in infos.items() if path.is_relative_to(root)]
