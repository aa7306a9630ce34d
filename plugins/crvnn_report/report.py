"""The data of a report: everything that its sections show, collected before the page is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from attrs import evolve, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.runs import read_runs
from crvnn_core.inference.predictions import as_typed
from crvnn_core.inference.trained import Trained
from crvnn_core.runs.records import Variant, check_one_task, variants
from crvnn_report.models import (
    Input,
    Sample,
    VariantModel,
    best_run,
    check_classes,
    check_texts,
    choose_examples,
    draw_sample,
    inspect_input,
    load_model,
    predict,
)

#: Opens a progress bar of a length and a label; the function it gives advances the bar.
Progress = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]


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
