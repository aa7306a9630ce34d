"""Work that is disturbed: how it is begun, how it goes on, what must be whole at any moment, and its result."""

from __future__ import annotations

import csv
import gzip
import json
import time
from pathlib import Path

from crvnn_core.documents import parse_json, parse_toml
from crvnn_core.runs.spec_file import is_whole
from crvnn_core.training import checkpoint
from small import PLUGIN, metrics_of, options
from sweeps import BASE
from tables import TABLE

#: Small enough that a run takes a second, with a checkpoint after each step or two.
SETS = ("training.steps=40", "training.evaluate_every=8", "training.save_every=3", "model.input_dropout=0.2")
FEW = ("training.steps=12", "training.evaluate_every=4", "training.save_every=1", "model.input_dropout=0.2")
ROWS = b"3\t[MAX 1 3 ]\n" * 60_000


class Work:
    """Something that a command does, in a directory of its own.

    :param name: what it is called in the table.
    """

    name = ""
    #: The directory or file that the command writes.
    out = "a"
    #: The exit code of the command when it has done all that it can.
    code = 0

    def prepare(self, directory: Path) -> None:
        """Write what the command reads."""

    def begin(self, directory: Path) -> list[object]:
        """The arguments of the command."""
        raise NotImplementedError

    def go_on(self, directory: Path) -> list[object]:
        """The arguments of the command that goes on after a disturbance; by default it is the same."""
        return self.begin(directory)

    def check_whole(self, directory: Path) -> None:
        """Every file that has its own name, and not that of a temporary one, can be read."""
        for path in directory.rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                check_whole(path)

    def result(self, directory: Path) -> object:
        """What must be the same, bit for bit, whether it was disturbed or not."""
        raise NotImplementedError

    def files(self, directory: Path) -> list[str]:
        """The files that are left in the end, which must be the same too."""
        return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def check_whole(path: Path) -> None:
    """A file of ours that is half-written raises an error."""
    if path.suffix == ".safetensors":
        checkpoint.load(path)
    elif path.suffix == ".json":
        parse_json(path.read_text(encoding="utf-8"))
    elif path.suffix == ".toml":
        parse_toml(path.read_text(encoding="utf-8"))
        assert is_whole(path) or path.name in ("sweep.toml", "letters.toml"), path
    elif path.suffix == ".gz":
        gzip.decompress(path.read_bytes())
    elif path.suffix == ".html":
        assert path.read_text(encoding="utf-8").rstrip().endswith("</html>"), path


def run_result(run: Path) -> object:
    """Spec, vocabulary, tensors, results and metrics of a run."""
    texts = {name: (run / name).read_text() for name in ("spec.toml", "vocabulary.json", "results.json")}
    return run_tensors(run), texts, metrics_of(run)


def run_tensors(run: Path) -> object:
    """Weights and checkpoints of a run."""
    names = ("weights.safetensors", "checkpoints/last.safetensors", "checkpoints/best.safetensors")
    return {name: _bits(checkpoint.load(run / name)) for name in names}


def _bits(tree: object) -> object:
    """A tree with the bytes of tensors in their place."""
    import torch

    if isinstance(tree, torch.Tensor):
        return str(tree.dtype), tuple(tree.shape), tree.reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(tree, dict):
        return {key: _bits(value) for key, value in tree.items() if key != "random"}
    return [_bits(each) for each in tree] if isinstance(tree, (list, tuple)) else repr(tree)


class Training(Work):
    """``crvnn train``."""

    name = "training"
    sets: tuple[str, ...] = SETS
    more: tuple[str, ...] = ()
    holds = "spec.toml"

    def begin(self, directory):
        return ["train", *options(*self.sets), *self.more, "--out", self.out]

    def go_on(self, directory):
        begun = (directory / self.out / self.holds).exists()
        return ["train", "--plugin", PLUGIN, "--resume", self.out] if begun else self.begin(directory)

    def result(self, directory):
        return run_result(directory / self.out)


class Saving(Training):
    """``crvnn train``, which saves after every step."""

    name, sets = "saving", FEW


class Seeds(Training):
    """``crvnn train --seeds``."""

    name, sets, more, holds = "several seeds", FEW, ("--seeds", "2"), "seeds.toml"

    def result(self, directory):
        runs = [run_result(directory / self.out / f"seed-{seed}") for seed in (0, 1)]
        return runs, (directory / self.out / "summary.json").read_text()


class DataMaking(Work):
    """``crvnn data make``."""

    name, out = "making data", "rows.tsv.gz"

    def begin(self, directory):
        return ["data", "make", "listops", "--rows", 4000, "--max-tokens", 60, "--out", self.out]

    def result(self, directory):
        return (directory / self.out).read_bytes()


class Downloading(Work):
    """``crvnn data get`` from a mirror on this machine.

    :param address: of the mirror, which serves ``ROWS``.
    """

    name, out = "downloading", "data"

    def __init__(self, address: str) -> None:
        self.address = address

    def begin(self, directory):
        return ["data", "get", "listops", "--dir", self.out, "--mirror", self.address]

    def check_whole(self, directory):
        super().check_whole(directory)
        for path in (directory / self.out).glob("*.tsv"):
            assert path.read_bytes() == ROWS, path

    def result(self, directory):
        return [path.read_bytes() for path in sorted((directory / self.out).glob("*.tsv"))]


class Sweeping(Work):
    """``crvnn sweep`` of two cells."""

    name, out = "sweeping", "study"

    def prepare(self, directory):
        space = '[sweep.space]\n"model.cell" = ["gated", "lstm"]\n'
        text = BASE.replace("steps = 4", "steps = 12\nsave_every = 1")
        (directory / "letters.toml").write_text(text + space, encoding="utf-8")

    def begin(self, directory):
        return ["sweep", "--plugin", PLUGIN, "letters.toml", "--out", self.out]

    def result(self, directory):
        study = directory / self.out
        with (study / "trials.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        changing = ("seconds", "retries")
        table = [{key: value for key, value in row.items() if key not in changing} for row in rows]
        runs = [run_result(study / "trials" / number) for number in ("0001", "0002")]
        return table, runs, (study / "best.toml").read_text()


class Reproducing(Work):
    """``crvnn reproduce`` of a table with two rows that are trained, and one that cannot be."""

    name, out, code = "reproducing", "out", 1

    def prepare(self, directory):
        (directory / "letters.toml").write_text(TABLE, encoding="utf-8")

    def begin(self, directory):
        return ["reproduce", "--plugin", PLUGIN, "letters.toml", "--seeds", 1, "--dir", self.out]

    def result(self, directory):
        out = directory / self.out
        entries = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
        kept = ("experiment", "system", "fingerprint", "seed", "test", "figures", "steps", "best_step")
        runs = {str(path.parent.relative_to(out)): run_result(path.parent) for path in out.rglob("spec.toml")}
        return sorted(repr([entry.get(key) for key in kept]) for entry in entries), runs


def until(condition, seconds=60.0):
    """Wait until something is so; whether it is."""
    began = time.monotonic()
    while not (found := condition()) and time.monotonic() - began < seconds:
        time.sleep(0.005)
    return found
