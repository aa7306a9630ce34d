"""The models behind the page, loaded once, their parts exchanged on request, and what the page offers to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from inspect import Parameter
from itertools import islice
from typing import Any, Literal, get_args, get_origin

from attrs import define, evolve, field

from crvnn_core import Catalog, CrvnnError, InputError, Trained
from crvnn_core.annotations import bare, ranges
from crvnn_core.display.palette import RUNS
from crvnn_core.errors import UnknownNameError, nearest
from crvnn_core.host.catalog import Offer
from crvnn_core.host.slots import EXCHANGEABLE
from crvnn_core.inference.inspection import Inspection, inspect, neighbours, read_gold
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.inference.predictions import as_text, as_typed
from crvnn_core.inference.trained import load
from crvnn_core.spec import ModelSpec, PartSpec
from crvnn_core.spec.description import describe
from crvnn_core.spec.reader import settings_of
from crvnn_core.training.data import split_examples
from crvnn_explorer.request import Query

#: Tokens of a sequence at most: the weights of neighbours are n x n numbers at every step.
MOST_TOKENS = 200
#: Steps of a recursion at most; without extra steps no text needs more than its tokens.
MOST_STEPS = 2 * MOST_TOKENS
#: The largest integer of a setting, such as a window or a beam: time and memory grow with them.
MOST_WHOLE = MOST_STEPS
_SAMPLE, _SHORT = 300, 24  # examples that are read to find some to show, and their tokens at most
_LONG_ENOUGH = 7  # tokens: shorter examples are shown last, since they have little structure
_KEPT = 12  # models with exchanged parts, and inspections, which take up to 5 MB each
_FAINT = 0.005  # neighbours of less weight are not shown
_KINDS = {bool: "flag", int: "whole", float: "number", str: "text"}  # of controls


@define(eq=False, slots=False)
class Explorer:
    """Trained models by the name under which the user gave them. Several threads may use it."""

    runs: dict[str, Trained]
    catalog: Catalog
    #: The methods of these names with their latest results kept.
    _exchanged: Any = field(init=False)
    _inspected: Any = field(init=False)
    _examples: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._exchanged = lru_cache(_KEPT)(self._exchange)
        self._inspected = lru_cache(_KEPT)(self._inspect)
        self._examples = lru_cache(None)(self._read_examples)

    @classmethod
    def load(cls, runs: Iterable[str], catalog: Catalog) -> Explorer:
        """The models in these run directories, or installed under these names."""
        return cls({run: load(run, catalog) for run in runs}, catalog)

    @cached_property
    def description(self) -> dict[str, Any]:
        """Everything that the page offers."""
        return {
            "limit": MOST_TOKENS,
            "colours": RUNS,
            "models": [self._model(name, trained) for name, trained in self.runs.items()],
            "parts": {slot: _choices(self.catalog, slot) for slot in EXCHANGEABLE},
        }

    def inspect(self, query: Query) -> dict[str, Any]:
        """The model's prediction, every step of its encoder, and what its task knows to be right; JSON-ready."""
        inspection: Inspection = self._inspected(query)
        gold = read_gold(self._model_for(query), as_text(query.texts))
        return {**inspection.plain(), "gold": gold.plain([each.tree for each in inspection.sequences])}

    def neighbours(self, query: Query, sequence: int, step: int) -> dict[str, Any]:
        """The neighbours of each token before a step, as pairs (position, weight)."""
        inspected = self._inspected(query).sequences
        if sequence >= len(inspected) or step >= len(inspected[sequence].exists):
            raise InputError(f"there is no step {step} of sequence {sequence}")
        exists = inspected[sequence].exists[step]
        left, right = neighbours(self._model_for(query), exists, hard=query.hard)
        return {"left": [_strong(row) for row in left], "right": [_strong(row) for row in right]}

    def example(self, name: str, number: int) -> dict[str, Any]:
        """A short example of the task and its label; none where the task's data is not on this machine."""
        found = self._examples(name)
        return found[number % len(found)] if found else {"texts": None, "label": None}

    def _model(self, name: str, trained: Trained) -> dict[str, Any]:
        model = trained.spec.model
        wanted = self.catalog.encoder_parts(part.name for part in model.encoder.nested())
        slots = [*(slot for slot in EXCHANGEABLE if slot in wanted), "encoder"]
        parts: dict[str, PartSpec] = {slot: getattr(model, slot) for slot in slots}
        own = {
            slot: {key: value for key, value in part.params.items() if not isinstance(value, PartSpec)}
            for slot, part in parts.items()
        }
        return {
            "name": name,
            "task": trained.spec.task.name,
            "arity": trained.task.arity,
            "classes": list(trained.task.classes),
            "hard": trained.model.encoder.hard_inference,
            "parts": {slot: {"name": part.name, "params": own[slot]} for slot, part in parts.items()},
            "encoder": next(
                choice for choice in _choices(self.catalog, "encoder") if choice["name"] == model.encoder.name
            ),
        }

    def _find(self, name: str) -> Trained:
        if name not in self.runs:
            raise UnknownNameError(
                f"no run '{name}' is explored here.{nearest(name, self.runs)} There are: {', '.join(self.runs)}."
            )
        return self.runs[name]

    def _model_for(self, query: Query) -> Trained:
        exchanged: Trained = self._exchanged(evolve(query, texts=(), hard=False))
        return exchanged

    def _exchange(self, query: Query) -> Trained:
        trained, parts = self._find(query.model), dict(query.parts)
        _expect_offered(self.catalog, trained.spec.model, parts, query.settings)
        return exchange_parts(trained, self.catalog, parts, query.sets)

    def _inspect(self, query: Query) -> Inspection:
        longest = _checked_length(self._find(query.model), query.texts)
        trained = self._model_for(query)
        _expect_bounded(trained, query, longest)
        return inspect(trained, as_text(query.texts), hard=query.hard)

    def _read_examples(self, name: str) -> list[dict[str, Any]]:
        """Short examples of the task's last split that can be typed as text."""
        task = self._find(name).task
        try:
            rows = list(islice(split_examples(task, task.splits[-1], 0), _SAMPLE))
        except (CrvnnError, OSError):  # the data need not be here
            return []
        short = [row for row in rows if all(1 < len(sequence) <= _SHORT for sequence in row.sequences)]
        short.sort(key=lambda row: max(map(len, row.sequences)) < _LONG_ENOUGH)
        return [
            {"texts": [text] if isinstance(text, str) else text, "label": str(task.classes[row.label])}
            for row in short
            if (text := as_typed(row, task)) is not None
        ]


