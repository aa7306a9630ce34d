"""What ``crvnn predict`` reads and writes: rows of texts, and a model's answers to them in files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from crvnn_core.display.tables import write_csv
from crvnn_core.errors import InputError
from crvnn_core.files import replacing, write_atomically
from crvnn_core.inference.predictions import Prediction, as_text
from crvnn_core.inference.trained import Trained
from crvnn_core.interfaces import Example, InputRow, Task
from crvnn_core.trees import Tree
from crvnn_core.trees.extraction import describe_conflicts
from crvnn_core.trees.formats import ONE_LINE

#: The most tokens of a text whose tree is shown: longer trees take minutes and cannot be read.
MOST_TOKENS = 5000
_SHOWN = 10  # malformed rows that are named
_OPTIONAL = ("line", "gold")  # left out where unknown


@frozen
class Answer:
    """A row, and what a model says about it."""

    row: InputRow
    prediction: Prediction
    #: How each tree agrees with the gold tree, in words, empty where there is none; nothing if no trees were asked for.
    agreement: tuple[str, ...] = ()

    @property
    def trees(self) -> list[tuple[Tree, frozenset[int]]]:
        """Each tree, with the positions of the tokens that the model does not know."""
        return [
            (tree, frozenset(i for i, token in enumerate(tree.tokens) if token in self.prediction.unknown))
            for tree in self.prediction.trees
            if tree is not None
        ]

    @property
    def verdict(self) -> str:
        """Whether the label is the true one; empty if that is not known."""
        if not self.row.gold:
            return ""
        right = self.prediction.label == self.row.gold
        return "correct" if right else f"wrong, true label {self.row.gold}"

    @property
    def agreements(self) -> str:
        """How the trees agree with the gold ones, in a line; empty where there are none."""
        numbered = len(self.agreement) > 1
        texts = (
            (f"Tree {i}: " if numbered else "") + text for i, text in enumerate(self.agreement, 1) if text
        )
        return " ".join(texts)

    @property
    def conflicts(self) -> str:
        """The conflicts of the trees in words; empty if there are none."""
        return " ".join(filter(None, (describe_conflicts(tree) for tree, _ in self.trees)))

    def written(self, form: str) -> list[str]:
        """Each tree in one of the ``FORMATS``."""
        return [tree.to(form, unknown=unknown).rstrip("\n") for tree, unknown in self.trees]

    def plain(self) -> dict[str, Any]:
        """For JSON: the row's line and other columns, the prediction, and the true label, if it is known.

        A column of the row that has the name of one of these gets the prefix ``input_``.
        """
        correct = self.prediction.label == self.row.gold
        judged = {"gold": self.row.gold, "correct": correct} if self.row.gold else {}
        own = {"line": self.row.line, **judged, **self.prediction.plain()}
        return {
            name: value for name, value in self._with_columns(own).items() if value or name not in _OPTIONAL
        }

    def plain_trees(self) -> dict[str, Any]:
        """For JSON: the trees in detail."""
        trees = [
            {
                "brackets": str(tree),
                **tree.plain(),
                "unknown": sorted(unknown),
                "conflicts": describe_conflicts(tree),
            }
            for tree, unknown in self.trees
        ]
        return {"trees": trees, **({"agreement": list(self.agreement)} if any(self.agreement) else {})}

    def table_row(self, trees: bool) -> dict[str, Any]:
        """A row of a CSV file: the probability of each class has a column of its own."""
        answer = {
            name: f"{value:.6f}" if isinstance(value, float) else value or ""
            for name, value in self.prediction.row().items()
            if trees or not name.startswith("tree")
        }
        own = {"line": self.row.line, "gold": self.row.gold, **answer}
        return {
            name: value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)
            for name, value in self._with_columns(own).items()
        }

    def _with_columns(self, own: dict[str, Any]) -> dict[str, Any]:
        columns = self.row.columns.items()
        others = {f"input_{name}" if name in own else name: value for name, value in columns}
        return {"line": own["line"], **others, **own}


def check_lengths(rows: Sequence[InputRow]) -> None:
    """An error if the tree of a row would be very large."""
    for number, row in enumerate(rows, 1):
        longest = max(map(len, row.sequences))
        if longest > MOST_TOKENS:
            raise InputError(f"text {number} has {longest:,} tokens; up to {MOST_TOKENS:,} can be parsed")


def answer(trained: Trained, row: InputRow, prediction: Prediction, *, trees: bool) -> Answer:
    """A model's answer to a row.

    :param trees: compare the trees with the gold ones; an error if there are none.
    """
    agreements: tuple[str, ...] = ()
    if trees:
        from crvnn_core.inference.inspection import agreement, read_gold

        gold = read_gold(trained, Example(row.sequences, 0)).sentences
        agreements = tuple(map(agreement, trained.whole_trees(prediction), gold))
    return Answer(row, evolve(prediction, text=as_text(row.texts)), agreements)


def read_lines(lines: Iterable[str], task: Task, name: str) -> list[InputRow]:
    """The lines of a file, each of them a text; the two of a pair have a tab between them.

    :param lines: an open file, say.
    :param name: of the file, for error messages.
    """
    try:
        rows = [line.rstrip("\r\n") for line in lines]
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: this is not UTF-8 text: {error}") from None
    return [_row(number, row, task) for number, row in enumerate(rows, 1)]


def _row(number: int, line: str, task: Task) -> InputRow:
    if not line.strip():
        return InputRow(number, fault="the line is empty")
    texts = tuple(line.split("\t", 1)) if task.arity == 2 else (line,)
    if len(texts) != task.arity or not all(text.strip() for text in texts):
        return InputRow(number, fault="expected two texts with a tab between them")
    try:
        sequences = tuple(tuple(task.tokenize(text)) for text in texts)
    except InputError as error:
        return InputRow(number, fault=str(error))
    if not all(sequences):
        return InputRow(number, fault="there are no tokens in the text")
    return InputRow(number, texts, sequences)


def well_formed(rows: Sequence[InputRow], name: str, *, skip: bool = False) -> tuple[list[InputRow], str]:
    """The rows that can be predicted, and a message about the others.

    :param name: of the file.
    :param skip: leave out malformed rows; otherwise they are an ``InputError``.
    """
    faults = [f"{name}:{row.line}: {row.fault}" for row in rows if row.fault]
    kept = [row for row in rows if not row.fault]
    more = f"\n... and {len(faults) - _SHOWN:,} more such rows" if len(faults) > _SHOWN else ""
    listed = "\n".join(faults[:_SHOWN]) + more
    if not rows:
        raise InputError(f"{name}: there are no texts in it")
    if faults and not skip:
        raise InputError(f"{listed}\n  --skip-bad-rows leaves such rows out.")
    if not kept:
        raise InputError(f"{listed}\n  There is no other row.")
    left_out = f"{name}: left out {len(faults):,} of {len(rows):,} rows:\n{listed}" if faults else ""
    return kept, left_out


def write_predictions(path: Path, answers: Sequence[Answer], *, trees: bool = False) -> None:
    """Write answers to a CSV file, or to a .jsonl, in order; it is replaced as a whole.

    :param trees: add the trees to a CSV file; JSON Lines always have them.
    """
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".jsonl":
            file.writelines(json.dumps(each.plain(), ensure_ascii=False) + "\n" for each in answers)
        else:
            table = [each.table_row(trees) for each in answers]
            names = dict.fromkeys(name for row in table for name in row)
            empty = {name for name in _OPTIONAL if not any(row[name] for row in table)}
            write_csv(file, [name for name in names if name not in empty], table)


def write_trees(trees: Sequence[str], path: Path, form: str) -> list[Path]:
    """Write trees to a file and return its path.

    Several trees in a format that is not ``ONE_LINE`` go to numbered files (``tree-1.svg``, ...), all of which are
    returned.
    """
    if form == "json" and path.suffix.lower() == ".json" and len(trees) > 1:
        files = {path: "[\n" + ",\n".join(trees) + "\n]"}  # a .json file holds one value
    elif len(trees) == 1 or form in ONE_LINE:
        files = {path: "\n".join(trees)}
    else:
        numbered = enumerate(trees, 1)
        files = {path.with_name(f"{path.stem}-{number}{path.suffix}"): tree for number, tree in numbered}
    for file, text in files.items():
        write_atomically(file, f"{text}\n")
    return list(files)
