"""Runs by what a user calls them: a directory, the name of an installed model, a zip file, an address.

Zip files are unpacked into the cache, in a directory named by the SHA-256 of the file. One that was downloaded with a
checksum is kept beside it, so that it need not be downloaded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from crvnn_core.errors import CrvnnError, MissingPluginError, SpecError, UnknownNameError, nearest
from crvnn_core.files import cache_directory, sha256_of
from crvnn_core.host.catalog import WEB, Catalog
from crvnn_core.host.manager import IN_MEMORY
from crvnn_core.runs.archive import unpack
from crvnn_core.runs.directory import RunDirectory, kept_plugin_files, plugin_options, seed_directories
from crvnn_core.runs.records import Record, read_record


def find_run(run: Path | str, catalog: Catalog) -> RunDirectory:
    """The run directory at a path, or that of the trained model which a plug-in offers under this name.

    A zip file of one, or an address that it can be fetched from, is unpacked into the cache.
    """
    if str(run) in catalog.models and not RunDirectory(Path(run)).spec.exists():
        return RunDirectory(Path(catalog.models[str(run)][0].path))
    directory = RunDirectory(fetched(str(run), catalog) or Path(run))
    if not directory.path.is_dir():
        guess = nearest(str(run), catalog.models)
        known = f" Trained models that are installed: {', '.join(catalog.models)}." if catalog.models else ""
        raise CrvnnError(f"{run}: there is no such run directory, zip file or address of one.{guess}{known}")
    return directory


def read_runs(names: Sequence[str], catalog: Catalog) -> list[Record]:
    """Read runs by directory or by the name of an installed model; a directory of several seeds gives one each."""
    found: dict[Path, Record] = {}
    for name in names:
        for label, directory in _members(name, catalog):
            found.setdefault(directory.path.resolve(), read_record(label, directory))
    return list(found.values())


def _members(name: str, catalog: Catalog) -> Iterator[tuple[str, RunDirectory]]:
    directory = find_run(name, catalog)
    if directory.spec.exists() or not directory.seeds.exists():
        yield str(name), directory
        return
    started = [path for path in seed_directories(directory.path).values() if RunDirectory(path).spec.exists()]
    if not started:
        raise CrvnnError(
            f"{name}: none of its seeds has started; start them with 'crvnn train --resume {name}'"
        )
    for path in started:
        yield f"{str(name).rstrip('/')}/{path.name}", RunDirectory(path)


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
    """A block that one process at a time is in; others wait."""
    from filelock import FileLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(path).acquire()
    except OSError as error:
        raise CrvnnError(f"{path.parent} cannot be used: {error}") from error
    with held:
        yield


@contextlib.contextmanager
def naming_missing_files(run: RunDirectory, catalog: Catalog) -> Iterator[None]:
    """Within this context a name that nothing has is an error that names the run's plug-in files, if none is loaded.

    Files with the same content count as loaded, wherever they are. Of a run without such files it is an error that
    names the plug-ins that were objects of the program which trained it.
    """
    try:
        yield
    except (SpecError, UnknownNameError) as error:
        known = {offer.source.recorded for offers in catalog.components.values() for offer in offers.values()}
        loaded = {path.read_bytes() for path in catalog.files if path.is_file()}
        files = [path for path in kept_plugin_files(run) if path.read_bytes() not in loaded]
        given = [name for name in _defined_in_memory(run) if name not in known]
        if not files and not given:
            raise
        if not files:
            names = ", ".join(name.removesuffix(IN_MEMORY) for name in given)
            raise UnknownNameError(
                f"{error}\n{run.path} was trained with parts that were defined in memory, by the program that trained "
                f"it ({names}); a run keeps no code of theirs. Load it where they are defined, with the same plug-in: "
                f"crvnn.load({str(run.path)!r}, crvnn.catalog(PLUGIN)). For the command line put it into a file: "
                "crvnn --plugin FILE ..."
            ) from None
        several = len(files) > 1
        raise MissingPluginError(
            f"{run.path} was trained with {'plug-in files that are' if several else 'a plug-in file that is'} not "
            f"loaded. The run keeps {'copies' if several else 'a copy'}, and crvnn runs no code that comes with a run "
            f"unless you say so: look at {'them' if several else 'it'}",
            plugin_options(files),
            str(error),
            files,
        ) from None


def _defined_in_memory(run: RunDirectory) -> list[str]:
    """The plug-ins that the program defined which trained a run, as its environment records them."""
    try:
        found = run.read_json(run.environment).get("components", [])
    except CrvnnError:  # only a record, without which the run can be loaded
        return []
    return [name for name in found if isinstance(name, str) and name.endswith(IN_MEMORY)]
