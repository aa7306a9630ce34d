"""The built-in tasks, and the demonstration, registered exactly as a third party's would be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from crvnn_core import Component, TrainedModel, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def crvnn_tasks() -> Iterable[Component]:
    here = "crvnn_tasks"
    data = {"directory": "data"}
    return [
        Component("listops", f"{here}.listops.task:ListOps", summary="nested MIN, MAX, MED and SM of digits"),
        Component("logic", f"{here}.logic.task:Logic", summary="how two propositions are related"),
        Component(
            "sst2", f"{here}.sentiment:Sst2", summary="is a film review positive or negative", example=data
        ),
        Component("sst5", f"{here}.sentiment:Sst5", summary="a film review in five grades", example=data),
        Component(
            "snli", f"{here}.inference:Snli", summary="does one sentence follow from another", example=data
        ),
        Component(
            "mnli", f"{here}.inference:Mnli", summary="the same, for sentences of many genres", example=data
        ),
        Component(
            "from-file",
            f"{here}.from_file:FromFile",
            summary="your own CSV, TSV or JSONL: a text or a pair, and a label",
            example={"train": "train.csv"},
        ),
    ]


@hookimpl
def crvnn_models() -> Iterable[TrainedModel]:
    here = Path(__file__).parent / "models"
    return [
        TrainedModel("listops", str(here / "listops"), summary="ListOps, width 64, told answers alone"),
        TrainedModel(
            "listops-guided",
            str(here / "listops-guided"),
            summary="ListOps, width 128, shown trees at first: sure, and so quick",
        ),
    ]


@hookimpl
def crvnn_commands() -> Iterable[click.Command]:
    from crvnn_tasks.data.command import data
    from crvnn_tasks.demo import demo

    return [data, demo]
