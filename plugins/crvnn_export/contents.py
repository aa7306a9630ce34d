"""What is shared of a run: what is needed to use it, a model card, and a ``config.json`` as hubs expect it."""

from __future__ import annotations

import json
import tomllib
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
    for path in (run.vocabulary, run.weights, *([run.last] if checkpoints else [])):
        if not path.exists():
            raise CrvnnError(run.missing(path))
    paths = [run.spec, run.vocabulary, run.weights, run.environment, run.results, *kept_plugin_files(run)]
    paths += [run.metrics] if metrics or checkpoints else []
    paths += [run.last] if checkpoints else []
    files: dict[str, Path | str] = {
        path.relative_to(run.path).as_posix(): path for path in paths if path.is_file()
    }
    try:
        spec = tomllib.loads(run.spec.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CrvnnError(f"{run.spec} is damaged: {error}") from None
    results = run.read_json(run.results) if run.results.exists() else {}
    text = next((run.path / card for card in CARDS if (run.path / card).is_file()), None)
    files["README.md"] = model_card(name, spec, results, text.read_text(encoding="utf-8") if text else "")
    config = _config(spec, run.read_vocabulary().classes)
    files["config.json"] = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    return files


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
