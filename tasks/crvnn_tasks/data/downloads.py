"""Downloads of published data sets, from their publishers or from a mirror: ``crvnn data get`` in Python.

SHA-256 checksums are recorded in ``checksums.json`` beside the files. A file whose checksum nobody publishes is
compared with the one recorded when it was first downloaded.

Why not ``pooch``: it verifies checksums and retries, but does not resume (as of 1.8). It streams into a temporary file,
deletes that file when the connection is lost, and requests the whole file again; the archives here have up to 2.2 GB.
Resuming inside pooch would need a downloader of our own, which ``crvnn_core.downloads.transfer`` is.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from crvnn_core.display.progress import Lines, Progress, format_bytes
from crvnn_core.downloads.transfer import RefusedError, Retries, check_address, discard, fetch, fetch_text
from crvnn_core.errors import CrvnnError, UnknownNameError, nearest
from crvnn_core.files import CORRUPT, UNSUPPORTED, replacing, sha256_of, write_atomically
from crvnn_tasks.data.sources import DATASETS, SAME, Part

_RECORD = "checksums.json"


class DamagedError(CrvnnError):
    """The file is not a zip archive, or a damaged one: it must be downloaded again."""


@frozen
class Download:
    """A file that is present now: where it came from, and what its checksum was compared with.

    ``checked`` is ``published`` (the checksum in ``sources.py``), ``mirror`` (the mirror's ``FILE.sha256``),
    ``recorded`` (the checksum when it was first downloaded), or empty.
    """

    file: str
    bytes: int
    sha256: str
    url: str
    fetched: bool
    checked: str

    def __str__(self) -> str:
        comparison = {
            "published": "checksum verified",
            "mirror": "checksum verified against the mirror's",
            "recorded": "unchanged since it was downloaded",
            "": "no published checksum; recorded for later checks" if self.fetched else "not checked",
        }[self.checked]
        origin = "downloaded" if self.fetched else "already present"
        return f"{self.file}  {format_bytes(self.bytes)}  {origin}; {comparison}"


def get(
    name: str,
    directory: Path,
    mirror: str = "",
    progress: Progress | None = None,
    retries: Retries | None = None,
) -> list[Download]:
    """Download the files of a data set that are missing in ``directory``, and check those that are present.

    An interrupted download is resumed by the next call. A checksum that differs raises ``CrvnnError``.

    :param name: a key of ``sources.DATASETS``, or a task that reads one of them.
    :param mirror: a URL under which all files are, instead of their publishers'.
    """
    known = SAME.get(name, name)
    if known not in DATASETS:
        raise UnknownNameError(
            f"no data set is called '{name}'.{nearest(name, DATASETS)}\nThere are {', '.join(DATASETS)}."
        )
    if mirror:
        check_address(mirror)
    found: list[Download] = []
    try:
        for part in DATASETS[known]:
            found += _present(part, directory) or _download(
                part,
                directory,
                mirror,
                progress or Lines(None, "downloading", unit=format_bytes),
                retries or Retries(),
            )
    except OSError as error:
        raise CrvnnError(f"{directory} cannot be used: {error}") from error
    return found


def _present(part: Part, directory: Path) -> list[Download]:
    """The files of a part if all are present, otherwise none; an error if one has another checksum than it should."""
    paths = [path for name in part.wanted if (path := _existing(directory / name))]
    if len(paths) < len(part.wanted):
        return []
    record = read_record(directory)
    found = []
    for path in paths:
        recorded = record.get(path.name, {"sha256": "", "url": ""})
        published = part.sha256 if path.name == part.file else ""
        expected, digest = published or recorded["sha256"], sha256_of(path)
        if expected and digest != expected:
            what = "published" if published else "downloaded"
            raise CrvnnError(
                f"{path} is not the file that was {what}: its sha256 is {digest}.\n"
                "  Move it away, and the same command downloads it again."
            )
        checked = "published" if published else "recorded" if expected else ""
        found.append(Download(path.name, path.stat().st_size, digest, recorded["url"], False, checked))
    return found


def _existing(path: Path) -> Path | None:
    """The file, or the same one as gzipped by the user."""
    return next((each for each in (path, path.with_name(f"{path.name}.gz")) if each.is_file()), None)


def _download(
    part: Part, directory: Path, mirror: str, progress: Progress, retries: Retries
) -> list[Download]:
    """Download a part, compare its checksum, and give the wanted files their final names."""
    url = f"{mirror.rstrip('/')}/{part.file}" if mirror else part.url
    expected, checked = part.sha256, "published"
    partial = directory / f"{part.file}.part"
    try:
        if mirror and not expected:
            expected, checked = _mirrored_checksum(f"{url}.sha256", progress, retries), "mirror"
        digest = _fetch_checked(url, partial, expected, progress, retries)
    except RefusedError as error:
        advice = (
            f"With --mirror URL, {part.file} must be at URL/{part.file}. "
            f"Without --mirror, it comes from {part.url}"
            if mirror
            else "If the file has moved, --mirror URL downloads it from another place."
        )
        raise CrvnnError(f"{error}\n  {advice}") from None
    sums = _place(partial, part, directory, digest, url)
    found = []
    for name in part.wanted:
        path = _existing(directory / name) or directory / name
        origin = (url, True, checked if expected else "") if name in sums else ("", False, "")
        found.append(Download(path.name, path.stat().st_size, sums.get(name) or sha256_of(path), *origin))
    return found


def _place(partial: Path, part: Part, directory: Path, digest: str, url: str) -> dict[str, str]:
    """Extract an archive's files or rename the file itself, and record the checksums, which are returned by name."""
    if part.members:
        missing = [name for name in part.members if not _existing(directory / name)]
        try:
            sums = extract(partial, part.file, missing, directory)
        except DamagedError:
            discard(partial)
            raise
        add_to_record(directory, sums, url)
    else:
        sums = {part.file: digest}
        add_to_record(directory, sums, url)
        partial.replace(directory / part.file)
    discard(partial)
    return sums


def _fetch_checked(url: str, partial: Path, expected: str, progress: Progress, retries: Retries) -> str:
    """Fetch a file and return its checksum; a file with a wrong one is deleted, and fetched whole if it was resumed."""
    resumed = fetch(url, partial, progress, retries)
    digest = sha256_of(partial)
    if expected and digest != expected:
        discard(partial)
        if resumed:
            progress.print(f"{partial.stem} has a wrong checksum after it was resumed; starting over")
            return _fetch_checked(url, partial, expected, progress, retries)
        raise CrvnnError(
            f"{url}: the checksum is wrong, so the file was deleted.\n  sha256   {digest}\n  expected {expected}"
        )
    return digest


def _mirrored_checksum(url: str, progress: Progress, retries: Retries) -> str:
    """The checksum that a mirror gives beside a file; empty if it gives none."""
    text = fetch_text(url, progress, retries)
    if text is None:
        return ""
    match = re.match(r"\s*([0-9a-fA-F]{64})\b", text)
    if match is None:
        raise CrvnnError(f"{url}: this is not a sha256 checksum")
    return match[1].lower()


def extract(archive: Path, name: str, members: Sequence[str], directory: Path) -> dict[str, str]:
    """Extract these files, from whichever folders of the archive, into ``directory``; their checksums by name.

    Each file appears under its name when it is complete.

    :param name: of the archive, for error messages.
    """
    sums = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            found = {member: _find(packed, member, name) for member in members}
            needed, free = sum(info.file_size for info in found.values()), shutil.disk_usage(directory).free
            if needed > free:
                raise CrvnnError(
                    f"{directory} has {format_bytes(free)} of free space; extracting needs {format_bytes(needed)}"
                )
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


def changed(directory: Path) -> list[str]:
    """The names of files whose checksum is no longer the recorded one; files that were removed are not among them."""
    record = read_record(directory)
    present = {name: directory / name for name in record if (directory / name).is_file()}
    return [name for name, path in present.items() if sha256_of(path) != record[name]["sha256"]]


def read_record(directory: Path) -> dict[str, dict[str, str]]:
    """The ``sha256`` and ``url`` of each downloaded file, by its name; empty if nothing was recorded."""
    path = directory / _RECORD
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {
            str(name): {"sha256": str(facts["sha256"]), "url": str(facts["url"])}
            for name, facts in record.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CrvnnError(
            f"{path} cannot be read: {error!r}\n  If you delete it, files are no longer compared with it."
        ) from None


def add_to_record(directory: Path, sums: dict[str, str], url: str) -> None:
    """Record the checksums of files that were downloaded from ``url``."""
    record = read_record(directory) | {name: {"sha256": sha256, "url": url} for name, sha256 in sums.items()}
    write_atomically(directory / _RECORD, json.dumps(dict(sorted(record.items())), indent=2) + "\n")
