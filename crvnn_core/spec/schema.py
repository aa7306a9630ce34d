"""The fields of a spec, their defaults and limits. Equal specs and seeds build equal models.

Fields that name components are explained by their slots (``crvnn_core.host.slots``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from attrs import evolve, field, frozen, resolve_types

from crvnn_core.annotations import Count, CountOrZero, FilePath, Positive, Probability, Range
from crvnn_core.errors import Origin, Path_, Problem


@frozen
class PartSpec:
    """A component by name, and its parameters; one of these may be another component."""

    name: str
    params: Mapping[str, Any] = field(factory=dict)
    #: For messages: its place in the spec, the parameters that were given there, and where each place was written.
    path: Path_ = field(default=(), eq=False, repr=False)
    given: Collection[str] = field(default=(), eq=False, repr=False)
    origin: Callable[[Path_], Origin] | None = field(default=None, eq=False, repr=False)

    def nested(self) -> Iterator[PartSpec]:
        """This component, and those that its parameters name inside it."""
        yield self
        for value in self.params.values():
            if isinstance(value, PartSpec):
                yield from value.nested()

    def problem(self, title: str, what: str) -> Problem:
        """A problem that the component reports, at the place of the first parameter that ``what`` mentions."""
        if self.origin is None:
            return Problem(title, what)
        mentioned = [key for key in self.given if re.search(rf"\b{re.escape(key)}\b", what)]
        path = (*self.path, *mentioned[:1])
        return self.origin(path).problem(path, f"{title}: {what}")


@frozen(kw_only=True)
class ModelSpec:
    """The model: its width, its dropout and a component for each slot."""

    #: Width of the encoder's inputs and of sentence vectors.
    width: Count = 64
    #: Dropout on the encoder's input.
    input_dropout: Probability = 0.0
    #: Dropout between the layers of the head.
    output_dropout: Probability = 0.0
    #: An affine map from token vectors to the encoder's input; without it token vectors must have the model's width.
    projection: bool = True
    #: The head: the task's own, one linear layer, or two with this activation between them.
    head: Literal["task", "linear", "gelu", "elu", "relu"] = "task"
    #: Initial weights of the encoder's linear layers: the components' own (Glorot-uniform with zero biases in the
    #: built-in cells and scorers), or torch's for all of them.
    initialisation: Literal["components", "torch"] = "components"
    embedding: PartSpec
    encoder: PartSpec
    retriever: PartSpec
    scorer: PartSpec
    decision: PartSpec
    cell: PartSpec
    halting: PartSpec


@frozen(kw_only=True)
class TrainingSpec:
    """The training: its length, batches, learning-rate schedule, evaluation, devices, optimizer and observers."""

    #: Maximal number of epochs; 0 for no limit.
    epochs: CountOrZero = 10
    #: Maximal number of optimizer steps; 0 for no limit.
    steps: CountOrZero = 0
    #: Examples per optimizer step.
    batch: Count = 128
    #: Tokens per forward pass, padding included; a larger batch is split and its gradients are accumulated, which
    #: gives the same step with less memory. 0 for no limit.
    tokens: CountOrZero = 0
    #: The order of an epoch's batches, each of similar lengths: shuffled, or short to long within every 10 batches.
    order: Literal["shuffled", "short-to-long"] = "shuffled"
    #: The gradient is clipped to this norm.
    clip: Positive = 1.0
    #: Steps of linear learning-rate warm-up.
    warmup: CountOrZero = 0
    #: Anneal the learning rate to 0 along a cosine.
    anneal: bool = False
    #: Steps between evaluations on the development split; 0 for one after every epoch.
    evaluate_every: CountOrZero = 0
    #: Examples of the development split in these evaluations, evenly spaced; 0 for all. At the end it is always all.
    evaluate_rows: CountOrZero = 0
    #: Of these, examples whose trees are measured as well: constituents found, F1, sharpness of c, accuracy of hard
    #: inference; 0 for none.
    evaluate_trees: CountOrZero = 0
    #: The metric on the development split that selects the best weights; of equal accuracies, the lower loss.
    watch: Literal["accuracy", "loss"] = "accuracy"
    #: Halve the learning rate after so many evaluations without improvement; 0 for never.
    halve_after: CountOrZero = 3
    #: What counts as improvement for ``halve_after``: more than this share of the best value.
    threshold: Probability = 0.0
    #: Stop after so many evaluations without improvement; 0 for never.
    patience: CountOrZero = 0
    #: Steps between checkpoints, in addition to one at every evaluation; 0 for no additional ones.
    save_every: CountOrZero = 500
    #: A run directory whose weights training starts from; empty for random initialisation.
    start: FilePath = ""
    #: Train only the weights whose names begin with this, or with one of these, such as ``encoder.cell`` or ``head``;
    #: empty for all.
    trained: str | list[str] = ""
    #: The kind of device.
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    #: Number of devices on this machine, one process each.
    devices: Count = 1
    #: Floating-point precision; with mixed precision the weights stay in 32 bits. With bf16-products all tensors do,
    #: and only factors of matrix products are rounded, where the device multiplies bfloat16 (or TF32) faster.
    precision: Literal["32", "64", "16-mixed", "bf16-mixed", "bf16-products"] = "32"
    #: CPU threads; 0 for torch's default. Small models are often fastest with 1.
    threads: Annotated[int, Range(ge=0, le=1024)] = 0
    objective: PartSpec
    optimizer: PartSpec
    observers: tuple[PartSpec, ...]

    def __attrs_post_init__(self) -> None:
        if not (self.epochs or self.steps):
            raise ValueError("epochs and steps cannot both be without a limit; training would never end")


@frozen(kw_only=True)
class Stage:
    """One stage of training: the task, model and training of the spec, overridden by the stage's own settings."""

    #: Shown when the stage begins, and in messages.
    name: str = ""
    task: PartSpec
    model: ModelSpec
    training: TrainingSpec
    #: The settings that it was given, and where it was written.
    given: frozenset[Path_] = field(default=frozenset(), eq=False, repr=False)
    place: Origin = field(default=Origin("spec"), eq=False, repr=False)


@frozen(kw_only=True)
class RunSpec:
    """A complete spec: everything that the result of a run depends on."""

    #: Seed of all random numbers.
    seed: Annotated[int, Range(ge=0, le=2**63 - 1)] = 0
    #: The task, by name and parameters.
    task: PartSpec
    #: The model and its components.
    model: ModelSpec
    #: How it is trained.
    training: TrainingSpec
    #: Stages of training, one after the other, each with settings of its own; without any, training is one stage.
    stages: tuple[Stage, ...] = ()

    @property
    def stage_specs(self) -> tuple[RunSpec, ...]:
        """A complete spec for each stage, in order; the spec itself if it has no stages."""
        return tuple(
            evolve(self, task=stage.task, model=stage.model, training=stage.training, stages=())
            for stage in self.stages
        ) or (self,)


for _kind in (ModelSpec, TrainingSpec, RunSpec):
    resolve_types(_kind)  # readers check values against the types of fields
