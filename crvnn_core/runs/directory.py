"""A run directory: the product of training, complete in itself."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import frozen

from crvnn_core.training import checkpoint
from crvnn_core.spec.assembly import Assembly, Lexicon
from crvnn_core.errors import CrvnnError
from crvnn_core.files import write_atomically
from crvnn_core.spec import is_whole, spec_text


@frozen
class RunDirectory:
    """Where each thing of a run is kept."""

    path: Path

    @property
    def spec(self) -> Path:
        """The resolved spec."""
        return self.path / "spec.toml"

    @property
    def seeds(self) -> Path:
        """The spec of a group of runs, each in a directory of its own below."""
        return self.path / "seeds.toml"

    @property
    def summary(self) -> Path:
        """The figures of a group of runs."""
        return self.path / "summary.json"

    @property
    def lexicon(self) -> Path:
        """The tokens and classes that the model knows."""
        return self.path / "vocabulary.json"

    @property
    def environment(self) -> Path:
        """The versions of everything that took part."""
        return self.path / "environment.json"

    @property
    def metrics(self) -> Path:
        """What was measured, a JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def weights(self) -> Path:
        """The best weights, and nothing else."""
        return self.path / "weights.safetensors"

    @property
    def last(self) -> Path:
        """The last checkpoint, from which training goes on."""
        return self.path / "checkpoints" / "last.safetensors"

    @property
    def best(self) -> Path:
        """The checkpoint that did best on the development split."""
        return self.path / "checkpoints" / "best.safetensors"

    @property
    def results(self) -> Path:
        """How the best weights do on every split but the training split."""
        return self.path / "results.json"

    @property
    def failed_batch(self) -> Path:
        """The examples at which training failed, if it did."""
        return self.path / "failed-batch.jsonl"

    def begin(self, assembly: Assembly) -> None:
        """Make the directory and write what is known before training."""
        if self.spec.exists() or self.seeds.exists():
            raise CrvnnError(
                f"{self.path} holds a run already. Go on with it by 'crvnn train --resume {self.path}', "
                "or choose another --out."
            )
        lexicon = {
            "tokens": list(assembly.model.vocabulary.tokens),
            "classes": list(assembly.task.classes),
            "vector_size": assembly.model.embed.weight.shape[1],
        }
        self.write_json(self.lexicon, lexicon)
        self.write_json(self.environment, environment(assembly))
        write_atomically(self.spec, spec_text(assembly.spec, assembly.notes()))  # last: now it is a run

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from training in this directory, and remove what a killed one left half written."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        if not self.path.is_dir():
            raise CrvnnError(self.missing(self.spec))
        name = self.path / ".lock"
        with name.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CrvnnError(f"another process is training in {self.path}") from None
            for path in (self.spec, self.lexicon, self.weights, self.results, self.last, self.best):
                for rest in path.parent.glob(f".{path.name}.*"):
                    rest.unlink()
            try:
                yield
            finally:
                name.unlink(missing_ok=True)

    def check_spec(self) -> None:
        """Complain if there is no spec here, or not all of it."""
        if not self.spec.exists():
            raise CrvnnError(self.missing(self.spec))
        if not is_whole(self.spec):
            raise CrvnnError(f"{self.spec} is damaged: it was not written by crvnn, or was cut short")

    def read_lexicon(self) -> Lexicon:
        """The tokens and classes of a saved model."""
        found = self.read_json(self.lexicon)
        try:
            return Lexicon(tuple(found["tokens"]), tuple(found["classes"]), int(found["vector_size"]))
        except (KeyError, TypeError, ValueError):
            raise CrvnnError(f"{self.lexicon} is damaged: it lacks tokens, classes or vector_size") from None

    def save_checkpoint(self, state: Mapping[str, Any], best: bool) -> None:
        """Keep the state of training; if it is the best so far, as that too.

        The last checkpoint comes last: a run that is killed before it is written finds the best anew.
        """
        if best:
            checkpoint.save(self.weights, {"model": state["model"]})
            checkpoint.save(self.best, state)
        checkpoint.save(self.last, state)

    def read_json(self, path: Path) -> dict[str, Any]:
        """A JSON file of this run."""
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CrvnnError(self.missing(path)) from None
        except (OSError, ValueError) as error:
            raise CrvnnError(f"{path} is damaged: {error}") from None
        if not isinstance(found, dict):
            raise CrvnnError(f"{path} is damaged: it holds no JSON object")
        return found

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write a JSON file, whole or not at all."""
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def missing(self, path: Path) -> str:
        """What to say of a file that should be here."""
        if not self.path.is_dir():
            return f"{self.path}: there is no such directory"
        if not self.spec.exists():
            return f"{self.path} is not a run of 'crvnn train': it has no {self.spec.name}"
        return f"{self.path} is incomplete: {path.relative_to(self.path)} is missing"


def environment(assembly: Assembly) -> dict[str, Any]:
    """What a result may depend on besides the spec."""
    from importlib.metadata import version

    return {
        "components": assembly.packages,
        "packages": {name: version(name) for name in ("crvnn", "torch", "lightning-fabric", "safetensors")},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
    }
