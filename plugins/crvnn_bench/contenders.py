"""Contenders: an encoder, or an encoder's variant as in ``crvnn-hard``. Variants of one encoder have equal weights."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Literal

import attrs
import torch
from attrs import frozen
from torch import Tensor

from crvnn_bench.setup import ALONE, CRVNN, UNTRAINED, VARIANTS, Setup, variant_names
from crvnn_core import (
    Batch,
    Catalog,
    CrvnnError,
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

Work = Literal["train", "forward"]

#: Settings of the encoder that make a variant, or a part of it.
_SETTINGS = {
    "checkpointed": "model.encoder.checkpoint=true",
    "plain": "model.encoder.shortcuts=false",
    "dense": "model.encoder.shortcuts=false",
}


@frozen
class Contender:
    """A model, and the work that is measured: a training step without the optimizer, or a forward pass."""

    model: Model
    work: Work = "train"
    hard: bool = False
    #: Whether native kernels may be used.
    kernels: bool = True
    #: What is minimised in place of the loss of the labels.
    objective: Objective | None = None

    def perform(self, batch: Batch) -> Tensor:
        """Do the work on a batch: the recursion steps that each sequence took [B]. The weights do not change."""
        if self.work == "forward":
            return self.output(batch).encodings[0].steps
        self.model.zero_grad()
        with contextlib.nullcontext() if self.kernels else without():
            if self.objective is None:
                output = self.model(batch)
                loss = output.loss(batch.labels)
            else:
                loss, output = self.objective.loss(self.model, self.model, batch, ())
        loss.backward()  # type: ignore[no-untyped-call]
        return output.encodings[0].steps

    def output(self, batch: Batch) -> Output:
        """What the model gives for a batch, without gradients."""
        with torch.inference_mode(), contextlib.nullcontext() if self.kernels else without():
            return self.model(batch, hard=self.hard)


def read_name(text: str, encoders: Collection[str]) -> tuple[str, str]:
    """The encoder, empty for the one that has the weights, and the variant, empty for none.

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
    known = list(dict.fromkeys([CRVNN, *variant_names(), *encoders]))
    raise UnknownNameError(
        f"no contender is called '{text}'.{nearest(text, known)} Contenders: {', '.join(known)}. "
        f"Other encoders have variants, too: ENCODER-VARIANT, as in '{CRVNN}-hard'."
    )


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

    @property
    def all_encoders(self) -> list[str]:
        """Every installed encoder; ``crvnn`` first, by its own loss and by self-training."""
        return list(
            dict.fromkeys([CRVNN, f"{CRVNN}-self-training", *sorted(self.catalog.components["encoder"])])
        )

    def choose(self, names: Sequence[str], default: Sequence[str], work: Work) -> list[str]:
        """The names without repetitions; an error for one that is unknown, or that does not do the work.

        :param default: of variants of crvnn; with the weights of another encoder that one is the default.
        """
        chosen = list(dict.fromkeys(names or (default if self.encoder == CRVNN else [self.encoder])))
        for text in chosen:
            _, variant = read_name(text, self.catalog.components["encoder"])
            if work == "train" and variant == "hard":
                raise CrvnnError(f"{text} is inference only; leave it out, or measure --work forward")
            if work == "forward" and variant == "self-training":
                raise CrvnnError(f"{text} differs in training only; leave it out, or measure --work train")
        return chosen

    def remark(self, name: str) -> str:
        """What to say of a contender's weights: that they are not the ones asked for, if so."""
        encoder, _ = read_name(name, self.catalog.components["encoder"])
        return "untrained" if self.setup.weights != UNTRAINED and encoder not in ("", self.encoder) else ""

    def build(self, name: str, work: Work = "train") -> Contender:
        """A contender on the setup's device; an error if its encoder has no such variant."""
        encoder, variant = read_name(name, self.catalog.components["encoder"])
        base = self.base
        if encoder not in ("", self.encoder):
            base = self._untrained({"encoder": encoder}, base.model.encoder.width)
        kind = base.spec.model.encoder.name
        try:
            own = attrs.evolve(base, model=copy.deepcopy(base.model))
            model = exchange_parts(own, self.catalog, *self._changes(base.spec, variant)).model
        except SpecError as error:
            raise CrvnnError(f"{name}: the encoder '{kind}' has no such variant:\n{error}") from None
        if variant == "hard" and not model.encoder.hard_inference:
            raise CrvnnError(f"{name}: the encoder '{kind}' declares no hard inference (hard_inference)")
        objective = None
        if variant == "self-training":
            component = self.catalog.find("objective", "self-training").component
            # Decisions learn from every tree, whatever the weights: else untrained ones would have less to do.
            objective = component.make({"task": base.task, "seed": self.setup.seed}, confidence=0.0)
            objective.expect(model)
        model.to(self.setup.device).train(work == "train")
        return Contender(model, work, variant == "hard", variant not in ("torch", "dense"), objective)

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
