"""The shortcuts of an encoder, each alone and together: the time that they save, and what they change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import attrs
import torch
from attrs import frozen
from torch import Tensor

from crvnn_bench.contenders.build import Contenders
from crvnn_bench.measurement.timing import Timed, interleave, synchronizer
from crvnn_core import Batch, CrvnnError, Example, Model
from crvnn_core.model.batch import collate
from crvnn_core.training.data import TOKEN_BUDGET, within_budget
from crvnn_tasks.listops.language import evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions

_OFF = -1.0  # a tolerance below every existence and left(c): nothing is dropped, nothing skipped
_NEEDED = ("shortcuts", "drop", "skip")  # settings of an encoder that has shortcuts


@frozen
class Setting:
    """Which shortcuts are taken; ``None`` for a tolerance switches that one off."""

    name: str
    shortcuts: bool = True
    drop: float | None = None
    skip: float | None = None
    hard: bool = False

    def build(self, contenders: Contenders) -> Model:
        """The weights' encoder with this setting."""
        name = contenders.encoder
        return self.apply(contenders.build(f"{name}-hard" if self.hard else name))

    def apply(self, model: Model) -> Model:
        """The model, changed to this setting."""
        encoder: Any = model.encoder
        encoder.shortcuts = self.shortcuts
        encoder.drop = _OFF if self.drop is None else self.drop
        encoder.skip = _OFF if self.skip is None else self.skip
        return model


#: What the others are compared with.
NONE = Setting("none", shortcuts=False)


def settings(contenders: Contenders, tolerances: Sequence[float]) -> list[Setting]:
    """No shortcut; each alone and both together at every tolerance; the model's own; hard inference if it has it."""
    encoder: Any = contenders.base.model.encoder
    if missing := [name for name in _NEEDED if not hasattr(encoder, name)]:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise CrvnnError(
            f"the encoder '{contenders.encoder}' has no shortcuts to measure: no setting {listed}"
        )
    found = [NONE]
    for tolerance in tolerances:
        found.append(Setting(f"drop {tolerance:g}", drop=tolerance))
        found.append(Setting(f"skip {tolerance:g}", skip=tolerance))
        found.append(Setting(f"drop and skip {tolerance:g}", drop=tolerance, skip=tolerance))
    found.append(Setting("the model's own", encoder.shortcuts, encoder.drop, encoder.skip))
    return [*found, Setting("hard", hard=True)] if encoder.hard_inference else found


@frozen(kw_only=True)
class Effect:
    """The time of a setting, and what it changes."""

    setting: str
    seconds: float
    relative: float  # seconds divided by those without shortcuts
    largest: float  # largest absolute change of a component of a sentence vector
    most: float  # 99.9% of components change by no more than this
    accuracy: float
    difference: float  # of the accuracy from that without shortcuts
    steps: float  # mean recursion steps of a sequence

    def plain(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return attrs.asdict(self)


def rows_of(count: int, seed: int) -> list[Example]:
    """Test expressions of all lengths, which no shipped model was trained on."""
    made = islice(expressions(Recipe(), f"bench shortcuts {seed}", "test"), count)
    return [Example((tokens,), evaluate(tokens)) for tokens in made]


def effects(
    contenders: Contenders,
    rows: Sequence[Example],
    chosen: Sequence[Setting],
    done: Callable[[int], None] = lambda number: None,
) -> list[Effect]:
    """The effect of every setting on encoding the rows, in one interleaved run; ``NONE`` must be among them."""
    models = {setting.name: setting.build(contenders).eval() for setting in chosen}
    vocabulary, device = contenders.base.model.vocabulary, contenders.setup.device
    groups = [
        collate([rows[index] for index in group], vocabulary).to(device)
        for group in within_budget(rows, TOKEN_BUDGET)
    ]
    jobs = {name: [partial(_answers, model, group) for group in groups] for name, model in models.items()}
    for name in jobs:
        jobs[name][len(groups) // 2]()  # the warm-up
    timed = interleave(jobs, 1, synchronize=synchronizer(device), done=done)
    return [_effect(name, record, timed[NONE.name], groups) for name, record in timed.items()]


def count_jobs(rows: Sequence[Example], chosen: Sequence[Setting]) -> int:
    """How many jobs ``effects`` will report as done."""
    return len(within_budget(rows, TOKEN_BUDGET)) * len(chosen)


@torch.no_grad()
def _answers(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Sentence vectors, predicted classes and recursion steps."""
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