def _checked_length(trained: Trained, texts: tuple[str, ...]) -> int:
    """The tokens of the longest text; an error if the number of texts is wrong, or one is empty or too long."""
    arity = trained.task.arity
    if len(texts) != arity:
        wanted = "one text" if arity == 1 else "two texts"
        raise InputError(f"the task '{trained.spec.task.name}' asks for {wanted}, not for {len(texts)}")
    for number, text in enumerate(texts):
        if not text.strip():
            which = ("first ", "second ")[number] if arity == 2 else ""
            raise InputError(f"the {which}text is empty: type something to see what the model makes of it")
    try:
        longest = max(map(len, trained.example(as_text(texts)).sequences))
    except InputError as error:
        raise InputError(str(error).removeprefix("text 1: ")) from None
    if longest > MOST_TOKENS:
        raise InputError(
            f"the text has {longest:,} tokens; the explorer takes up to {MOST_TOKENS}. "
            "'crvnn predict' has no such limit."
        )
    return longest


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
            raise InputError(f"{slot}.{key}: the explorer takes integers up to {MOST_WHOLE}, not {value:,}")


def _strong(weights: list[float]) -> list[tuple[int, float]]:
    return [(place, round(weight, 4)) for place, weight in enumerate(weights) if weight >= _FAINT]


def _choices(catalog: Catalog, slot: str) -> list[dict[str, Any]]:
    """The components of a slot with their settings; those that cannot be imported are left out."""
    found = []
    for name, offer in catalog.components[slot].items():
        try:
            settings = _settings(catalog, offer)
        except CrvnnError:
            continue
        found.append({"name": name, "summary": offer.component.summary, "settings": settings})
    return found


def _expect_offered(
    catalog: Catalog,
    model: ModelSpec,
    parts: Mapping[str, str],
    settings: Iterable[tuple[str, str, Any]],
) -> None:
    """Refuse settings that components do not declare live; those that do not exist are left to ``exchange_parts``."""
    for slot, key, _ in settings:
        part = getattr(model, slot, None)
        offer = catalog.components.get(slot, {}).get(parts.get(slot, getattr(part, "name", "")))
        if offer is None or key not in settings_of(offer):
            continue
        live = getattr(offer.component.load(), "live_settings", None)
        if live is not None and key not in live:
            can = f"those that can: {', '.join(live)}" if live else "none of its settings can"
            raise InputError(
                f"'{key}' of {slot} '{offer.component.name}' cannot change after training; {can}"
            )


def _settings(catalog: Catalog, offer: Offer) -> list[dict[str, Any]]:
    explained = {
        parameter["name"]: parameter["text"].replace("`", "")
        for parameter in describe(catalog, offer.slot, offer.component.name)["parameters"]
    }
    live = getattr(offer.component.load(), "live_settings", None)
    return [
        {"name": name, "text": explained[name], **_kind(parameter)}
        for name, parameter in settings_of(offer).items()
        if (live is None or name in live) and _kind(parameter)
    ]


def _kind(parameter: Parameter) -> dict[str, Any]:
    """The kind of control that a setting needs; nothing for one that no control can show."""
    default = None if parameter.default is Parameter.empty else parameter.default
    annotation = bare(parameter.annotation)
    if get_origin(annotation) is Literal:
        return {"kind": "choice", "choices": list(get_args(annotation)), "default": default}
    kind = _KINDS.get(annotation)
    return {"kind": kind, "default": default, **_limits(parameter.annotation)} if kind else {}


def _limits(annotation: Any) -> dict[str, Any]:
    """The range of a number: ``min`` and ``max``, whether these are excluded (``open``), and whether it is odd."""
    found: dict[str, Any] = {}
    for each in ranges(annotation):
        for key, excluded, included in (("min", each.gt, each.ge), ("max", each.lt, each.le)):
            if excluded is not None or included is not None:
                found[key] = included if excluded is None else excluded
            if excluded is not None:
                found.setdefault("open", []).append(key)
        if each.odd:
            found["odd"] = True
    return found
