"""The results of an evaluation as CSV files: by group, by class, and the confusion matrix."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict

from crvnn_core.display.tables import write_csv
from crvnn_core.errors import InputError
from crvnn_core.files import write_atomically
from crvnn_core.runs.results import Result

#: A run, the data it was evaluated on, and ``soft`` or ``hard`` decisions.
Key = tuple[str, str, str]
_KEYS = ("run", "data", "decisions")


def check_suffix(path: Path) -> None:
    """An error unless tables can be written to a file of this name."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: tables are written to files that end in .csv")


def write_tables(path: Path, results: Mapping[Key, Result]) -> list[Path]:
    """Write three tables, and return their paths: ``x.csv``, ``x-classes.csv`` and ``x-confusion.csv``."""
    check_suffix(path)
    tables = {
        path: _groups(results),
        path.with_name(f"{path.stem}-classes{path.suffix}"): _classes(results),
        path.with_name(f"{path.stem}-confusion{path.suffix}"): _confusion(results),
    }
    for name, rows in tables.items():
        write_atomically(name, _table(list(rows)))
    return list(tables)


def _groups(results: Mapping[Key, Result]) -> Iterable[dict[str, Any]]:
    for key, result in results.items():
        for group, score in {"all": result.total, **result.buckets}.items():
            macro = result.classification.macro_f1 if result.classification and group == "all" else ""
            yield {**dict(zip(_KEYS, key, strict=True)), "group": group, **asdict(score), "macro_f1": macro}


def _classes(results: Mapping[Key, Result]) -> Iterable[dict[str, Any]]:
    for key, result in results.items():
        for score in result.classification.scores if result.classification else ():
            plain = asdict(score)
            yield {**dict(zip(_KEYS, key, strict=True)), "class": plain.pop("name"), **plain}


def _confusion(results: Mapping[Key, Result]) -> Iterable[dict[str, Any]]:
    for key, result in results.items():
        if (found := result.classification) is None:
            continue
        for name, row in zip(found.classes, found.confusion, strict=True):
            predicted = {f"predicted {other}": count for other, count in zip(found.classes, row, strict=True)}
            yield {**dict(zip(_KEYS, key, strict=True)), "gold": name, **predicted}


def _table(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    write_csv(text, list(rows[0]), rows)
    return text.getvalue()
