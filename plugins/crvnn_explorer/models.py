"""The models behind the page: loaded once, varied on request, asked one question at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar

from attrs import define, field

from crvnn_core import Catalog, CrvnnError, InputError, Recursion, Trained, load
from crvnn_core.errors import UnknownNameError, nearest
from crvnn_core.inference.exchange import EXCHANGEABLE, variant
from crvnn_core.inference.inspection import Answer, neighbours, watch
from crvnn_core.training.data import split_examples
from crvnn_explorer.choices import choices
from crvnn_explorer.request import Asked

#: Tokens of a sequence at most: who is left of whom is n x n numbers at every step.
MOST_TOKENS = 200
#: Steps of a recursion at most; without extra steps no text needs more than its tokens.
MOST_STEPS = 2 * MOST_TOKENS
_SAMPLE, _SHORT = 300, 24  # examples that are looked at for some to show, and their tokens at most
_TELLING = 7  # tokens from which on an example is worth to be shown first
_KEPT = 24  # variants, and answers
_FAINT = 0.005  # neighbours of less weight are not shown

K = TypeVar("K")
V = TypeVar("V")


@define(eq=False)
class Explorer:
    """Trained models by the name under which the user gave them."""

    runs: dict[str, Trained]
    catalog: Catalog
    _variants: dict[Any, Trained] = field(factory=dict, init=False)
    _answers: dict[Asked, Answer] = field(factory=dict, init=False)
    _examples: dict[str, list[dict[str, Any]]] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)  # one question at a time

    @classmethod
    def load(cls, runs: Iterable[str], catalog: Catalog) -> Explorer:
        """The models in these run directories, or installed under these names."""
        return cls({run: load(run, catalog) for run in runs}, catalog)

    def describe(self) -> dict[str, Any]:
        """Everything that the page offers."""
        with self._lock:
            return {
                "limit": MOST_TOKENS,
                "models": [self._model(name, trained) for name, trained in self.runs.items()],
                "parts": {slot: choices(self.catalog, slot) for slot in EXCHANGEABLE},
            }

    def _model(self, name: str, trained: Trained) -> dict[str, Any]:
        model = trained.spec.model
        wanted = self.catalog.find("encoder", model.encoder.name).component.parameters()
        slots = [slot for slot in EXCHANGEABLE if slot in wanted]
        return {
            "name": name,
            "task": trained.spec.task.name,
            "arity": trained.task.arity,
            "classes": list(trained.task.classes),
            "hard": isinstance(trained.model.encoder, Recursion),
            "parts": {
                slot: {"name": getattr(model, slot).name, "params": dict(getattr(model, slot).params)}
                for slot in (*slots, "encoder")
            },
            "encoder": next(
                choice for choice in choices(self.catalog, "encoder") if choice["name"] == model.encoder.name
            ),
        }

    def watch(self, asked: Asked) -> dict[str, Any]:
        """What the model answers, and every step on the way."""
        with self._lock:
            return self._answer(asked).plain()

    def neighbours(self, asked: Asked, sequence: int, step: int) -> dict[str, Any]:
        """Who is left and right of whom before a step: for each token pairs of a neighbour and its weight."""
        with self._lock:
            watched = self._answer(asked).sequences
            if not 0 <= sequence < len(watched) or not 0 <= step < len(watched[sequence].exists):
                raise InputError(f"there is no step {step} of sequence {sequence}")
            exists = watched[sequence].exists[step]
            left, right = neighbours(self._variant(asked), exists, hard=asked.hard)
        return {"left": [_strong(row) for row in left], "right": [_strong(row) for row in right]}

    def example(self, name: str, number: int) -> dict[str, Any]:
        """A short example of the task's, and its label; none where the task's data is not at hand."""
        with self._lock:
            trained = self._find(name)
            if name not in self._examples:
                self._examples[name] = _examples(trained)
        found = self._examples[name]
        return found[number % len(found)] if found else {"texts": None, "label": None}

    def _find(self, name: str) -> Trained:
        if name not in self.runs:
            raise UnknownNameError(
                f"no run '{name}' is explored here.{nearest(name, self.runs)} There are: {', '.join(self.runs)}."
            )
        return self.runs[name]

    def _variant(self, asked: Asked) -> Trained:
        key = (asked.model, asked.parts, asked.sets)
        if key not in self._variants:
            found = variant(self._find(asked.model), self.catalog, dict(asked.parts), asked.sets)
            _keep(self._variants, key, found)
        return self._variants[key]

    def _answer(self, asked: Asked) -> Answer:
        if asked not in self._answers:
            trained = self._variant(asked)
            text = _checked(trained, asked.texts)
            _keep(self._answers, asked, watch(trained, text, hard=asked.hard))
        return self._answers[asked]


def _checked(trained: Trained, texts: tuple[str, ...]) -> str | tuple[str, str]:
    """The texts as a question; an error if there are not as many as needed, or too long ones."""
    arity = trained.task.arity
    if len(texts) != arity:
        wanted = "one text" if arity == 1 else "two texts"
        raise InputError(f"the task '{trained.spec.task.name}' asks for {wanted}, not for {len(texts)}")
    for number, text in enumerate(texts):
        if not text.strip():
            which = ("first ", "second ")[number] if arity == 2 else ""
            raise InputError(f"the {which}text is empty: type something to see what the model makes of it")
    question = texts[0] if arity == 1 else (texts[0], texts[1])
    try:
        sequences = trained.question(question).sequences
    except InputError as error:
        raise InputError(str(error).removeprefix("text 1: ")) from None
    longest = max(map(len, sequences))
    if longest > MOST_TOKENS:
        raise InputError(
            f"the text has {longest:,} tokens; the explorer takes up to {MOST_TOKENS}. "
            "'crvnn predict' and 'crvnn parse' have no such limit."
        )
    encoder = trained.model.encoder
    if isinstance(encoder, Recursion) and (steps := encoder.budget(longest)) > MOST_STEPS:
        raise InputError(
            f"with these settings there may be {steps:,} steps; the explorer takes up to {MOST_STEPS}. "
            "Lower extra_steps or set max_steps."
        )
    return question


def _strong(weights: list[float]) -> list[tuple[int, float]]:
    return [(place, round(weight, 4)) for place, weight in enumerate(weights) if weight >= _FAINT]


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    """Keep a value, and no more than a few others: those that came first go first."""
    cache[key] = value
    while len(cache) > _KEPT:
        del cache[next(iter(cache))]


def _examples(trained: Trained) -> list[dict[str, Any]]:
    """Short examples that a text can stand for, of the task's last split."""
    task = trained.task
    try:
        rows = list(islice(split_examples(task, task.splits[-1], 0), _SAMPLE))
    except (CrvnnError, OSError):  # the data need not be here
        return []
    found = []
    for row in rows:
        texts = [" ".join(sequence) for sequence in row.sequences]
        lengths = [len(sequence) for sequence in row.sequences]
        if max(lengths) <= _SHORT and min(lengths) > 1 and _stands_for(trained, texts, row.sequences):
            found.append({"texts": texts, "label": str(task.classes[row.label])})
    return sorted(found, key=lambda example: max(len(text.split()) for text in example["texts"]) < _TELLING)


def _stands_for(trained: Trained, texts: list[str], sequences: tuple[tuple[str, ...], ...]) -> bool:
    try:
        return tuple(tuple(trained.task.tokenize(text)) for text in texts) == sequences
    except CrvnnError:
        return False
