"""A run directory: which file holds what, the JSON in it, its spec, and its lock. Nothing here needs torch."""

# ruff: noqa: RUF009 - _inside makes fields

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import Factory, field, frozen

from crvnn_core.documents import parse_json, read_toml
from crvnn_core.errors import CrvnnError
from crvnn_core.files import write_atomically

_SEED = "seed-"
_HEADER = "# resolved by crvnn"
#: The last line of a spec, with a checksum of all before; a user may have removed that.
_FOOTER = re.compile(rb"# end(?: ([0-9a-f]{8}))?\n\Z")


@frozen
class SavedVocabulary:
    """The vocabulary and classes of a saved model, so that it can be assembled without its training data."""

    tokens: tuple[str, ...]
    classes: tuple[str, ...]
    #: The width of the token vectors.
    vector_size: int


def _inside(*names: str) -> Any:
    """A path below that of the directory."""
    below = Factory(lambda self: self.path.joinpath(*names), takes_self=True)
    return field(init=False, repr=False, eq=False, default=below)


@frozen
class RunDirectory:
    """The paths of the files of a run, with methods that read them and say what is missing or damaged."""

    path: Path

    #: The resolved spec; a directory with this file is a run.
    spec: Path = _inside("spec.toml")
    #: The spec that several runs share, each in a subdirectory ``seed-N``.
    seeds: Path = _inside("seeds.toml")
    #: The results over several seeds.
    summary: Path = _inside("summary.json")
    #: The vocabulary and classes of the model.
    vocabulary: Path = _inside("vocabulary.json")
    #: The versions of Python, packages and plug-ins.
    environment: Path = _inside("environment.json")
    #: The directory with copies of the plug-in files that the run was trained with.
    plugins: Path = _inside("plugins")
    #: Training and development metrics, one JSON object per line.
    metrics: Path = _inside("metrics.jsonl")
    #: The best weights, without optimizer state.
    weights: Path = _inside("weights.safetensors")
    #: The last checkpoint, from which training resumes.
    last: Path = _inside("checkpoints", "last.safetensors")
    #: The scores of the best weights on every split except the training split.
    results: Path = _inside("results.json")
    #: The examples of the batch on which training failed, if it did.
    failed_batch: Path = _inside("failed-batch.jsonl")

    @contextlib.contextmanager
    def lock(self, *, create: bool = False) -> Iterator[None]:
        """Hold the directory's lock file; an error if another process is training here.

        :param create: make the directory if it is not there.
        """
        if create:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CrvnnError(f"{self.path}: the directory cannot be made: {error}") from None
        if not self.path.is_dir():
            raise CrvnnError(self.missing(self.spec))
        from filelock import FileLock, Timeout

        name = self.path / ".lock"
        try:
            held = FileLock(name).acquire(blocking=False)
        except Timeout:
            raise CrvnnError(f"another process is training in {self.path}") from None
        except OSError as error:
            raise CrvnnError(f"{self.path}: nothing can be written here: {error}") from None
        with held:
            try:
                yield
            finally:
                if os.name != "nt":  # where an open file cannot be removed
                    name.unlink(missing_ok=True)

    def check_spec(self) -> None:
        """Raise an error if the spec is missing or truncated."""
        if not self.spec.exists():
            raise CrvnnError(self.missing(self.spec))
        if not is_whole(self.spec):
            raise CrvnnError(f"{self.spec} is damaged: it was not written by crvnn, or was cut short")

    def check_unchanged(self) -> None:
        """Raise an error if the spec is not as crvnn wrote it: training on would give another result."""
        content = self.spec.read_bytes()
        footer = _FOOTER.search(content)
        if footer and footer[1] not in (None, b"%08x" % zlib.crc32(content[: footer.start()])):
            raise CrvnnError(
                f"{self.spec} was changed since crvnn wrote it: its checksum does not fit. Put it back; --set changes "
                "settings. To resume with the file as it is, make its last line '# end'."
            )

    def read_vocabulary(self) -> SavedVocabulary:
        """The vocabulary and classes of the saved model."""
        found = self.read_json(self.vocabulary)
        tokens, classes, size = (found.get(key, "") for key in ("tokens", "classes", "vector_size"))
        lists = isinstance(tokens, list) and isinstance(classes, list)
        known = lists and all(isinstance(name, str) for name in (*tokens, *classes))
        if not known or type(size) is not int or not 0 < size < 2**31:
            raise CrvnnError(
                f"{self.vocabulary} is damaged: tokens and classes must be lists of strings, and vector_size a "
                "positive integer"
            )
        return SavedVocabulary(tuple(tokens), tuple(classes), size)

    def read_json(self, path: Path) -> dict[str, Any]:
        """The JSON object in a file of this run."""
        try:
            found: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CrvnnError(self.missing(path)) from None
        except (OSError, ValueError) as error:
            raise CrvnnError(f"{path} is damaged: {error}") from None
        if not isinstance(found, dict):
            raise CrvnnError(f"{path} is damaged: it holds no JSON object")
        return found

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def identity(self) -> dict[str, str]:
        """Digests of the vocabulary and of the model's settings, as the files have them: what its weights belong to."""
        try:
            spec = read_toml(self.spec)
        except (OSError, ValueError) as error:
            raise CrvnnError(f"{self.spec} is damaged: {error}") from None
        return identity(self.read_json(self.vocabulary), spec)

    def check_identity(self, saved: Mapping[str, str]) -> None:
        """Raise an error if weights saved with this identity belong to another vocabulary or to other settings."""
        now, files = self.identity(), {"vocabulary": self.vocabulary, "model": self.spec}
        changed = [str(files[name]) for name in files if saved.get(name, now[name]) != now[name]]
        if changed:
            raise CrvnnError(
                f"{' and '.join(changed)}: changed since {self.weights.name} was saved, so these weights would give "
                "other answers without a sign of it. Put the run's own files back together."
            )

    def missing(self, path: Path) -> str:
        """The message for a file that should be here and is not."""
        if not self.path.is_dir():
            return f"{self.path}: there is no such directory"
        if not self.spec.exists():
            return f"{self.path} is not a run of 'crvnn train': it has no {self.spec.name}"
        return f"{self.path} is incomplete: {path.relative_to(self.path)} is missing"


