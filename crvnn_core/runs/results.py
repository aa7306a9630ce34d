"""Results of an evaluation: scores in all, by group, by class and over seeds, the confusion matrix, CSV files."""

from __future__ import annotations

import io
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, fields, frozen

from crvnn_core.display.tables import write_csv
from crvnn_core.errors import InputError
from crvnn_core.files import write_atomically
from crvnn_core.views import make_frame

if TYPE_CHECKING:
    import pandas

_MOST_CLASSES = 20  # of a confusion matrix that is drawn in a notebook


@frozen
class ClassScore:
    """How well one class is recognised."""

    name: str
    #: The examples of this class.
    support: int
    #: The examples for which it is predicted.
    predicted: int
    #: ``None`` of a class that is never predicted.
    precision: float | None
    #: ``None`` of a class without examples.
    recall: float | None
    #: ``None`` of a class that has no examples and is never predicted.
    f1: float | None


@frozen
class Classification:
    """A confusion matrix, and what follows from it."""

    classes: tuple[str, ...]
    #: The number of examples by the indices of their gold class and of the predicted one, where there are any.
    counts: Mapping[tuple[int, int], int] = field(repr=False)

    @classmethod
    def count(cls, classes: Sequence[str], gold: Iterable[int], predicted: Iterable[int]) -> Classification:
        """Count the gold and predicted classes of examples, given by their indices."""
        return cls(tuple(map(str, classes)), Counter(zip(gold, predicted, strict=True)))

    def __add__(self, other: Classification) -> Classification:
        """The examples of both."""
        if self.classes != other.classes:
            raise InputError("the classes differ")
        return Classification(self.classes, Counter(self.counts) + Counter(other.counts))

    @property
    def confusion(self) -> list[list[int]]:
        """The confusion matrix: a row for each gold class, a column for each predicted one."""
        numbers = range(len(self.classes))
        return [[self.counts.get((gold, predicted), 0) for predicted in numbers] for gold in numbers]

    @property
    def scores(self) -> tuple[ClassScore, ...]:
        """Precision, recall and F1 of each class."""
        support: Counter[int] = Counter()
        predicted: Counter[int] = Counter()
        for (wanted, found), count in self.counts.items():
            support[wanted] += count
            predicted[found] += count
        scores = []
        for place, name in enumerate(self.classes):
            right, gold, given = self.counts.get((place, place), 0), support[place], predicted[place]
            precision = right / given if given else None
            recall = right / gold if gold else None
            f1 = 2 * right / (gold + given) if gold or given else None
            scores.append(ClassScore(name, gold, given, precision, recall, f1))
        return tuple(scores)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that have examples or are predicted."""
        found = [score.f1 for score in self.scores if score.f1 is not None]
        return sum(found) / len(found)

    @property
    def absent(self) -> tuple[str, ...]:
        """Classes without examples."""
        return tuple(score.name for score in self.scores if not score.support)

    @property
    def never_predicted(self) -> tuple[str, ...]:
        """Classes that have examples and are never predicted."""
        return tuple(score.name for score in self.scores if score.support and not score.predicted)

    def confusions(self) -> list[tuple[int, str, str]]:
        """The number of examples, the gold class and another one that is predicted, most frequent first."""
        wrong = {pair: count for pair, count in self.counts.items() if pair[0] != pair[1]}
        order = sorted(wrong, key=lambda pair: (-wrong[pair], pair))
        return [(wrong[pair], self.classes[pair[0]], self.classes[pair[1]]) for pair in order]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        scores = [asdict(score) for score in self.scores]
        return {
            "macro_f1": self.macro_f1,
            "classes": {score.pop("name"): score for score in scores},
            "confusion": {"classes": list(self.classes), "counts": self.confusion},
        }


@frozen
class Score:
    """Means over a number of examples."""

    examples: int
    accuracy: float
    loss: float
    depth: float  # mean recursion steps

    def metrics(self) -> dict[str, float]:
        """Loss, accuracy and depth by name, as observers get them."""
        return {"loss": self.loss, "accuracy": self.accuracy, "depth": self.depth}


@frozen
class Result:
    """Scores of a split: in all, and of each group that ``Task.bucket`` names."""

    total: Score
    buckets: dict[str, Score]
    #: The confusion matrix with precision, recall and F1 of each class; ``None`` where only scores were kept.
    classification: Classification | None = field(default=None, repr=False, eq=False)

    def plain(self) -> dict[str, Any]:
        """The scores for JSON, which has no NaN: ``None`` in place of a number that is not finite."""
        return asdict(
            self,
            filter=lambda attribute, _: attribute.name != "classification",
            value_serializer=lambda _, __, value: finite(value),
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for all examples, and one for each group."""
        return make_frame({"group": group, **asdict(score)} for group, score in self.groups())

    def groups(self) -> Iterator[tuple[str, Score]]:
        """The score of all examples, and of each group."""
        yield "all", self.total
        yield from self.buckets.items()

    def _repr_html_(self) -> str:
        from crvnn_core.display.notebook import page

        return page(Results({"": self}).table(), *_classification(self.classification))


