"""Single inputs that a report shows in full: texts of the user's and examples of a split, with trees and steps."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from crvnn_core.errors import InputError
from crvnn_core.inference.inspection import Inspection, inspect
from crvnn_core.inference.parsing import read_gold
from crvnn_core.inference.texts import Text, pair_texts
from crvnn_core.inference.trained import Trained
from crvnn_core.trees.scoring import Sentence
from crvnn_report.models import VariantModel

#: Tokens up to which a user's text can be shown.
MOST_TOKENS = 120


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


def check_texts(texts: Sequence[str], trained: Trained) -> list[Text]:
    """A user's texts, two by two for a task on pairs; one that is too long to be shown is an error."""
    found = pair_texts(texts, trained.task)
    for number, text in enumerate(found):
        longest = max(map(len, trained.example(text, number).sequences))
        if longest > MOST_TOKENS:
            raise InputError(
                f"text {number + 1} has {longest:,} tokens; a report shows texts of up to {MOST_TOKENS}"
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
