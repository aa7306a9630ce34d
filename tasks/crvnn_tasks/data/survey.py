"""What the files of a task contain: rows, labels, lengths, duplicates between splits, and malformed rows."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

if TYPE_CHECKING:
    from crvnn_tasks.rows import FileTask, Row

_SHOWN = 20  # malformed rows
_BARS = 12  # in a histogram, at most


@define
class Findings:
    """What the files of one split contain."""

    split: str
    files: list[str] = field(factory=list)
    labels: Counter[int] = field(factory=Counter)
    lengths: Counter[int] = field(factory=Counter)  # of single sequences: a pair has two
    repeated: int = 0  # rows whose text is in an earlier row of this split
    seen: Counter[str] = field(factory=Counter)  # by earlier split: rows whose text is in it
    broken: int = 0  # malformed rows
    faults: list[Row] = field(factory=list)  # the first malformed rows
    error: str = ""  # why a file could not be read to its end

    @property
    def rows(self) -> int:
        """The number of well-formed rows."""
        return self.labels.total()

    def plain(self, classes: Sequence[str]) -> dict[str, Any]:
        """The findings as a JSON object."""
        return {
            "files": self.files,
            "rows": self.rows,
            "labels": {name: self.labels[number] for number, name in enumerate(classes)},
            "length": {**summary(self.lengths), "histogram": histogram(self.lengths)},
            "repeated": self.repeated,
            "seen_in": dict(self.seen),
            "broken": self.broken,
            "faults": [{"file": str(row.file), "line": row.line, "fault": row.fault} for row in self.faults],
            "error": self.error,
        }


def survey(task: FileTask) -> list[Findings]:
    """The findings of each split whose files are present; an error if no file can be read."""
    from crvnn_core.errors import CrvnnError

    texts: dict[str, set[int]] = {}
    found = []
    missing = missing_splits(task)
    for split in task.files:
        if split in missing:
            continue
        findings = Findings(split)
        found.append(findings)
        try:
            findings.files = [str(path) for path in task.paths(split)]
            _count(task.rows(split), findings, texts)
        except CrvnnError as error:
            findings.error = str(error)
    if all(findings.error and not findings.rows and not findings.broken for findings in found):
        raise CrvnnError(found[0].error)
    return found


def missing_splits(task: FileTask) -> dict[str, str]:
    """Splits other than training whose published files are absent, with a message that names the file.

    A file that the user named is not among them: its absence is an error.
    """
    _, *others = task.files
    missing = {split: task.why_missing(split) for split in others if split not in task.named}
    return {split: why for split, why in missing.items() if why}


def _count(rows: Iterable[Row], findings: Findings, texts: dict[str, set[int]]) -> None:
    """Add rows to the findings; ``texts`` has the hashes of all texts so far, by split."""
    own = texts.setdefault(findings.split, set())
    for row in rows:
        if row.example is None:
            findings.broken += 1
            findings.faults += [row] if len(findings.faults) < _SHOWN else []
            continue
        text = hash(row.example.sequences)
        findings.labels[row.example.label] += 1
        findings.lengths.update(map(len, row.example.sequences))
        findings.repeated += text in own
        own.add(text)
        findings.seen.update(split for split, seen in texts.items() if seen is not own and text in seen)


def summary(lengths: Counter[int]) -> dict[str, float]:
    """Mean, median and maximum of lengths that are given with their counts."""
    if not lengths:
        return {"mean": 0.0, "median": 0.0, "max": 0}
    ordered = sorted(lengths.elements())
    return {"mean": statistics.fmean(ordered), "median": statistics.median(ordered), "max": ordered[-1]}


def histogram(lengths: Counter[int]) -> list[dict[str, int]]:
    """The number of sequences in at most 12 bins of equal width, which is 1, 2 or 5 times a power of ten."""
    if not lengths:
        return []
    longest = max(lengths)
    widths = (step * 10**power for power in range(12) for step in (1, 2, 5))
    width = next(width for width in widths if -(-longest // width) <= _BARS)
    counts = Counter({-(-length // width): 0 for length in range(1, longest + 1, width)})
    for length, count in lengths.items():
        counts[-(-length // width)] += count
    return [
        {"from": (bar - 1) * width + 1, "to": bar * width, "count": count}
        for bar, count in sorted(counts.items())
    ]