class Results(dict[str, Result]):
    """The scores of a model by split, such as ``dev`` and ``test``."""

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each split and group."""
        rows = (
            {"split": split, "group": group, **asdict(score)}
            for split, result in self.items()
            for group, score in result.groups()
        )
        return make_frame(rows, None if self else ("split", "group"))

    def _repr_html_(self) -> str:
        from crvnn_core.display.notebook import line, page

        return page(self.table() if self else line("no results are known", "muted"))

    def table(self) -> str:
        """The scores as a table in HTML."""
        from crvnn_core.display.notebook import number, table

        names = [attribute.name for attribute in fields(Score)]
        rows = [
            (split, group, *(number(name, value) for name, value in asdict(score).items()))
            for split, result in self.items()
            for group, score in result.groups()
        ]
        columns = ("split", "group", *names)
        first = 0 if any(self) else 1  # a result that is drawn alone has no split
        numbers = range(2 - first, len(columns) - first)
        return table(columns[first:], [row[first:] for row in rows], right=numbers)


def _classification(found: Classification | None) -> Iterable[str]:
    """Scores of the classes, and the confusion matrix; nothing of more classes than fit on a page."""
    from crvnn_core.display.notebook import line, number, shade, table

    if found is None or len(found.classes) > _MOST_CLASSES:
        return
    measures = ("support", "precision", "recall", "f1")
    rows = [(each.name, *(number(key, getattr(each, key)) for key in measures)) for each in found.scores]
    yield line(f"macro F1 {found.macro_f1:.1%}")
    yield table(("class", *measures), rows, right=range(1, 5))
    yield line("true class (rows), predicted class (columns)", "muted")
    matrix = [
        (name, *(shade(f"{count:,}" if count else "", count / (sum(counts) or 1)) for count in counts))
        for name, counts in zip(found.classes, found.confusion, strict=True)
    ]
    yield table(("", *found.classes), matrix, right=range(1, len(found.classes) + 1))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, median, minimum and standard deviation (of a sample)."""
    return {
        "mean": statistics.mean(values),
        "median": statistics.median(values),
        "min": min(values),
        "std": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


@frozen
class SeedResults:
    """The results of several seeds on the same examples, by seed."""

    results: Mapping[int | None, Result]

    def spread(self, value: Callable[[Result], float | None]) -> dict[str, float] | None:
        """Mean, median, minimum and standard deviation of a value over the seeds that have it; ``None`` if none has."""
        found = [each for result in self.results.values() if (each := value(result)) is not None]
        return spread(found) if found else None

    def group(self, name: str, metric: str) -> dict[str, float] | None:
        """The spread of a metric on a group of the examples; on all of them if ``name`` is empty."""
        return self.spread(
            lambda result: getattr(result.buckets.get(name) if name else result.total, metric, None)
        )

    def of_class(self, place: int, metric: str) -> dict[str, float] | None:
        """The spread of precision, recall or F1 of a class, given by its index."""
        return self.spread(lambda result: getattr(_classified(result).scores[place], metric))

    def plain(self) -> dict[str, Any]:
        """For JSON: what ``crvnn eval`` has for one run, with the spread over seeds in place of a number."""
        first = next(iter(self.results.values()))

        def group(name: str, score: Score) -> dict[str, Any]:
            metrics = ("accuracy", "loss", "depth")
            return {"examples": score.examples, **{metric: self.group(name, metric) for metric in metrics}}

        def of_class(place: int, score: ClassScore) -> dict[str, Any]:
            metrics = ("precision", "recall", "f1")
            return {"support": score.support, **{metric: self.of_class(place, metric) for metric in metrics}}

        scores = _classified(first).scores
        return {
            "total": group("", first.total),
            "buckets": {name: group(name, score) for name, score in first.buckets.items()},
            "macro_f1": self.spread(lambda result: _classified(result).macro_f1),
            "classes": {score.name: of_class(place, score) for place, score in enumerate(scores)},
            "seeds": {str(seed): plain_result(result) for seed, result in self.results.items()},
        }


def plain_result(result: Result) -> dict[str, Any]:
    """A result for JSON: scores in all and by group, macro F1, the scores of each class, the confusion matrix."""
    return {**result.plain(), **_classified(result).plain()}


def _classified(result: Result) -> Classification:
    assert result.classification is not None  # of an evaluation, not read from a file
    return result.classification


def natural_order(name: str) -> tuple[int, str]:
    """A sort key for the names of groups: "9-12" comes before "13-20", and names without a number come first."""
    start = re.match(r"\d+", name)
    return (int(start[0]) if start else -1, name)


def finite(value: Any) -> Any:
    """The value, or ``None`` for NaN and infinity, which JSON cannot represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


#: A run, the data it was evaluated on, and ``soft`` or ``hard`` decisions.
Key = tuple[str, str, str]


def check_suffix(path: Path) -> None:
    """An error unless tables can be written to a file of this name."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: tables are written to files that end in .csv")


def write_tables(path: Path, results: Mapping[Key, Result]) -> list[Path]:
    """Write three tables, and return their paths: ``x.csv``, ``x-classes.csv`` and ``x-confusion.csv``."""
    check_suffix(path)
    groups: list[dict[str, Any]] = []
    classes: list[dict[str, Any]] = []
    confusion: list[dict[str, Any]] = []
    for key, result in results.items():
        place: dict[str, Any] = dict(zip(("run", "data", "decisions"), key, strict=True))
        found = result.classification
        for group, score in result.groups():
            macro = found.macro_f1 if found and group == "all" else ""
            groups.append({**place, "group": group, **asdict(score), "macro_f1": macro})
        if found is None:
            continue
        for each in found.scores:
            plain = asdict(each)
            classes.append({**place, "class": plain.pop("name"), **plain})
        for name, row in zip(found.classes, found.confusion, strict=True):
            predicted = {f"predicted {other}": count for other, count in zip(found.classes, row, strict=True)}
            confusion.append({**place, "gold": name, **predicted})
    tables = {"": groups, "-classes": classes, "-confusion": confusion}
    paths = [path.with_name(f"{path.stem}{ending}{path.suffix}") for ending in tables]
    for target, rows in zip(paths, tables.values(), strict=True):
        text = io.StringIO()
        write_csv(text, list(rows[0]), rows)
        write_atomically(target, text.getvalue())
    return paths
