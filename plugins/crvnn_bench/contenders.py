"""Contenders: an encoder, or an encoder's variant as in ``crvnn-hard``. Variants of one encoder have equal weights."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import attrs
from attrs import frozen
from torch import Tensor

from crvnn_bench.setup import ALONE, CRVNN, UNTRAINED, VARIANTS, Setup
from crvnn_core import (
    Batch,
    Catalog,
    CrvnnError,
    Encoder,
    Encoding,
    Model,
    Objective,
    RunSpec,
    SpecError,
    Trained,
    UnknownNameError,
    set_progress,
)
from crvnn_core.errors import nearest
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.inference.trained import load
from crvnn_core.kernels import without
from crvnn_core.model.model import Output
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_tasks.listops.language import VOCABULARY

#: Settings of the encoder that make a variant, or a part of it.
_SETTINGS = {
    "checkpointed": "model.encoder.checkpoint=true",
    "plain": "model.encoder.shortcuts=false",
    "dense": "model.encoder.shortcuts=false",
}


def read_name(text: str, encoders: Collection[str]) -> tuple[str, str] | None:
    """The encoder, empty for the one that has the weights, and the variant, empty for none; ``None`` if unknown.

    :param encoders: the names of installed encoders.
    """
    if text in ALONE:
        return "", text
    if text in encoders:
        return text, ""
    for variant in VARIANTS:
        encoder = text.removesuffix(f"-{variant}")
        if encoder != text and encoder in encoders:
            return encoder, variant
    return None


def known_contenders(catalog: Catalog) -> list[str]:
    """The contenders to choose from: ``crvnn``, its variants, and the other installed encoders."""
    variants = [name if name in ALONE else f"{CRVNN}-{name}" for name in VARIANTS]
    return list(dict.fromkeys([CRVNN, *variants, *catalog.components["encoder"]]))


def check_contenders(names: Sequence[str], catalog: Catalog, training: bool) -> list[str]:
    """The names without repetitions; an error for one that is unknown, or that cannot be trained but should be."""
    for text in names:
        name = read_name(text, catalog.components["encoder"])
        if name is None:
            known = known_contenders(catalog)
            raise UnknownNameError(
                f"no contender is called '{text}'.{nearest(text, known)} Contenders: {', '.join(known)}. "
                f"Other encoders have variants, too: ENCODER-VARIANT, as in '{CRVNN}-hard'."
            )
        if training and name[1] == "hard":
            raise CrvnnError(f"{text} is inference only; leave it out, or measure --work forward")
        if not training and name[1] == "self-training":
            raise CrvnnError(f"{text} differs in training only; leave it out, or measure --work train")
    return list(dict.fromkeys(names))


def all_encoders(catalog: Catalog) -> list[str]:
    """Every installed encoder; ``crvnn`` first, by its own loss and by self-training."""
    return list(dict.fromkeys([CRVNN, f"{CRVNN}-self-training", *sorted(catalog.components["encoder"])]))


class Contenders:
    """Builds the contenders of a setup. All variants of one encoder get equal weights, in tensors of their own."""

    def __init__(self, setup: Setup, catalog: Catalog) -> None:
        self.setup, self.catalog = setup, catalog

    @cached_property
    def base(self) -> Trained:
        """The model that ``setup.weights`` names, or a new one of the setup's preset."""
        if self.setup.weights == UNTRAINED:
            return self._untrained({}, self.setup.width)
        trained = load(self.setup.weights, self.catalog)
        if not set(VOCABULARY) <= set(trained.model.vocabulary.tokens):
            task = trained.spec.task.name
            raise CrvnnError(f"{self.setup.weights}: this model is for '{task}'; bench measures on ListOps")
        return trained

    @property
    def encoder(self) -> str:
        """The name of the encoder that the weights are for."""
        return self.base.spec.model.encoder.name

    def default(self, names: Sequence[str]) -> Sequence[str]:
        """The contenders if none are asked for: ``names``, which are about crvnn, or else the weights' encoder."""
        return names if self.encoder == CRVNN else [self.encoder]

    def remark(self, name: str) -> str:
        """What to say of a contender's weights: that they are not the ones asked for, if so."""
        asked = self.setup.weights != UNTRAINED
        return "untrained" if asked and self._read(name)[0] not in ("", self.encoder) else ""

    def build(self, name: str) -> Model:
        """A contender's model on the setup's device; an error if its encoder has no such variant."""
        (encoder, variant), base = self._read(name), self.base
        if encoder not in ("", self.encoder):
            base = self._untrained({"encoder": encoder}, base.model.encoder.width)
        kind = base.spec.model.encoder.name
        parts, sets = self._changes(base.spec, variant)
        try:
            own = attrs.evolve(base, model=copy.deepcopy(base.model))
            model = exchange_parts(own, self.catalog, parts, sets).model
        except SpecError as error:
            raise CrvnnError(f"{name}: the encoder '{kind}' has no such variant:\n{error}") from None
        if variant == "hard":
            if not model.encoder.hard_inference:
                raise CrvnnError(f"{name}: the encoder '{kind}' declares no hard inference (hard_inference)")
            _decide_hard(model.encoder)
        elif variant in ("torch", "dense"):
            _run_without_kernels(model.encoder)
        elif variant == "self-training":
            component = self.catalog.find("objective", "self-training").component
            # Decisions learn from every tree, whatever the weights: else untrained ones would have less to do.
            given = {"task": base.task, "seed": self.setup.seed}
            _train_by(component.make(given, confidence=0.0), model)
        return model.to(self.setup.device)

    def _read(self, name: str) -> tuple[str, str]:
        found = read_name(name, self.catalog.components["encoder"])
        assert found is not None, name  # check_contenders has seen to it
        return found

    def _untrained(self, parts: dict[str, str], width: int) -> Trained:
        sets = ["task=listops", f"model.width={width}", f"seed={self.setup.seed}"]
        spec = read_spec(self.catalog, preset=self.setup.preset, parts=parts, sets=sets)
        assembly = assemble(spec, self.catalog)
        set_progress(assembly.model, 1.0)  # as in a trained model
        return Trained(spec, assembly.task, assembly.model)

    def _changes(self, spec: RunSpec, variant: str) -> tuple[dict[str, str], list[str]]:
        """What differs from the spec, as components by slot and as ``key=value``: the setup's and the variant's."""
        accepted = self.catalog.find("encoder", spec.model.encoder.name).component.parameters()
        parts: dict[str, str] = {}
        sets = [_SETTINGS[variant]] if variant in _SETTINGS else []
        retriever = spec.model.retriever.name.removesuffix("-dense")
        if variant in ("dense", "dense-retriever"):
            parts["retriever"] = f"{retriever}-dense"
        elif "retriever" in accepted:
            parts["retriever"] = retriever
        if "halting" in accepted and self.setup.max_steps:
            parts["halting"] = "never"
        if "max_steps" in accepted and self.setup.max_steps:
            sets.append(f"model.encoder.max_steps={self.setup.max_steps}")
        if "decision" in accepted:
            decision = self.catalog.find("decision", spec.model.decision.name).component
            if "noise" in decision.parameters():  # else every repeat would decide otherwise
                sets.append("model.decision.noise=0.0")
        return parts, sets


