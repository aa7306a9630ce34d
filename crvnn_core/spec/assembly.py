"""Building what a spec describes. Components are built here and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import evolve, field, frozen
from torch import nn

from crvnn_core.errors import FAILURES, CrvnnError, PluginError, Problem, SpecError, nearest, raised_at
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME
from crvnn_core.interfaces import Embedding, Encoder, Objective, Observer, Task
from crvnn_core.model.model import Head, Model, TokenVectors, head_of
from crvnn_core.runs.directory import SavedVocabulary
from crvnn_core.spec import ModelSpec, PartSpec, RunSpec
from crvnn_core.spec.stages import weight_problems
from crvnn_core.trees.gold import TreeSource


@frozen(eq=False)
class Assembly:
    """The model, task and observers that were built from a spec, ready to be trained."""

    spec: RunSpec
    task: Task
    model: Model
    observers: list[Observer]
    offers: Mapping[str, Offer]  # by slot: the components of the model and the task
    catalog: Catalog = field(repr=False)
    remarks: tuple[str, ...] = ()  # messages of the embedding, about its coverage for example
    #: One for each stage of the spec, if it has stages: the model and the task above are those of the last.
    stages: tuple[Assembly, ...] = ()

    @property
    def each_stage(self) -> tuple[Assembly, ...]:
        """What is trained, one after the other: the stages, or itself if the spec has none."""
        return self.stages or (self,)

    def objective(self) -> Objective:
        """The objective that the spec names, for this task; an error if this model cannot be trained with it."""
        part = self.spec.training.objective
        objective: Objective = build_part(
            self.catalog, "objective", part, task=self.task, seed=self.spec.seed
        )
        try:
            objective.expect(self.model)
        except CrvnnError as error:
            title = str(self.catalog.find("objective", part.name))
            raise SpecError([part.problem(title, str(error))]) from error
        return objective

    def optimizer(self) -> torch.optim.Optimizer:
        """A new optimizer, as the spec says, over the model's trainable parameters.

        Call it once the model is on its device and has the weights that training starts from: some optimizers
        copy the weights when they are built.
        """
        trainable = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        part = self.spec.training.optimizer
        optimizer: torch.optim.Optimizer = build_part(self.catalog, "optimizer", part, params=trainable)
        return optimizer

    @property
    def packages(self) -> list[str]:
        """The packages that its components come from, with their versions."""
        if self.stages:
            return sorted({package for stage in self.stages for package in stage.packages})
        training = self.spec.training
        others = [
            self.catalog.find(slot, getattr(training, slot).name) for slot in ("objective", "optimizer")
        ]
        others += [self.catalog.find("observer", part.name) for part in training.observers]
        others += [self.catalog.find("encoder", part.name) for part in self.spec.model.encoder.nested()]
        return sorted({offer.source.recorded for offer in (*self.offers.values(), *others)})

    def notes(self) -> list[str]:
        """The packages and the torch version, as comment lines for the written spec."""
        return [f"components from {', '.join(self.packages)}; torch {torch.__version__}"]


def assemble(spec: RunSpec, catalog: Catalog, saved: SavedVocabulary | None = None) -> Assembly:
    """Build the task and the model that a spec describes, initialised from its seed; one error for all problems.

    Of a spec with stages every stage is built, so that all problems are found before the first begins.

    :param saved: of a saved model: its training data is not read, and its weights are loaded afterwards.
    """
    if saved is None and spec.stages:
        return _assemble_stages(spec, catalog)
    return _assemble(spec.stage_specs[-1], catalog, saved)


def _assemble_stages(spec: RunSpec, catalog: Catalog) -> Assembly:
    """Build each stage of a spec; an error if the weights of one cannot carry over to the next."""
    built: list[Assembly] = []
    problems: list[Problem] = []
    for stage in spec.stage_specs:
        known = next((earlier.task for earlier in built if earlier.spec.task == stage.task), None)
        if built:  # observers are built once for all stages
            stage = evolve(stage, training=evolve(stage.training, observers=()))
        try:
            built.append(_assemble(stage, catalog, task=known))
        except SpecError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    if not problems:
        problems += weight_problems(spec, built)
    if problems:
        raise SpecError(problems)
    return evolve(
        built[-1], spec=spec, observers=built[0].observers, remarks=built[0].remarks, stages=tuple(built)
    )


def _assemble(
    spec: RunSpec, catalog: Catalog, saved: SavedVocabulary | None = None, task: Task | None = None
) -> Assembly:
    """Build what a spec without stages describes.

    :param task: of an earlier stage with the same settings, whose data need not be read again.
    """
    torch.manual_seed(spec.seed)
    problems: list[Problem] = []
    offers: dict[str, Offer] = {}

    def build(slot: str, part: PartSpec, **available: Any) -> Any:
        if not SLOT_BY_NAME[slot].for_training:
            offers[slot] = catalog.find(slot, part.name)
        try:
            return build_part(catalog, slot, part, **available)
        except SpecError as error:
            problems.extend(error.problems)
            return None

    if task is None:
        task = build("task", spec.task)
    else:
        offers["task"] = catalog.find("task", spec.task.name)
    if saved is not None and task is not None:
        task.vocabulary, task.classes = saved.tokens, saved.classes
    embedding = build("embedding", spec.model.embedding)
    width = spec.model.width
    wanted = catalog.encoder_parts(part.name for part in spec.model.encoder.nested())
    parts = {
        slot: build(slot, getattr(spec.model, slot), width=width) for slot in ENCODER_PARTS if slot in wanted
    }
    encoder = None if problems else build("encoder", spec.model.encoder, width=width, **parts)
    model = None if encoder is None else _model(spec, task, embedding, encoder, saved, offers)
    trained = spec.training.observers if saved is None else ()
    observers = [build("observer", part) for part in trained]
    if task is None or model is None:
        raise SpecError(problems)
    assembly = Assembly(spec, task, model, observers, offers, catalog, tuple(embedding.notes))
    if saved is None:
        problems += freeze_untrained(spec, model)
        for expected in (assembly.optimizer, assembly.objective):  # built again when training begins
            try:
                expected()
            except SpecError as error:
                problems += error.problems
    if problems:
        raise SpecError(problems)
    return assembly


def _model(
    spec: RunSpec,
    task: Task,
    embedding: Embedding,
    encoder: Encoder,
    saved: SavedVocabulary | None,
    offers: Mapping[str, Offer],
) -> Model:
    asked = _vocabulary(task, offers["task"])  # first, so that an error in the data names the task
    with _naming(offers["embedding"], "could not make vectors"):
        if saved is None:
            tokens, vectors = embedding.table(asked, spec.model.width)
        else:
            tokens, vectors = saved.tokens, torch.zeros(len(saved.tokens), saved.vector_size)
        embed = TokenVectors(vectors, embedding.trainable)
    if not spec.model.projection and vectors.shape[1] != spec.model.width:
        what = f"makes vectors of size {vectors.shape[1]}, and the model's width is {spec.model.width}"
        raise SpecError(
            [spec.model.embedding.problem(str(offers["embedding"]), f"{what}; set model.projection = true")]
        )
    with _naming(offers["task"], "could not make a model"):
        head = _head(spec.model, task, encoder.width)
        dropout, projection = spec.model.input_dropout, spec.model.projection
        model = Model(
            tokens, embed, encoder, head, width=spec.model.width, dropout=dropout, projection=projection
        )
    with _naming(offers["encoder"], "could not be given trees"):
        model.tree_source = TreeSource.of(task, encoder)
    if spec.model.initialisation == "torch":
        for layer in encoder.modules():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
    return model


def _head(spec: ModelSpec, task: Task, width: int) -> nn.Module:
    if spec.head == "task":
        return head_of(task, width, spec.output_dropout)
    layers, activation = (1, "gelu") if spec.head == "linear" else (2, spec.head)
    return Head(
        width,
        len(task.classes),
        arity=task.arity,
        layers=layers,
        activation=activation,
        dropout=spec.output_dropout,
    )


def _vocabulary(task: Task, offer: Offer) -> Sequence[str]:
    with _naming(offer, "could not say its vocabulary and classes"):
        found, classes = task.vocabulary, task.classes
        try:
            task.vocabulary, task.classes = found, classes  # loading a saved model sets them
        except AttributeError:
            raise CrvnnError(
                "'vocabulary' and 'classes' must be attributes that can be set; functools.cached_property will do"
            ) from None
    return found


@contextlib.contextmanager
def _naming(offer: Offer, what: str) -> Iterator[None]:
    """Name the component in every error that its code raises."""
    try:
        yield
    except CrvnnError as error:
        raise CrvnnError(f"{offer}: {error}") from error
    except FAILURES as error:
        raise PluginError(f"{offer} {what}: {raised_at(error)}") from error


def build_part(catalog: Catalog, slot: str, part: PartSpec, **available: Any) -> Any:
    """Build one component, after those inside it; errors name its place in the spec, its name and its package.

    :param available: arguments that it is given if it has parameters of these names.
    """
    offer = catalog.find(slot, part.name)
    title = str(offer)
    params = {
        key: build_part(catalog, slot, value, **available) if isinstance(value, PartSpec) else value
        for key, value in part.params.items()
    }
    try:
        built = offer.component.make(available, **params)
    except CrvnnError:
        raise
    except ValueError as error:
        raise SpecError([part.problem(title, str(error))]) from error
    except FAILURES as error:
        raise PluginError(str(part.problem(title, f"could not be built: {raised_at(error)}"))) from error
    interface = SLOT_BY_NAME[slot].load_interface()
    if not isinstance(built, interface):
        kind = f"built a {type(built).__name__}, which is no {interface.__name__}"
        raise PluginError(str(part.problem(title, kind)))
    return built


def freeze_untrained(spec: RunSpec, model: nn.Module) -> list[Problem]:
    """Freeze all weights but those that ``training.trained`` names; a problem for each name without any."""
    names = spec.training.trained
    if not names:
        return []
    parameters = dict(model.named_parameters())
    problems, chosen = [], set()
    for name in [names] if isinstance(names, str) else names:
        found = [own for own in parameters if f"{own}.".startswith(f"{name}.")]
        chosen.update(found)
        if not any(parameters[own].requires_grad for own in found):
            known = _modules(model)
            what = "these weights are not trained anyway" if found else f"no weights are called '{name}'"
            advice = f"{nearest(name, known)} There are {', '.join(known)}.".strip()
            problems.append(Problem("[training] trained", what, advice=advice))
    if not problems:
        for own in parameters.keys() - chosen:
            parameters[own].requires_grad_(False)
    return problems


def _modules(model: nn.Module) -> list[str]:
    """The parts of a model and of its encoder that have weights."""
    return sorted(
        {
            ".".join(own.split(".")[:2]) if own.startswith("encoder.") else own.split(".")[0]
            for own, _ in model.named_parameters()
        }
    )
