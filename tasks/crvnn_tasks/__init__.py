"""The built-in tasks, specs, trained models, and the commands ``data`` and ``demo``, registered like a third party's.

Each task is a module or folder of its own: ``listops/``, ``logic/``, ``sst.py``, ``nli.py``, ``from_file/``,
``in_memory.py``. Shared by tasks: ``rows.py``, ``labelled.py`` and ``tokenization.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from crvnn_core import Component, LazyCommand, NamedSpec, TrainedModel, hookimpl


@hookimpl
def crvnn_tasks() -> Iterable[Component]:
    here = "crvnn_tasks"
    data = {"directory": "data"}
    return [
        Component(
            "listops",
            f"{here}.listops.task:ListOps",
            summary="nested MIN, MAX, MED and SM of digits",
            default=True,
        ),
        Component(
            "logic",
            f"{here}.logic.task:Logic",
            summary="which of seven relations holds between two propositional sentences",
        ),
        Component(
            "sst2",
            f"{here}.sst:Sst2",
            summary="sentiment of a film review: positive or negative",
            example=data,
        ),
        Component(
            "sst5", f"{here}.sst:Sst5", summary="sentiment of a film review in five grades", example=data
        ),
        Component(
            "snli", f"{here}.nli:Snli", summary="natural language inference on image captions", example=data
        ),
        Component(
            "mnli", f"{here}.nli:Mnli", summary="natural language inference on many genres", example=data
        ),
        Component(
            "from-file",
            f"{here}.from_file.task:FromFile",
            summary="your own CSV, TSV or JSONL: a text or a pair, and a label",
            example={"train": "train.csv"},
        ),
        Component(
            "in-memory",
            f"{here}.in_memory:InMemory",
            summary="texts and labels that are given to crvnn.train in Python",
        ),
    ]


@hookimpl
def crvnn_specs() -> Iterable[NamedSpec]:
    from crvnn_tasks.specs import named_specs

    return named_specs()


@hookimpl
def crvnn_models() -> Iterable[TrainedModel]:
    here = Path(__file__).parent / "models"
    return [
        TrainedModel(
            "listops",
            str(here / "listops"),
            summary="ListOps, width 64, labels only, by backpropagation through the relaxation alone",
        ),
        TrainedModel(
            "listops-guided",
            str(here / "listops-guided"),
            summary="ListOps, width 128, supervised on gold trees at first; its decisions are exactly 0 or 1",
        ),
        TrainedModel(
            "listops-self-training",
            str(here / "listops-self-training"),
            summary="ListOps, width 128, labels only, by sampling trees",
        ),
        TrainedModel(
            "logic",
            str(here / "logic"),
            summary="relations of logical sentences, width 128, self-trained without gold trees",
        ),
    ]


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "data",
            "crvnn_tasks.data.commands:data",
            summary="Generate, download and check the data of the tasks.",
            group="Train",
        ),
        LazyCommand(
            "demo",
            "crvnn_tasks.demo:demo",
            summary="Let a small model find trees in a minute or two, and try it.",
            group="Train",
        ),
    ]
