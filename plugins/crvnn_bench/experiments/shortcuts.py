"""What each shortcut of the engine is worth, and what it changes, on trained weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import attrs
import torch
from attrs import frozen
from torch import Tensor

from crvnn_bench.contenders.build import Field
from crvnn_bench.measurement.timing import Timed, interleave, settling
from crvnn_core import Batch, Example, Model, Recursion
from crvnn_core.training.data import collate
from crvnn_core.training.memory import TOKEN_BUDGET, within_budget
from crvnn_tasks.listops.language import evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions

_OFF = -1.0  # a tolerance below every weight: nothing is dropped, nothing skipped


@frozen
class Setting:
    """Which shortcuts are taken."""

    name: str
    shortcuts: bool = True
    drop: float | None = None
    skip: float | None = None
    hard: bool = False

    def apply(self, model: Model) -> Model:
        """The model, set so."""
        engine = model.encoder
        assert isinstance(engine, Recursion)
        engine.shortcuts, engine.hard = self.shortcuts, self.hard
        engine.drop = _OFF if self.drop is None else self.drop
        engine.skip = _OFF if self.skip is None else self.skip
        return model


#: What the others are compared with.
NONE = Setting("none", shortcuts=False)


def settings(tolerances: Sequence[float], engine: Recursion) -> list[Setting]:
    """No shortcut; each alone and both together at every tolerance; the model's own; hard inference."""
    found = [NONE]
    for tolerance in tolerances:
        found.append(Setting(f"drop {tolerance:g}", drop=tolerance))
        found.append(Setting(f"skip {tolerance:g}", skip=tolerance))
        found.append(Setting(f"drop and skip {tolerance:g}", drop=tolerance, skip=tolerance))
    own = Setting("the model's own", engine.shortcuts, engine.drop, engine.skip)
    return [*found, own, Setting("hard", hard=True)]


@frozen(kw_only=True)
class Effect:
    """What a setting does."""

    setting: str
    seconds: float
    relative: float  # how many times as long as without shortcuts
    largest: float  # change of any component of a sentence vector
    most: float  # the change that 99.9% of components stay below
    accuracy: float
    difference: float  # of the accuracy
    steps: float  # recursion steps of a sequence, on average

    def plain(self) -> dict[str, Any]:
        """For machines."""
        return attrs.asdict(self)


def rows_of(count: int, seed: int) -> list[Example]:
    """Expressions of all lengths, none of which a model can have been trained on here."""
    made = islice(expressions(Recipe(), f"bench shortcuts {seed}", "test"), count)
    return [Example((tokens,), evaluate(tokens)) for tokens in made]


def effects(
    field: Field,
    rows: Sequence[Example],
    tolerances: Sequence[float],
    done: Callable[[int], None] = lambda number: None,
) -> list[Effect]:
    """Encode the rows with every setting, in turns."""
    models: dict[str, Model] = {}
    engine = field.build("crvnn").encoder
    assert isinstance(engine, Recursion)
    for setting in settings(tolerances, engine):
        models[setting.name] = setting.apply(field.build("crvnn")).eval()
    vocabulary, device = field.base.vocabulary, field.setup.device
    groups = [
        collate([rows[i] for i in group], vocabulary).to(device)
        for group in within_budget(rows, TOKEN_BUDGET)
    ]
    jobs = {name: [partial(_answers, model, group) for group in groups] for name, model in models.items()}
    for name in jobs:
        jobs[name][len(groups) // 2]()  # the warm-up
    timed = interleave(jobs, 1, settle=settling(device), done=done)
    return [_effect(name, record, timed[NONE.name], groups) for name, record in timed.items()]


def parts(rows: Sequence[Example], tolerances: Sequence[float]) -> int:
    """How many times ``effects`` tells that something is done."""
    return len(within_budget(rows, TOKEN_BUDGET)) * (3 + 3 * len(tolerances))


@torch.no_grad()
def _answers(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Sentence vectors, classes and steps."""
    output = model(batch)
    return output.encodings[0].vector, output.logits.argmax(-1), output.encodings[0].steps


def _effect(name: str, timed: Timed, plain: Timed, groups: Sequence[Batch]) -> Effect:
    vectors, classes, steps = (torch.cat(part).cpu() for part in zip(*timed.results, strict=True))
    exact, exact_classes, _ = (torch.cat(part).cpu() for part in zip(*plain.results, strict=True))
    labels = torch.cat([group.labels for group in groups]).cpu()
    changes = (vectors - exact).abs().flatten()
    accuracy, before = (float((found == labels).double().mean()) for found in (classes, exact_classes))
    (seconds,), (without,) = timed.totals(), plain.totals()
    return Effect(
        setting=name,
        seconds=seconds,
        relative=seconds / without,
        largest=float(changes.max()),
        most=float(changes.kthvalue(max(1, round(0.999 * len(changes)))).values),
        accuracy=accuracy,
        difference=accuracy - before,
        steps=float(steps.double().mean()),
    )
