"""The built-in tasks, specs, trained models, and the commands ``data`` and ``demo``, registered like a third party's.

Each task is a module or folder of its own: ``listops/``, ``logic/``, ``sst.py``, ``nli.py``, ``from_file/``,
``in_memory.py``. Shared by tasks: ``rows.py``, ``labelled.py`` and ``tokenization.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from crvnn_core import Component, LazyCommand, NamedSpec, TrainedModel, hookimpl

#: Of each task its name, its class, what it is about, and settings to try it with.
_TASKS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("listops", "listops.task:ListOps", "nested MIN, MAX, MED and SM of digits", {}),
    ("logic", "logic.task:Logic", "which of seven relations holds between two propositional sentences", {}),
    ("sst2", "sst:Sst2", "sentiment of a film review: positive or negative", {"directory": "data"}),
    ("sst5", "sst:Sst5", "sentiment of a film review in five grades", {"directory": "data"}),
    ("snli", "nli:Snli", "natural language inference on image captions", {"directory": "data"}),
    ("mnli", "nli:Mnli", "natural language inference on many genres", {"directory": "data"}),
    (
        "from-file",
        "from_file.task:FromFile",
        "your own CSV, TSV or JSONL: a text or a pair, and a label",
        {"train": "train.csv"},
    ),
    ("in-memory", "in_memory:InMemory", "texts and labels that are given to crvnn.train in Python", {}),
)


@hookimpl
def crvnn_tasks() -> Iterable[Component]:
    return [
        Component(name, f"crvnn_tasks.{place}", summary=summary, default=name == "listops", example=example)
        for name, place, summary, example in _TASKS
    ]


_GPU = "for a GPU"
_LAPTOP = "about an hour, one CPU core"
_MINUTE = "a minute, one CPU core"

#: Of each spec its name, what it trains, the datasets of ``crvnn data get`` that it reads, and how long it takes.
_SPECS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("from-file", "your own CSV, TSV or JSONL file; as it is, synthetic film reviews", (), _MINUTE),
    ("listops", "ListOps as in the paper", ("listops",), _GPU),
    ("listops-demo", "ListOps of at most 30 tokens; for 'crvnn demo'", (), _MINUTE),
    (
        "listops-soft",
        "ListOps by backpropagation alone; gave the model 'listops'",
        (),
        "10 to 30 minutes, one CPU core",
    ),
    (
        "listops-self-training",
        "ListOps by sampling trees; gave the model 'listops-self-training'",
        (),
        "1 to 2.5 hours, one CPU core",
    ),
    (
        "listops-guided",
        "second stage of the model 'listops-guided'; needs training.start",
        (),
        "under an hour, one CPU core",
    ),
    (
        "listops-relaxations",
        "every decision with every retriever, in short runs; for 'crvnn sweep'",
        (),
        "6 minutes, one CPU core",
    ),
    ("listops-search", "the paper's search for dropouts on ListOps; for 'crvnn sweep'", (), _GPU),
    ("logic", "logical inference as in the paper", ("logic",), _GPU),
    ("logic-search", "the paper's search for dropouts on logic; for 'crvnn sweep'", ("logic",), _GPU),
    (
        "logic-laptop",
        "logical inference without trees; gave the model 'logic'",
        ("logic",),
        "40 minutes, one CPU core",
    ),
    ("sst2", "SST2 as in the paper", ("sst", "glove"), _GPU),
    ("sst2-laptop", "SST2, narrow, at most 20 steps", ("sst", "glove (glove-6b)"), _LAPTOP),
    ("sst5", "SST5 as in the paper", ("sst", "glove"), _GPU),
    ("sst5-search", "the paper's search for dropouts on SST5; for 'crvnn sweep'", ("sst", "glove"), _GPU),
    ("sst5-laptop", "SST5, narrow, at most 20 steps", ("sst", "glove (glove-6b)"), _LAPTOP),
    ("snli", "SNLI as in the paper", ("snli", "glove"), _GPU),
    ("snli-search", "the paper's search for dropouts on SNLI; for 'crvnn sweep'", ("snli", "glove"), _GPU),
    (
        "snli-laptop",
        "SNLI, narrow, at most 12 steps",
        ("snli", "glove (glove-6b)"),
        "hours per epoch, two CPU cores",
    ),
    ("mnli", "MNLI as in the paper, with SNLI's pairs", ("mnli", "snli", "glove"), _GPU),
    (
        "mnli-laptop",
        "MNLI, narrow, at most 12 steps",
        ("mnli", "glove (glove-6b)"),
        "hours per epoch, two CPU cores",
    ),
)
#: Of the tasks that have ablations a title, and the datasets.
_ABLATED: dict[str, tuple[str, tuple[str, ...]]] = {
    "listops": ("ListOps", ("listops",)),
    "logic": ("logical inference", ("logic",)),
    "mnli": ("MNLI", ("mnli", "snli", "glove")),
}
_ABLATIONS = {
    "balanced": "the cell along balanced trees",
    "lstm": "an LSTM cell",
    "no-halt-penalty": "no halt penalty",
    "no-structure": "a left-to-right recurrent network",
    "no-transition": "no transition features in the scorer",
    "relu": "ReLU in place of GeLU in the cell",
    "sigmoid": "a sigmoid without modulation",
}


@hookimpl
def crvnn_specs() -> Iterable[NamedSpec]:
    here = Path(__file__).parent / "specs"
    found = [
        (name, here / f"{name}.toml", summary, datasets, duration)
        for name, summary, datasets, duration in _SPECS
    ]
    for file in sorted((here / "ablations").glob("*.toml")):
        task, _, change = file.stem.partition("-")
        title, datasets = _ABLATED[task]
        found.append(
            (f"ablation-{file.stem}", file, f"{title}, ablation: {_ABLATIONS[change]}", datasets, _GPU)
        )
    for name, file, summary, datasets, duration in found:
        data = ", ".join(f"data/{each}" for each in datasets)
        yield NamedSpec(name, str(file), summary=summary, data=data, duration=duration)


_MODELS = {
    "listops": "ListOps, width 64, labels only, by backpropagation through the relaxation alone",
    "listops-guided": "ListOps, width 128, supervised on gold trees at first; its decisions are exactly 0 or 1",
    "listops-self-training": "ListOps, width 128, labels only, by sampling trees",
    "logic": "relations of logical sentences, width 128, self-trained without gold trees",
}


@hookimpl
def crvnn_models() -> Iterable[TrainedModel]:
    here = Path(__file__).parent / "models"
    return [TrainedModel(name, str(here / name), summary=summary) for name, summary in _MODELS.items()]


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