def identity(vocabulary: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, str]:
    """Digests of a vocabulary and of a spec's settings of the model, stages included.

    :param vocabulary: as in the file of a run.
    :param spec: as nested tables.
    """
    stages = [stage.get("model", {}) for stage in spec.get("stages", [])]
    return {
        "vocabulary": _digest([vocabulary.get(key) for key in ("tokens", "classes")]),
        "model": _digest([spec.get("model", {}), stages if any(stages) else []]),
    }


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def seed_directory(parent: Path, seed: int | None) -> Path:
    """Where the run of one seed is kept if several seeds are trained into ``parent``, which it is for ``None``."""
    return parent if seed is None else parent / f"{_SEED}{seed}"


def seed_directories(parent: Path) -> dict[int, Path]:
    """The subdirectories ``seed-N`` of ``parent`` by seed, in ascending order; empty if it has none."""
    found = {path.name.removeprefix(_SEED): path for path in parent.glob(f"{_SEED}*/")}
    return {int(seed): found[seed] for seed in sorted(filter(str.isdecimal, found), key=int)}


def keep_plugin_files(run: RunDirectory, files: Iterable[Path]) -> None:
    """Copy plug-in files into a run directory, under their own names where these differ.

    One that is there already, from a run that was killed before its first checkpoint, is not copied again.
    """
    for path in files:
        text = path.read_text(encoding="utf-8")
        target, number = run.plugins / path.name, 1
        while target.exists() and target.read_text(encoding="utf-8") != text:
            number += 1
            target = run.plugins / f"{path.stem}_{number}{path.suffix}"
        write_atomically(target, text)


def kept_plugin_files(run: RunDirectory) -> list[Path]:
    """The copies of plug-in files in a run directory."""
    return sorted(run.plugins.glob("*.py"))


def plugin_options(files: Iterable[Path]) -> str:
    """The options of the command line that load plug-in files."""
    return " ".join(f"--plugin {shlex.quote(str(path))}" for path in files)


def sealed(text: str) -> str:
    """The text of a spec between the first and the last line by which the functions below know it."""
    text = f"{_HEADER}\n{text}"
    return f"{text}# end {zlib.crc32(text.encode()):08x}\n"


def was_resolved(path: Path) -> bool:
    """Whether a file is a spec that crvnn wrote, not a user's own."""
    try:
        return path.read_bytes().startswith(_HEADER.encode())
    except OSError:
        return False


def is_whole(path: Path) -> bool:
    """Whether a file is a spec that crvnn wrote, complete to its last line."""
    return was_resolved(path) and _FOOTER.search(path.read_bytes()) is not None


def flatten(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as one with dotted keys: the name of a component at its own key, stages by number from 1."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        if key == "stages" and isinstance(value, list):
            value = {str(number): stage for number, stage in enumerate(value, 1)}
        if not isinstance(value, Mapping):
            found[key] = value
            continue
        below = flatten(value)
        if "name" in below:
            found[key] = below.pop("name")
        found |= {f"{key}.{inner}": each for inner, each in below.items()}
    return found
