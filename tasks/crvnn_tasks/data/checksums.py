"""SHA-256 checksums of downloaded files, recorded in ``checksums.json`` beside them.

A file whose checksum nobody publishes is compared with the one recorded when it was first downloaded.
"""

from __future__ import annotations

import json
from pathlib import Path

from crvnn_core.errors import CrvnnError
from crvnn_core.files import sha256_of, write_atomically

RECORD = "checksums.json"


def changed(directory: Path) -> list[str]:
    """The names of files whose checksum is no longer the recorded one; files that were removed are not among them."""
    record = read_record(directory)
    present = {name: directory / name for name in record if (directory / name).is_file()}
    return [name for name, path in present.items() if sha256_of(path) != record[name]["sha256"]]


def read_record(directory: Path) -> dict[str, dict[str, str]]:
    """The ``sha256`` and ``url`` of each downloaded file, by its name; empty if nothing was recorded."""
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
            f"{path} cannot be read: {error!r}\n  If you delete it, files are no longer compared with it."
        ) from None


def add_to_record(directory: Path, sums: dict[str, str], url: str) -> None:
    """Record the checksums of files that were downloaded from ``url``."""
    record = read_record(directory) | {name: {"sha256": sha256, "url": url} for name, sha256 in sums.items()}
    write_atomically(directory / RECORD, json.dumps(dict(sorted(record.items())), indent=2) + "\n")
