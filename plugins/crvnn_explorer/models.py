"""The models behind the page: loaded once, their parts exchanged on request."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from itertools import islice
from typing import Any

from attrs import define, evolve, field

from crvnn_core import Catalog, CrvnnError, InputError, Trained
from crvnn_core.display.palette import RUNS
from crvnn_core.errors import UnknownNameError, nearest
from crvnn_core.host.slots import EXCHANGEABLE
from crvnn_core.inference.gold import read_gold
from crvnn_core.inference.inspection import Inspection, inspect, neighbours
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.inference.texts import Text
from crvnn_core.inference.trained import load
from crvnn_core.model.model import Model
from crvnn_core.spec import PartSpec
from crvnn_core.training.data import split_examples
from crvnn_explorer.cache import Cache
from crvnn_explorer.choices import choices, expect_offered
from crvnn_explorer.request import Query

#: Tokens of a sequence at most: the weights of neighbours are n x n numbers at every step.
MOST_TOKENS = 200
#: Steps of a recursion at most; without extra steps no text needs more than its tokens.
MOST_STEPS = 2 * MOST_TOKENS
#: The largest whole number of a setting, such as a window or a beam: time and memory grow with them.
MOST_WHOLE = MOST_STEPS
_SAMPLE, _SHORT = 300, 24  # examples that are read to find some to show, and their tokens at most
_LONG_ENOUGH = 7  # tokens: shorter examples are shown last, since they have little structure
_KEPT = 24  # models with exchanged parts, and inspections
_KEPT_NUMBERS = 1_000_000  # of all inspections together: about 32 MB
_FAINT = 0.005  # neighbours of less weight are not shown


@define(eq=False)
class Explorer:
    """Trained models by the name under which the user gave them. One query at a time: see ``twin``."""

    runs: dict[str, Trained]
    catalog: Catalog
    _inspections: Cache[Query, Inspection] = field(
        factory=lambda: Cache(_KEPT, _KEPT_NUMBERS, _numbers), kw_only=True
    )
    _examples: dict[str, list[dict[str, Any]]] = field(factory=dict, kw_only=True)
    _exchanged: Cache[Any, Trained] = field(factory=lambda: Cache(_KEPT), init=False)
    _description: dict[str, Any] | None = field(default=None, init=False)
    _lock: threading.RLock = field(factory=threading.RLock, init=False)

    @classmethod
    def load(cls, runs: Iterable[str], catalog: Catalog) -> Explorer:
        """The models in these run directories, or installed under these names."""
        return cls({run: load(run, catalog) for run in runs}, catalog)

    def twin(self) -> Explorer:
        """An explorer for another thread: with the same weights and results, but modules of its own.

        What a module keeps in its attributes during a forward pass is thus no other thread's.
        """
        try:
            runs = {
                name: evolve(trained, model=_copied(trained.model)) for name, trained in self.runs.items()
            }
        except Exception:  # a plug-in's module that cannot be copied: then the lock makes threads wait
            return self
        return Explorer(runs, self.catalog, inspections=self._inspections, examples=self._examples)

    def describe(self) -> dict[str, Any]:
        """Everything that the page offers."""
        with self._lock:
            if self._description is None:
                self._description = {
                    "limit": MOST_TOKENS,
                    "colours": RUNS,
                    "models": [self._model(name, trained) for name, trained in self.runs.items()],
                    "parts": {slot: choices(self.catalog, slot) for slot in EXCHANGEABLE},
                }
            return self._description

    def cost(self, query: Query) -> int:
        """What a query is estimated to cost, as the square of its tokens; 0 if its answer is known.

        An error if its texts cannot be taken. Parts and settings are not looked at: to exchange them takes longer than
        a small query.
        """
        if self._inspections.get(query) is not None:
            return 0
        with self._lock:
            return sum(length**2 for length in _checked_lengths(self._find(query.model), query.texts))

    def _model(self, name: str, trained: Trained) -> dict[str, Any]:
        model = trained.spec.model
        wanted = self.catalog.encoder_parts(part.name for part in model.encoder.nested())
        slots = [slot for slot in EXCHANGEABLE if slot in wanted]
        return {
            "name": name,
            "task": trained.spec.task.name,
            "arity": trained.task.arity,
            "classes": list(trained.task.classes),
            "hard": trained.model.encoder.hard_inference,
            "parts": {
                slot: {"name": getattr(model, slot).name, "params": _settings(getattr(model, slot))}
                for slot in (*slots, "encoder")
            },
            "encoder": next(
                choice for choice in choices(self.catalog, "encoder") if choice["name"] == model.encoder.name
            ),
        }

    def inspect(self, query: Query) -> dict[str, Any]:
        """The model's prediction, every step of its encoder, and what its task knows to be right; JSON-ready."""
        with self._lock:
            inspection = self._inspection(query)
            gold = read_gold(self._model_for(query), _question(query.texts))
        trees = [sequence.tree for sequence in inspection.sequences]
        return {**inspection.plain(), "gold": gold.plain(trees)}

    def neighbours(self, query: Query, sequence: int, step: int) -> dict[str, Any]:
        """The neighbours of each token before a step, as pairs (position, weight)."""
        with self._lock:
            inspected = self._inspection(query).sequences
            if not 0 <= sequence < len(inspected) or not 0 <= step < len(inspected[sequence].exists):
                raise InputError(f"there is no step {step} of sequence {sequence}")
            exists = inspected[sequence].exists[step]
            left, right = neighbours(self._model_for(query), exists, hard=query.hard)
        return {"left": [_strong(row) for row in left], "right": [_strong(row) for row in right]}

    def has_examples(self, name: str) -> bool:
        """Whether examples of a run have been read already, which may take a while."""
        self._find(name)
        return name in self._examples

    def example(self, name: str, number: int) -> dict[str, Any]:
        """A short example of the task and its label; none where the task's data is not on this machine."""
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

    def _model_for(self, query: Query) -> Trained:
        key = (query.model, query.parts, query.sets)
        found = self._exchanged.get(key)
        if found is not None:
            return found
        trained, parts = self._find(query.model), dict(query.parts)
        expect_offered(self.catalog, trained.spec.model, parts, query.settings)
        return self._exchanged.keep(key, exchange_parts(trained, self.catalog, parts, query.sets))

    def _inspection(self, query: Query) -> Inspection:
        found = self._inspections.get(query)
        if found is not None:
            return found
        trained = self._model_for(query)
        _expect_bounded(trained, query, max(_checked_lengths(trained, query.texts)))
        found = inspect(trained, _question(query.texts), hard=query.hard)
        return self._inspections.keep(query, found)


