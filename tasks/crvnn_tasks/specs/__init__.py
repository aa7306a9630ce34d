"""The specs that come with crvnn, by name: the paper's experiments and ablations, laptop versions, your own data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from crvnn_core import NamedSpec

_HERE = Path(__file__).parent
_GPU = "for a GPU"
_LAPTOP = "about an hour, one CPU core"

#: Name, what it trains, the datasets that it reads (names for ``crvnn data get``), and how long it takes.
_SPECS = (
    (
        "from-file",
        "your own CSV, TSV or JSONL file; as it is, synthetic film reviews",
        (),
        "a minute, one CPU core",
    ),
    ("listops", "ListOps as in the paper", ("listops",), _GPU),
    ("listops-demo", "ListOps of at most 30 tokens; for 'crvnn demo'", (), "a minute, one CPU core"),
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
    ("sst2-laptop", "SST2, narrow, at most 20 steps", ("sst", "glove-6b"), _LAPTOP),
    ("sst5", "SST5 as in the paper", ("sst", "glove"), _GPU),
    ("sst5-search", "the paper's search for dropouts on SST5; for 'crvnn sweep'", ("sst", "glove"), _GPU),
    ("sst5-laptop", "SST5, narrow, at most 20 steps", ("sst", "glove-6b"), _LAPTOP),
    ("snli", "SNLI as in the paper", ("snli", "glove"), _GPU),
    ("snli-search", "the paper's search for dropouts on SNLI; for 'crvnn sweep'", ("snli", "glove"), _GPU),
    ("snli-laptop", "SNLI, narrow, at most 12 steps", ("snli", "glove-6b"), "hours per epoch, two CPU cores"),
    ("mnli", "MNLI as in the paper, with SNLI's pairs", ("mnli", "snli", "glove"), _GPU),
    ("mnli-laptop", "MNLI, narrow, at most 12 steps", ("mnli", "glove-6b"), "hours per epoch, two CPU cores"),
)
#: Of the tasks that have ablations, a title and the datasets.
_TASKS: dict[str, tuple[str, tuple[str, ...]]] = {
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


def named_specs() -> Iterator[NamedSpec]:
    """A record for each file of this folder."""
    for name, summary, datasets, duration in _SPECS:
        path = str(_HERE / f"{name}.toml")
        yield NamedSpec(name, path, summary=summary, data=_data(datasets), duration=duration)
    for file in sorted((_HERE / "ablations").glob("*.toml")):
        task, _, change = file.stem.partition("-")
        title, needed = _TASKS[task]
        yield NamedSpec(
            f"ablation-{file.stem}",
            str(file),
            summary=f"{title}, ablation: {_ABLATIONS[change]}",
            data=_data(needed),
            duration=_GPU,
        )


def _data(datasets: tuple[str, ...]) -> str:
    return ", ".join("data/glove (glove-6b)" if name == "glove-6b" else f"data/{name}" for name in datasets)
