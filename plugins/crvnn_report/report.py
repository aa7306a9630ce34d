"""The data of a report, collected before it is written: runs, their models and predictions, and inputs in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from attrs import evolve, field, frozen

from crvnn_core.errors import CrvnnError, InputError, SpecError, UnknownNameError
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.runs import read_runs
from crvnn_core.inference.inspection import Inspection, inspect, read_gold
from crvnn_core.inference.predictions import Text, as_typed, pair_texts
from crvnn_core.inference.trained import Trained, load
from crvnn_core.interfaces import Example
from crvnn_core.runs.records import Record, Variant, check_one_task, variants
from crvnn_core.runs.seeds import development_accuracy
from crvnn_core.training.data import TOKEN_BUDGET, example_length, within_budget
from crvnn_core.trees.scoring import Sentence

#: Opens a progress bar of a length and a label; the function it gives advances the bar.
Progress = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]
#: Tokens up to which the sequences of an example can be shown.
_EXAMPLE_TOKENS = 32
#: Tokens up to which a user's text can be shown.
_TEXT_TOKENS = 120


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


@frozen
class Sample:
    """Examples of a split, or the reason why there are none."""

    split: str
    examples: tuple[Example, ...] = ()
    #: How many examples the split has.
    split_size: int = 0
    problem: str = ""


@frozen
class Input:
    """A text, or a pair of texts, and what each model made of it."""

    text: Text
    #: The gold label, if it is known.
    gold: str | None
    #: By model: the prediction with its steps, or the reason why there is none.
    inspections: tuple[Inspection | str, ...]
    #: By sequence: the gold tree, if the task has one.
    gold_trees: tuple[Sentence | None, ...]

    @property
    def wrong(self) -> bool:
        """Whether any model predicts another label than the gold one."""
        labels = (inspection.label for inspection in self.inspections if isinstance(inspection, Inspection))
        return self.gold is not None and any(label != self.gold for label in labels)


@frozen
class Report:
    """What is known of some runs of one task."""

    task: str
    variants: tuple[Variant, ...]
    #: One for each variant.
    models: tuple[VariantModel, ...]
    #: The examples that every model has predicted.
    sample: Sample
    #: Inputs shown with trees and steps: texts of the user's, and examples of the sample.
    texts: tuple[Input, ...]
    examples: tuple[Input, ...]
    #: Notes on runs that are incomplete or were left out.
    remarks: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of the variants."""
        return [variant.name for variant in self.variants]

    @property
    def sample_text(self) -> str:
        """What the sample is, as a sentence."""
        count, size = len(self.sample.examples), self.sample.split_size
        some = f"{count:,} of the {size:,} examples" if count < size else f"All {size:,} examples"
        several = any(variant.seeds > 1 for variant in self.variants)
        return f"{some} of {self.sample.split}." + (
            " Of several seeds, the first is used." if several else ""
        )


def collect_report(
    runs: Sequence[str],
    catalog: Catalog,
    progress: Progress,
    *,
    split: str | None = None,
    examples: int = 400,
    trees: int = 6,
    texts: Sequence[str] = (),
    sets: Sequence[str] = (),
) -> Report:
    """Read runs, load their models and predict.

    :param runs: run directories, or names of installed models.
    :param split: where the examples come from; by default the task's last split.
    :param examples: how many examples of the split every model predicts.
    :param trees: how many of them are shown with trees and steps.
    :param texts: texts of the user's to show as well.
    :param sets: settings of the task, as ``--set`` takes them: where its data is now, for instance.
    """
    records = read_runs(runs, catalog)
    check_one_task(records)
    found, remarks = variants(records)
    remarks += [f"{record.no_results}." for record in records if record.no_results]
    models = [load_model(variant, catalog, sets) for variant in found]
    remarks += [
        f"{variant.name}: predictions and trees are those of {best_run(variant).name}, the best of "
        f"{variant.seeds} seeds on the development split."
        for variant in found
        if variant.seeds > 1
    ]
    check_classes(models)
    first = next((model.trained for model in models if model.trained is not None), None)
    if first is None:
        if texts:
            raise CrvnnError(f"there is no model to predict a text. {models[0].problem}")
        sample, inspected, shown = Sample("", problem=models[0].problem), [], []
    else:
        # Before the predictions, which take long: a text may be refused.
        inspected = [inspect_input(text, None, models) for text in check_texts(texts, first)]
        sample, models = _predicted(models, first, progress, split, examples)
        shown = _shown_examples(models, first, sample, trees)
    return Report(
        task=records[0].task,
        variants=tuple(found),
        models=tuple(models),
        sample=sample,
        texts=tuple(inspected),
        examples=tuple(shown),
        remarks=tuple(remarks),
    )


