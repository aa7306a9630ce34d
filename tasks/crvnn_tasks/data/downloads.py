"""The published files, from where they are published or from a mirror: fetched, checked, and unpacked.

A file without a known checksum is recognised by what came the first time: ``checksums.json``, beside the files,
remembers every one of them.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from crvnn_core.errors import CrvnnError, UnknownNameError, nearest
from crvnn_core.files import replacing, write_atomically
from crvnn_tasks.data.fetch import (
    Patience,
    RefusedError,
    Report,
    check_address,
    fetch,
    fetch_text,
    forget,
    sha256_of,
    size_in_words,
)
from crvnn_tasks.data.sources import DATASETS, SAME, Part

RECORD = "checksums.json"


@frozen
class Got:
    """A file that is there now: where it came from, and what its checksum was compared with."""

    file: str
    bytes: int
    sha256: str
    url: str
    fetched: bool
    checked: str  # "known", "mirror", "first time", or nothing

    def __str__(self) -> str:
        how = {
            "known": "the checksum is right",
            "mirror": "the checksum is the one that the mirror gives",
            "first time": "unchanged since it was fetched",
            "": "its checksum was not known; it is remembered from now on",
        }
        note = (
            how[self.checked]
            if self.fetched or self.checked
            else "not fetched by this command, and not checked"
        )
        return (
            f"{self.file}  {size_in_words(self.bytes)}  {'fetched' if self.fetched else 'was there'}; {note}"
        )


def get(
    name: str,
    directory: Path,
    mirror: str = "",
    report: Report | None = None,
    patience: Patience | None = None,
) -> list[Got]:
    """Fetch what is missing of a data set; everything is checked that can be."""
    known = SAME.get(name, name)
    if known not in DATASETS:
        names = ", ".join(DATASETS)
        raise UnknownNameError(f"there is no '{name}' to fetch.{nearest(name, DATASETS)}\nThere is {names}.")
    if mirror:
        check_address(mirror)
    got: list[Got] = []
    try:
        for part in DATASETS[known]:
            got += _there(part, directory) or _get(
                part, directory, mirror, report or Lines(), patience or Patience()
            )
    except OSError as error:
        raise CrvnnError(f"{directory} cannot be used: {error}") from error
    return got


def changed(directory: Path) -> list[str]:
    """Files that are no longer what was fetched."""
    record = _read_record(directory)
    return [
        name
        for name, facts in record.items()
        if (directory / name).is_file() and sha256_of(directory / name) != facts["sha256"]
    ]


def _there(part: Part, directory: Path) -> list[Got]:
    """The files of a part, if all of them are there; an error if one of them is not what was fetched."""
    found = [_existing(directory / name) for name in part.wanted]
    if None in found:
        return []
    record = _read_record(directory)
    got = []
    for path in filter(None, found):
        facts = record.get(path.name, {})
        listed_sum = part.sha256 if path.name == part.file else ""
        checked = "known" if listed_sum else "first time" if facts else ""
        digest = sha256_of(path)
        if checked and digest != (listed_sum or facts["sha256"]):
            what = "published" if listed_sum else "fetched"
            raise CrvnnError(
                f"{path} is not what was {what}: its sha256 is {digest}.\n  Move it away to fetch it again."
            )
        got.append(Got(path.name, path.stat().st_size, digest, facts.get("url", ""), False, checked))
    return got


def _existing(path: Path) -> Path | None:
    """A file, or the same one packed by the user."""
    return next((each for each in (path, path.with_name(f"{path.name}.gz")) if each.is_file()), None)


def _get(part: Part, directory: Path, mirror: str, report: Report, patience: Patience) -> list[Got]:
    """Fetch a part, check it, and put what is wanted of it under its final name."""
    url = f"{mirror.rstrip('/')}/{part.file}" if mirror else part.url
    expected, checked = part.sha256, "known"
    unfinished = directory / f"{part.file}.part"
    try:
        if mirror and not expected:
            expected, checked = _mirrored_sum(f"{url}.sha256", report, patience), "mirror"
        digest = _fetch_checked(url, unfinished, expected, report, patience)
    except RefusedError as error:
        elsewhere = (
            f"A mirror is to have {part.file} right under the address that --mirror gives. "
            f"Without --mirror, the file comes from {part.url}"
            if mirror
            else "If the file has moved, --mirror URL takes it from somewhere else."
        )
        raise CrvnnError(f"{error}\n  {elsewhere}") from None
    if part.members:
        sums = _unpack(unfinished, part, directory)
        _remember(directory, sums, url)
    else:
        sums = {part.file: digest}
        _remember(directory, sums, url)
        unfinished.replace(directory / part.file)
    forget(unfinished)
    got = []
    for name in part.wanted:
        path = _existing(directory / name) or directory / name
        facts = (url, True, checked if expected else "") if name in sums else ("", False, "")
        got.append(Got(path.name, path.stat().st_size, sums.get(name) or sha256_of(path), *facts))
    return got


def _fetch_checked(url: str, unfinished: Path, expected: str, report: Report, patience: Patience) -> str:
    """Fetch a file and compare its checksum, which is returned; what is wrong is not kept."""
    resumed = fetch(url, unfinished, report, patience)
    digest = sha256_of(unfinished)
    if expected and digest != expected and resumed:
        report.noted(
            f"{unfinished.stem} has a wrong checksum after going on from a part of it; starting over"
        )
        forget(unfinished)
        fetch(url, unfinished, report, patience)
        digest = sha256_of(unfinished)
    if expected and digest != expected:
        forget(unfinished)
        raise CrvnnError(
            f"{url}: the checksum is wrong, so nothing was kept.\n  sha256 {digest}\n  not    {expected}"
        )
    return digest


def _mirrored_sum(url: str, report: Report, patience: Patience) -> str:
    text = fetch_text(url, report, patience)
    if text is None:
        return ""
    match = re.match(r"\s*([0-9a-fA-F]{64})\b", text)
    if match is None:
        raise CrvnnError(f"{url}: this is no sha256 checksum")
    return match[1].lower()


def _unpack(archive: Path, part: Part, directory: Path) -> dict[str, str]:
    """Unpack the wanted files that are missing, and nothing else; their checksums."""
    sums = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            members = {name: _member(packed, name, part.file) for name in part.members}
            missing = {name: member for name, member in members.items() if not _existing(directory / name)}
            _check_room(directory, sum(member.file_size for member in missing.values()))
            for name, member in missing.items():
                with replacing(directory / name) as temporary:
                    with packed.open(member) as source, temporary.open("wb") as target:
                        shutil.copyfileobj(source, target, 1 << 20)
                    sums[name] = sha256_of(temporary)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        forget(archive)
        raise CrvnnError(f"{part.file}: what came is no zip archive, or a damaged one: {error}") from None
    return sums


def _member(packed: zipfile.ZipFile, name: str, archive: str) -> zipfile.ZipInfo:
    """The file of this name, in whichever folder; what a Mac leaves beside it does not count."""
    found = [
        info
        for info in packed.infolist()
        if info.filename.rpartition("/")[2] == name and not info.filename.startswith("__MACOSX/")
    ]
    if not found:
        raise CrvnnError(
            f"{archive} holds no {name}; it holds {', '.join(packed.namelist()[:8]) or 'nothing'}"
        )
    return min(found, key=lambda info: len(info.filename))


def _check_room(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise CrvnnError(
            f"{directory} has {size_in_words(free)} of free space; {size_in_words(needed)} are needed to unpack"
        )


def _read_record(directory: Path) -> dict[str, dict[str, str]]:
    path = directory / RECORD
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
            f"{path} cannot be read: {error!r}\n  Without it, files are not checked again."
        ) from None


def _remember(directory: Path, sums: dict[str, str], url: str) -> None:
    record = _read_record(directory) | {name: {"sha256": sha256, "url": url} for name, sha256 in sums.items()}
    write_atomically(directory / RECORD, json.dumps(dict(sorted(record.items())), indent=2) + "\n")


class Lines:
    """Tells of a transfer in plain lines, for a pipe."""

    every = 10.0  # seconds between lines

    def __init__(self) -> None:
        self.file, self.done, self.last = "", 0, 0.0
        self.total: int | None = None

    def began(self, file: str, done: int, total: int | None) -> None:
        self.file, self.done, self.total, self.last = file, done, total, time.monotonic()
        goes_on = f", of which {size_in_words(done)} are there" if done else ""
        self.noted(f"fetching {file}{f' ({size_in_words(total)}{goes_on})' if total else ''}")

    def moved(self, count: int) -> None:
        self.done += count
        if time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            of = f" of {size_in_words(self.total)}" if self.total else ""
            self.noted(f"{self.file}: {size_in_words(self.done)}{of}")

    def noted(self, message: str) -> None:
        click.echo(message, err=True)


class Bar:
    """Shows a transfer as a progress bar."""

    def __init__(self, progress: Any) -> None:
        self.progress, self.task = progress, None

    def began(self, file: str, done: int, total: int | None) -> None:
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(file, completed=done, total=total)

    def moved(self, count: int) -> None:
        self.progress.advance(self.task, count)

    def noted(self, message: str) -> None:
        self.progress.console.print(message, markup=False, highlight=False)


@contextlib.contextmanager
def reporting() -> Iterator[Report]:
    """A progress bar on a terminal, plain lines elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress)