def _decide_hard(encoder: Encoder) -> None:
    """Let an encoder decide hard, whatever it is asked for."""
    forward = encoder.forward

    def hard_forward(inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = True) -> Encoding:
        return forward(inputs, mask, trace=trace, hard=True)  # type: ignore[call-arg]

    encoder.forward = hard_forward  # type: ignore[method-assign]


def _run_without_kernels(encoder: Encoder) -> None:
    """Let torch do everything while an encoder runs."""
    forward = encoder.forward

    def torch_forward(inputs: Tensor, mask: Tensor, **options: bool) -> Encoding:
        with without():
            return forward(inputs, mask, **options)

    encoder.forward = torch_forward  # type: ignore[method-assign]


def _train_by(objective: Objective, model: Model) -> None:
    """Let a model's loss in training be that of an objective, which asks for more than one pass."""
    objective.expect(model)
    forward = model.forward

    def training_forward(batch: Batch, **options: Any) -> Output | _Loss:
        if not model.training or options:
            return forward(batch, **options)
        loss, output = objective.loss(model, forward, batch, ())
        return _Loss(loss, output.encodings)

    model.forward = training_forward  # type: ignore[method-assign, assignment]


@frozen
class _Loss:
    """The output of a model whose loss was computed with it."""

    value: Tensor
    encodings: tuple[Encoding, ...]

    def loss(self, labels: Tensor) -> Tensor:
        return self.value
