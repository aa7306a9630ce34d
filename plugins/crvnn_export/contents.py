"""What is shared of a run: what is needed to use it, a model card, and a ``config.json`` as hubs expect it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crvnn_core.errors import CrvnnError
from crvnn_core.runs.directory import RunDirectory, kept_plugin_files, seed_directories
from crvnn_export.card import model_card

#: Texts about a model that a run directory may have, the first of which becomes the body of its card.
CARDS = ("README.md", "MODEL.md")


def contents(
    run: RunDirectory, name: str, *, metrics: bool = False, checkpoints: bool = False
) -> dict[str, Path | str]:
    """The files to share, by their names in the shared directory: paths, or texts that are written for it.

    :param name: what the model card calls the model.
    :param metrics: the learning curve as well.
    :param checkpoints: the checkpoints as well, so that training can be resumed.
    """
    seeds = seed_directories(run.path) if run.seeds.exists() else {}
    if run.spec.exists() or not seeds:
        return _one(run, name, metrics, checkpoints)
    files: dict[str, Path | str] = {path.name: path for path in (run.seeds, run.summary) if path.exists()}
    for path in seeds.values():
        if RunDirectory(path).weights.exists():
            found = _one(RunDirectory(path), f"{name}, {path.name}", metrics, checkpoints)
            files |= {f"{path.name}/{file}": content for file, content in found.items()}
    if len(files) < 3:
        raise CrvnnError(f"{run.path}: none of its seeds has weights yet")
    return files


def _one(run: RunDirectory, name: str, metrics: bool, checkpoints: bool) -> dict[str, Path | str]:
    run.check_spec()
    for path in (run.vocabulary, run.weights):
        if not path.exists():
            raise CrvnnError(run.missing(path))
    if checkpoints and not run.last.exists():
        raise CrvnnError(run.missing(run.last))
    files: dict[str, Path | str] = {
        path.relative_to(run.path).as_posix(): path
        for path in _paths(run, metrics, checkpoints)
        if path.is_file()
    }
    spec, results = _spec(run), run.read_json(run.results) if run.results.exists() else {}
    classes = run.read_vocabulary().classes
    text = next((run.path / card for card in CARDS if (run.path / card).is_file()), None)
    files.pop("MODEL.md", None)
    files["README.md"] = model_card(name, spec, results, text.read_text(encoding="utf-8") if text else "")
    files["config.json"] = json.dumps(_config(spec, classes), indent=2, ensure_ascii=False) + "\n"
    return files


def _paths(run: RunDirectory, metrics: bool, checkpoints: bool) -> Iterator[Path]:
    yield from (run.spec, run.vocabulary, run.weights, run.environment, run.results)
    yield from kept_plugin_files(run)
    if metrics or checkpoints:
        yield run.metrics
    if checkpoints:
        yield run.last


def _spec(run: RunDirectory) -> dict[str, Any]:
    try:
        return tomllib.loads(run.spec.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CrvnnError(f"{run.spec} is damaged: {error}") from None


def _config(spec: dict[str, Any], classes: tuple[str, ...]) -> dict[str, Any]:
    """What a hub reads of a model; crvnn itself reads ``spec.toml``."""
    return {
        "library_name": "crvnn",
        "model_type": "crvnn",
        "id2label": {str(number): label for number, label in enumerate(classes)},
        "label2id": {label: number for number, label in enumerate(classes)},
        "task": spec.get("task", {}),
        "model": spec.get("model", {}),
    }
