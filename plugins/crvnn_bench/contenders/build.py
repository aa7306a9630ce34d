"""Who is measured: this engine and its options, the dense formulation, and other encoders; all with one head."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field
from torch import Tensor

from crvnn_bench.setup import UNTRAINED, Setup
from crvnn_core import (
    Catalog,
    CrvnnError,
    Encoder,
    Encoding,
    Model,
    Recursion,
    UnknownNameError,
    assemble,
    create_plugin_manager,
    load,
    read_catalog,
    read_spec,
)
from crvnn_core.errors import nearest
from crvnn_core.kernels import without
from crvnn_plugins.decisions.sigmoids import Stretched
from crvnn_tasks.listops.language import VOCABULARY

#: What each contender is, in a few words. Those below the line are encoders that may be installed or not.
RECURSIVE = {
    "crvnn": "this engine",
    "crvnn-checkpointed": "this engine, recomputing each step in the backward pass",
    "crvnn-torch": "this engine without its kernels: torch does everything",
    "crvnn-plain": "this engine without shortcuts: every position is kept, every cell runs",
    "crvnn-hard": "this engine's hard inference: n - 1 compositions",
    "dense": "the paper's formulation: n x n matrices, every position, until the last sequence halts",
    "dense-retriever": "this engine with n x n matrices in its retriever",
}
OTHERS = {
    "ordered-memory": "Ordered Memory, untrained",
    "lstm": "an LSTM, untrained",
    "transformer": "a Transformer encoder, untrained",
}
#: Contenders that cannot be trained.
INFERENCE_ONLY = frozenset({"crvnn-hard"})


def known_contenders(catalog: Catalog) -> dict[str, str]:
    """The contenders that can be built from what is installed, and what they are."""
    installed = catalog.components["encoder"]
    return RECURSIVE | {name: text for name, text in OTHERS.items() if name in installed}


def check_contenders(names: Sequence[str], catalog: Catalog, training: bool) -> list[str]:
    """The names, each once; an error for one that is unknown, not installed, or cannot do the work."""
    known = known_contenders(catalog)
    for name in names:
        if name in OTHERS and name not in known:
            raise UnknownNameError(f"no encoder called '{name}' is installed; {_listed(known)}")
        if name not in known:
            raise UnknownNameError(f"no contender is called '{name}'.{nearest(name, known)} {_listed(known)}")
        if training and name in INFERENCE_ONLY:
            raise CrvnnError(f"{name} is inference only; leave it out, or measure --work forward")
    return list(dict.fromkeys(names))


def _listed(names: dict[str, str]) -> str:
    return f"Contenders: {', '.join(names)}."


@define
class Field:
    """Builds contenders over the same weights; each is a model of its own."""

    setup: Setup
    catalog: Catalog
    _base: Model | None = field(default=None, init=False)
    _retriever: str = field(default="", init=False)

    @property
    def base(self) -> Model:
        """The model whose weights the recursive contenders share, as its spec describes it."""
        if self._base is None:
            self._base, self._retriever = self._weights()
        return self._base

    def build(self, name: str) -> Model:
        """A contender."""
        if name in OTHERS:
            return self._assembled({"encoder": name}).to(self.setup.device)
        model = copy.deepcopy(self.base)
        engine = self._engine(model)
        model.encoder = _CHANGES[name](self, engine)
        return model.to(self.setup.device)

    def _weights(self) -> tuple[Model, str]:
        if self.setup.weights == UNTRAINED:
            return self._assembled({}), ""
        trained = load(self.setup.weights, self.catalog)
        if not set(VOCABULARY) <= set(trained.model.vocabulary.tokens):
            task = trained.spec.task.name
            raise CrvnnError(f"{self.setup.weights}: this model is for '{task}'; bench measures on ListOps")
        return trained.model, trained.spec.model.retriever.name

    def _assembled(self, parts: dict[str, str]) -> Model:
        width = self.setup.width if self.setup.weights == UNTRAINED else self.base.encoder.width
        sets = ["task=listops", f"model.width={width}", f"seed={self.setup.seed}"]
        spec = read_spec(self.catalog, preset=self.setup.preset, parts=parts, sets=sets)
        return assemble(spec, self.catalog).model

    def _engine(self, model: Model) -> Recursion:
        """The recursion of a model, with the quick retriever, and the depth that the setup asks for."""
        engine = model.encoder
        if not isinstance(engine, Recursion):
            kind = type(engine).__name__
            raise CrvnnError(
                f"{self.setup.weights}: the encoder is {kind}, and only 'crvnn' can be measured so"
            )
        self._retrieve(engine, self.retriever)
        if not self.setup.halting:
            engine.halting = self.catalog.find("halting", "never").component.make({})
        if isinstance(engine.decision, Stretched):
            engine.decision.noise = 0.0  # else every contender and every repeat would decide otherwise
        if self.setup.max_steps:
            engine.max_steps = self.setup.max_steps
        return engine

    @property
    def retriever(self) -> str:
        """The quick one of the pair that the weights were trained with, by name."""
        return (self._retriever or "adhoc").removesuffix("-dense")

    def retrieve_densely(self, engine: Recursion) -> Recursion:
        """The engine with the slow twin of its retriever."""
        self._retrieve(engine, f"{self.retriever}-dense")
        return engine

    def _retrieve(self, engine: Recursion, name: str) -> None:
        engine.retriever = self.catalog.find("retriever", name).component.make({"width": engine.width})


def _on_torch_alone(field: Field, engine: Recursion) -> Encoder:
    forward = engine.forward

    def without_kernels(inputs: Tensor, mask: Tensor, **options: bool) -> Encoding:
        with without():
            return forward(inputs, mask, **options)

    engine.forward = without_kernels  # type: ignore[method-assign]
    return engine


def _checkpointed(field: Field, engine: Recursion) -> Encoder:
    engine.checkpoint = True
    return engine


def _plain(field: Field, engine: Recursion) -> Encoder:
    engine.shortcuts = False
    return engine


def _hard(field: Field, engine: Recursion) -> Encoder:
    engine.hard = True
    return engine


def _dense(field: Field, engine: Recursion) -> Encoder:
    from crvnn_bench.contenders.dense import DenseEngine

    return DenseEngine(engine)


_CHANGES: dict[str, Callable[[Field, Recursion], Encoder]] = {
    "crvnn": lambda field, engine: engine,
    "crvnn-checkpointed": _checkpointed,
    "crvnn-torch": _on_torch_alone,
    "crvnn-plain": _plain,
    "crvnn-hard": _hard,
    "dense": _dense,
    "dense-retriever": lambda field, engine: field.retrieve_densely(engine),
}


def field_of(setup: Setup) -> Field:
    """The contenders of a setup, with plug-ins of its own: for a process that was told nothing else."""
    files = [Path(file) for file in setup.plugins]
    return Field(setup, read_catalog(create_plugin_manager(files=files)))