def _copied(model: Model) -> Model:
    """A model whose modules are copies; weights, vocabulary and data are shared."""
    shared = (*model.parameters(), *model.buffers(), model.vocabulary, model.tree_source)
    return copy.deepcopy(model, {id(each): each for each in shared})


def _numbers(inspection: Inspection) -> int:
    """How many numbers an inspection holds."""
    return sum(
        len(rows) * len(sequence.tokens)
        for sequence in inspection.sequences
        for rows in (sequence.exists, sequence.compose)
    )


def _settings(part: PartSpec) -> dict[str, Any]:
    """The settings of a component, without components inside it."""
    return {key: value for key, value in part.params.items() if not isinstance(value, PartSpec)}


def _question(texts: tuple[str, ...]) -> Text:
    """One text, or a pair of them."""
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


def _checked_lengths(trained: Trained, texts: tuple[str, ...]) -> list[int]:
    """How many tokens each text has; an error if the number of texts is wrong, or one is empty or too long."""
    arity = trained.task.arity
    if len(texts) != arity:
        wanted = "one text" if arity == 1 else "two texts"
        raise InputError(f"the task '{trained.spec.task.name}' asks for {wanted}, not for {len(texts)}")
    for number, text in enumerate(texts):
        if not text.strip():
            which = ("first ", "second ")[number] if arity == 2 else ""
            raise InputError(f"the {which}text is empty: type something to see what the model makes of it")
    try:
        lengths = [len(sequence) for sequence in trained.question(_question(texts)).sequences]
    except InputError as error:
        raise InputError(str(error).removeprefix("text 1: ")) from None
    longest = max(lengths)
    if longest > MOST_TOKENS:
        raise InputError(
            f"the text has {longest:,} tokens; the explorer takes up to {MOST_TOKENS}. "
            "'crvnn predict' has no such limit."
        )
    return lengths


def _expect_bounded(trained: Trained, query: Query, longest: int) -> None:
    """Refuse settings with which a text of so many tokens may take very long, or much memory."""
    steps = trained.model.encoder.step_limit(longest)
    if steps is not None and steps > MOST_STEPS:
        raise InputError(
            f"with these settings there may be {steps:,} steps; the explorer takes up to {MOST_STEPS}. "
            "Settings of the encoder, such as max_steps of 'crvnn', limit them."
        )
    for slot, key, value in query.settings:
        if isinstance(value, int) and abs(value) > MOST_WHOLE:
            raise InputError(
                f"{slot}.{key}: the explorer takes whole numbers up to {MOST_WHOLE}, not {value:,}"
            )


def _strong(weights: list[float]) -> list[tuple[int, float]]:
    return [(place, round(weight, 4)) for place, weight in enumerate(weights) if weight >= _FAINT]


def _examples(trained: Trained) -> list[dict[str, Any]]:
    """Short examples of the task's last split that can be typed as text."""
    task = trained.task
    try:
        rows = list(islice(split_examples(task, task.splits[-1], 0), _SAMPLE))
    except (CrvnnError, OSError):  # the data need not be here
        return []
    found = []
    for row in rows:
        texts = [" ".join(sequence) for sequence in row.sequences]
        lengths = [len(sequence) for sequence in row.sequences]
        if max(lengths) <= _SHORT and min(lengths) > 1 and _can_be_typed(trained, texts, row.sequences):
            found.append({"texts": texts, "label": str(task.classes[row.label])})
    return sorted(
        found, key=lambda example: max(len(text.split()) for text in example["texts"]) < _LONG_ENOUGH
    )


def _can_be_typed(trained: Trained, texts: list[str], sequences: tuple[tuple[str, ...], ...]) -> bool:
    try:
        return tuple(tuple(trained.task.tokenize(text)) for text in texts) == sequences
    except CrvnnError:
        return False
