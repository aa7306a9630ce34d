"""The models that a report is about, and their predictions for a sample of examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from attrs import field, frozen

from crvnn_core.errors import CrvnnError, InputError, SpecError, UnknownNameError
from crvnn_core.host.catalog import Catalog
from crvnn_core.inference.trained import Trained, load
from crvnn_core.interfaces import Example
from crvnn_core.runs.records import Record, Variant
from crvnn_core.runs.seeds import development_accuracy
from crvnn_core.training.data import TOKEN_BUDGET, example_length, within_budget


@frozen
class Prediction:
    """The label that a model predicts for one example, and in how many steps."""

    length: float  # tokens; of a pair, the mean of both
    steps: float
    gold: str
    label: str

    @property
    def correct(self) -> bool:
        """Whether the label is the gold label."""
        return self.gold == self.label


@frozen
class VariantModel:
    """The model of a variant's best run, and its predictions."""

    variant: Variant
    trained: Trained | None = field(default=None, repr=False)
    predictions: tuple[Prediction, ...] = ()
    #: Why there is no model.
    problem: str = ""


def best_run(variant: Variant) -> Record:
    """The run with the highest accuracy on the development split; the first that has weights, if none has one."""
    runs = [run for run in variant.runs if run.directory.weights.exists()] or list(variant.runs)
    known = {run.name: found[1] for run in runs if (found := development_accuracy(run.directory)) is not None}
    return max(runs, key=lambda run: known.get(run.name, -1.0))


def load_model(variant: Variant, catalog: Catalog, sets: Sequence[str]) -> VariantModel:
    """The model of a variant, or the problem that prevented loading it.

    :param sets: settings of the task, as ``--set`` takes them; a mistake in one is an error.
    """
    run = best_run(variant)
    try:
        return VariantModel(variant, load(run.directory.path, catalog, sets))
    except UnknownNameError:
        raise
    except SpecError as error:
        if any(problem.where.startswith("--set") for problem in error.problems):
            raise
        return VariantModel(variant, problem=str(error))
    except CrvnnError as error:
        return VariantModel(variant, problem=str(error))


def check_classes(models: Sequence[VariantModel]) -> None:
    """Raise if models of one task have different classes: they were trained on different data."""
    loaded = [(model.variant.name, tuple(model.trained.task.classes)) for model in models if model.trained]
    for name, classes in loaded:
        first, expected = loaded[0]
        if classes != expected:
            raise InputError(
                f"the classes of {first} are {_listed(expected)}, those of {name} {_listed(classes)}: they were "
                "trained on different data"
            )


def predict(
    model: VariantModel, examples: Sequence[Example], done: Callable[[int], None]
) -> tuple[Prediction, ...]:
    """The predictions of a model for examples, in their order; none if there is no model.

    :param done: called with the number of examples after each batch.
    """
    if model.trained is None:
        return ()
    found: dict[int, Prediction] = {}
    classes = list(model.trained.task.classes)
    for group in within_budget(examples, TOKEN_BUDGET):
        output = model.trained.model.predict(*zip(*(examples[i].sequences for i in group), strict=True))
        steps = torch.stack([encoding.steps for encoding in output.encodings]).float().mean(0).tolist()
        labels = output.logits.argmax(-1).tolist()
        for row, i in enumerate(group):
            length = example_length(examples[i]) / len(examples[i].sequences)
            found[i] = Prediction(length, steps[row], classes[examples[i].label], classes[labels[row]])
        done(len(group))
    return tuple(found[i] for i in range(len(examples)))


def _listed(classes: Sequence[str], most: int = 6) -> str:
    return ", ".join(classes[:most]) + (" ..." if len(classes) > most else "")
