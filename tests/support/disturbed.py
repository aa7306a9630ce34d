"""Work that is disturbed: the commands that do it, what it leaves, and the messages in the documentation."""

from __future__ import annotations

import csv
import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

from attrs import field, frozen

from crvnn_core.documents import parse_json, parse_toml
from crvnn_core.runs.directory import is_whole
from crvnn_core.training import checkpoint
from small import PLUGIN, bits, options
from sweeps import BASE
from tables import TABLE

#: Small enough that a run takes a second, with a checkpoint after each step or two.
SETS = ("training.steps=40", "training.evaluate_every=8", "training.save_every=3", "model.input_dropout=0.2")
FEW = ("training.steps=12", "training.evaluate_every=4", "training.save_every=1", "model.input_dropout=0.2")
ROWS = b"3\t[MAX 1 3 ]\n" * 60_000

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "faults.md"
_ROW = re.compile(r"^\| (?P<fault>[^|]+?) \| `(?P<message>[^`]+)` \| [^|]+ \|$", re.MULTILINE)
#: The message of each fault in the documentation; ``...`` stands for what differs from case to case.
MESSAGES = {row["fault"]: row["message"] for row in _ROW.finditer(_PAGE.read_text("utf-8"))}


def assert_told(fault: str, text: str) -> None:
    """The message of a fault is the documented one, and there is no traceback."""
    pattern = ".*?".join(map(re.escape, MESSAGES[fault].split("...")))
    assert "Traceback" not in text, text
    assert re.search(pattern, text, re.DOTALL), f"{fault}: not {MESSAGES[fault]!r} but\n{text}"


@frozen
class Work:
    """What a command does in a directory of its own, in which a plain name is a file's or a directory's.

    :param command: its arguments.
    :param sign: a pattern of a file that is there once the command is at work.
    :param files: what it reads, by name.
    :param run: the file of a run directory from which ``crvnn train --resume`` goes on; empty if the command is called
        once more.
    :param code: its exit code when it has done all that it can.
    """

    command: list[object]
    sign: str
    files: dict[str, str] = field(factory=dict)
    run: str = ""
    code: int = 0

    def prepare(self, directory: Path) -> None:
        """Write what the command reads."""
        for name, text in self.files.items():
            (directory / name).write_text(text, encoding="utf-8")

    def resumption(self, directory: Path) -> list[object]:
        """The arguments of the command that goes on after a disturbance."""
        begun = self.run and (directory / self.run).exists()
        return ["train", "--plugin", PLUGIN, "--resume", "a"] if begun else self.command


def train(*sets: str, more: tuple[str, ...] = ()) -> list[object]:
    """The arguments of ``crvnn train`` for a small variant."""
    return ["train", *options(*sets), *more, "--out", "a"]


TRAINING = Work(train(*SETS), "a/metrics.jsonl", run="a/spec.toml")
WORKS = {
    "training": TRAINING,
    "saving": Work(train(*FEW), "a/metrics.jsonl", run="a/spec.toml"),
    "training several seeds": Work(
        train(*FEW, more=("--seeds", "2")), "a/seed-0/metrics.jsonl", run="a/seeds.toml"
    ),
    "making data": Work(
        ["data", "make", "listops", "--rows", 4000, "--max-tokens", 60, "--out", "rows.tsv.gz"],
        ".rows.tsv.gz.*",
    ),
    "downloading": Work(["data", "get", "listops", "--dir", "data", "--mirror", "{mirror}"], "data/*.part"),
    "sweeping": Work(
        ["sweep", "--plugin", PLUGIN, "letters.toml", "--out", "study"],
        "study/trials/*/metrics.jsonl",
        files={
            "letters.toml": BASE.replace("steps = 4", "steps = 12\nsave_every = 1")
            + '[sweep.space]\n"model.cell" = ["gated", "lstm"]\n'
        },
    ),
    "reproducing": Work(
        ["reproduce", "--plugin", PLUGIN, "letters.toml", "--seeds", 1, "--dir", "out"],
        "out/laptop/*/*/*/metrics.jsonl",
        files={"letters.toml": TABLE},
        code=1,  # one of its rows cannot be trained
    ),
}


def left_by(directory: Path) -> dict[str, object]:
    """What each file has that must be the same, bit for bit, whether work was disturbed or not.

    A file of ours that has its own name and is half-written raises an error.
    """
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): lasting(path) for path in sorted(files)}


_SAME_TEXT = ("spec.toml", "vocabulary.json", "results.json", "summary.json", "best.toml")
_CHANGING = (
    "seconds",
    "retries",
    "tokens_per_second",
    "hours",
    "cpu_hours",
    "date",
    "hardware",
    "versions",
    "commit",
)


def lasting(path: Path) -> object:
    """What a file has that must be the same; ``None`` for one that may differ."""
    if path.name.startswith("."):
        return None
    if path.suffix == ".safetensors":
        return bits(checkpoint.load(path))
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".tsv":
        assert path.read_bytes() == ROWS
        return None
    if path.suffix not in (".json", ".toml", ".jsonl", ".csv", ".html"):
        return None
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        parse_json(text)
    elif path.suffix == ".toml":
        parse_toml(text)
        assert is_whole(path) or path.name in ("sweep.toml", "letters.toml"), path
    elif path.suffix == ".html":
        assert text.rstrip().endswith("</html>"), path
    elif path.suffix == ".jsonl":
        *lines, rest = text.split("\n")
        rows = [_without_times(json.loads(line)) for line in lines]
        return (rows if path.name == "metrics.jsonl" else sorted(map(repr, rows))), rest
    elif path.suffix == ".csv":
        return [_without_times(row) for row in csv.DictReader(text.splitlines())]
    return text if path.name in _SAME_TEXT else None


def _without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in _CHANGING}


def until(condition, seconds=60.0):
    """Wait until something is so; whether it is."""
    began = time.monotonic()
    while not (found := condition()) and time.monotonic() - began < seconds:
        time.sleep(0.005)
    return found
