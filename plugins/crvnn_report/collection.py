"""Everything that a report shows, put together before a word of it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from attrs import evolve, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.host.manager import Catalog
from crvnn_core.runs.records import Variant, check_one_task, read_runs, variants
from crvnn_report.curves import Curve, read_curves
from crvnn_report.examination import (
    Look,
    Sample,
    Shown,
    check_classes,
    load_first,
    look_at,
    questions,
    sample,
    show,
    text_of,
    worth_showing,
)

#: A progress bar: told how many there are and what is done, it gives a function to be told of progress.
Counting = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]


@frozen
class Report:
    """What is known of some runs of one task."""

    task: str
    variants: tuple[Variant, ...]
    #: By run, then by measure.
    curves: dict[str, dict[str, Curve]]
    looks: tuple[Look, ...]
    sample: Sample
    #: Texts of the user's, then examples of the split.
    texts: tuple[Shown, ...]
    examples: tuple[Shown, ...]
    remarks: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Of the variants."""
        return [variant.name for variant in self.variants]


def gather(
    runs: Sequence[str],
    catalog: Catalog,
    counting: Counting,
    *,
    split: str | None = None,
    examples: int = 400,
    trees: int = 6,
    texts: Sequence[str] = (),
    sets: Sequence[str] = (),
) -> Report:
    """Read runs, and ask their models.

    :param examples: of the split that every model is asked about.
    :param trees: of them that are shown.
    :param sets: settings of the task: where its data is now, say.
    """
    records = read_runs(runs, catalog)
    check_one_task(records)
    found, remarks = variants(records)
    remarks += [f"{record.lacking}." for record in records if record.lacking]
    curves = {record.name: read_curves(record) for record in records}
    looks = [load_first(variant, catalog, sets) for variant in found]
    check_classes(looks)
    told = _texts(texts, looks)  # first: a text that cannot be shown should not be waited for
    drawn, looks, shown = _asked(looks, counting, split, examples, trees)
    return Report(
        records[0].task,
        tuple(found),
        curves,
        tuple(looks),
        drawn,
        tuple(told),
        tuple(shown),
        tuple(remarks),
    )


def _asked(
    looks: Sequence[Look], counting: Counting, split: str | None, most: int, trees: int
) -> tuple[Sample, list[Look], list[Shown]]:
    """Examples of a split, what each model says of them, and those to show."""
    first = next((look.trained for look in looks if look.trained is not None), None)
    if first is None:
        return Sample("", problem=looks[0].problem), list(looks), []
    drawn = sample(first, split, most) if most else Sample("", problem="No examples were asked for.")
    asked = []
    for look in looks:
        with counting(len(drawn.examples), f"asking {look.variant.name}") as done:
            asked.append(evolve(look, seen=look_at(look, drawn.examples, done)))
    shown = []
    for number in worth_showing(first, drawn.examples, asked, trees):
        text = text_of(first, drawn.examples[number])
        if text is not None:
            shown.append(show(text, first.task.classes[drawn.examples[number].label], asked))
    return drawn, asked, shown


def _texts(texts: Sequence[str], looks: Sequence[Look]) -> list[Shown]:
    first = next((look.trained for look in looks if look.trained is not None), None)
    if texts and first is None:
        raise CrvnnError(f"there is no model to ask about a text. {looks[0].problem}")
    return [show(text, None, looks) for text in questions(texts, first)] if first is not None else []