def _predicted(
    models: Sequence[VariantModel], first: Trained, progress: Progress, split: str | None, most: int
) -> tuple[Sample, list[VariantModel]]:
    """A sample of a split, and the models with their predictions for it."""
    sample = draw_sample(first, split, most) if most else Sample("", problem="No examples were requested.")
    found = []
    for model in models:
        with progress(len(sample.examples), f"predicting with {model.variant.name}") as done:
            found.append(evolve(model, predictions=predict(model, sample.examples, done)))
    return sample, found


def _shown_examples(models: Sequence[VariantModel], first: Trained, sample: Sample, most: int) -> list[Input]:
    chosen = [sample.examples[index] for index in choose_examples(first, sample.examples, models, most)]
    texts = [(as_typed(example, first.task), first.task.classes[example.label]) for example in chosen]
    return [inspect_input(text, label, models) for text, label in texts if text is not None]


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
            one, other = (", ".join(each[:6]) + " ..." * (len(each) > 6) for each in (expected, classes))
            raise InputError(
                f"the classes of {first} are {one}, those of {name} {other}: they were trained on different data"
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


def draw_sample(trained: Trained, split: str | None, most: int) -> Sample:
    """At most ``most`` examples, spread evenly over a split (by default the task's last one).

    Missing data is a reason in ``Sample.problem``; a split that the task does not have is an error.
    """
    try:
        name = split or trained.task.splits[-1]
        examples = trained.examples(name)
    except UnknownNameError:
        raise
    except CrvnnError as error:
        return Sample(split or "", problem=str(error))
    if len(examples) <= most:
        return Sample(name, tuple(examples), len(examples))
    chosen = tuple(examples[place * len(examples) // most] for place in range(most))
    return Sample(name, chosen, len(examples))


def choose_examples(
    trained: Trained, examples: Sequence[Example], models: Sequence[VariantModel], most: int
) -> list[int]:
    """Indices of examples to show, of various lengths; up to half of them such that a model is wrong."""
    short = [
        index
        for index, example in enumerate(examples)
        if all(2 < len(sequence) <= _EXAMPLE_TOKENS for sequence in example.sequences)
        and as_typed(example, trained.task) is not None
    ]
    short.sort(key=lambda index: example_length(examples[index]))
    predictions = [model.predictions for model in models if model.predictions]
    wrong = [index for index in short if not all(one[index].correct for one in predictions)]
    correct = [index for index in short if all(one[index].correct for one in predictions)]
    half = _spread(wrong, examples, most // 2)
    return _spread(correct, examples, most - len(half)) + half


def _spread(indices: Sequence[int], examples: Sequence[Example], most: int) -> list[int]:
    """At most ``most`` of the indices, ordered by length, of evenly spread lengths and different sequences."""
    different = list({examples[index].sequences: index for index in reversed(indices)}.values())[::-1]
    if len(different) <= most:
        return different
    lengths = {index: example_length(examples[index]) for index in different}
    shortest, longest = lengths[different[0]], lengths[different[-1]]
    chosen: list[int] = []
    for place in range(most):
        wanted = shortest + (place + 0.5) / most * (longest - shortest)
        left = [index for index in different if index not in chosen]
        chosen.append(min(left, key=lambda index: abs(lengths[index] - wanted)))
    return sorted(chosen, key=different.index)


def check_texts(texts: Sequence[str], trained: Trained) -> list[Text]:
    """A user's texts, two by two for a task on pairs; one that is too long to be shown is an error."""
    found = pair_texts(texts, trained.task)
    for number, text in enumerate(found):
        longest = max(map(len, trained.example(text, number).sequences))
        if longest > _TEXT_TOKENS:
            raise InputError(
                f"text {number + 1} has {longest:,} tokens; a report shows texts of up to {_TEXT_TOKENS}"
            )
    return found


def inspect_input(text: Text, gold: str | None, models: Sequence[VariantModel]) -> Input:
    """What each model makes of an input.

    :param gold: the label of an example; that of a user's text is computed, where the task can.
    :param models: at least one of them loaded.
    """
    trained = next(model.trained for model in models if model.trained is not None)
    known = read_gold(trained, text)
    label = known.label if gold is None else gold
    return Input(text, label, tuple(_inspection(model, text) for model in models), known.sentences)


def _inspection(model: VariantModel, text: Text) -> Inspection | str:
    if model.trained is None:
        return model.problem
    try:
        return inspect(model.trained, text)
    except InputError as error:  # the weights of this model may have overflowed
        return str(error)
