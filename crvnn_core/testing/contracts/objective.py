"""The contract of objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from crvnn_core.engine.recursion import Recursion
from crvnn_core.host.component import Component
from crvnn_core.interfaces import Example, Objective
from crvnn_core.model.batch import Batch, collate
from crvnn_core.model.model import Head, Model, Output, TokenVectors
from crvnn_core.testing.common import WIDTH, build, finite, gradients_reach
from crvnn_core.testing.parts import LetterTask, plain_parts


def _setting(component: Component) -> tuple[Objective, Model, Batch, Sequence[Example]]:
    task = LetterTask()
    objective = build(component, task=task)
    torch.manual_seed(0)
    encoder = Recursion(WIDTH, **plain_parts(WIDTH))  # type: ignore[arg-type]
    embed = TokenVectors(torch.randn(len(task.vocabulary), WIDTH), trainable=True)
    model = Model(task.vocabulary, embed, encoder, Head(WIDTH, 2), width=WIDTH)
    examples = list(task.examples("train", 0))
    return objective, model, collate(examples, model.vocabulary), examples


def _loss(setting: tuple[Objective, Model, Batch, Sequence[Example]], seed: int = 0) -> tuple[Tensor, Output]:
    objective, model, batch, examples = setting
    torch.manual_seed(seed)
    return objective.loss(model, model, batch, examples)


def check_objective_is_an_objective(component: Component) -> None:
    """It is a crvnn_core.Objective, and accepts a recursive network."""
    objective, model, *_ = _setting(component)
    assert isinstance(objective, Objective), "subclass crvnn_core.Objective"
    objective.expect(model)


def check_objective_gives_a_loss_and_the_output(component: Component) -> None:
    """The loss is one finite number; the output has logits for every example."""
    setting = _setting(component)
    loss, output = _loss(setting)
    assert loss.dim() == 0, f"the loss is {list(loss.shape)}, not one number"
    finite(loss, "the loss")
    assert output.logits.shape == (4, 2), (
        f"logits are {list(output.logits.shape)} for 4 examples of 2 classes"
    )


def check_objective_passes_gradients_to_the_head_and_the_cell(component: Component) -> None:
    """The loss has a gradient for the head, the cell and the embedding."""
    setting = _setting(component)
    loss, _ = _loss(setting)
    model: Any = setting[1]
    gradients_reach(torch.nn.ModuleList([model.head, model.encoder.cell, model.project]), loss)


def check_objective_calls_the_model_that_is_trained_once(component: Component) -> None:
    """What needs a gradient goes through ``forward``, once: on several devices only that is synchronised."""
    objective, model, batch, examples = _setting(component)
    calls: list[int] = []

    def forward(*args: Any, **options: Any) -> Output:
        calls.append(1)
        return model(*args, **options)

    objective.loss(model, forward, batch, examples)
    assert len(calls) == 1, f"forward was called {len(calls)} times"


def check_objective_is_deterministic(component: Component) -> None:
    """The same seed gives the same loss, also after other calls: nothing is kept between batches."""
    setting = _setting(component)
    first, _ = _loss(setting)
    for seed in (1, 2):
        _loss(setting, seed)
    again, _ = _loss(setting)
    assert torch.equal(first, again), f"the loss was {first.item():.8g} and then {again.item():.8g}"


def check_objective_leaves_the_model_as_it_is(component: Component) -> None:
    """It changes no weight, and training mode stays what it was."""
    setting = _setting(component)
    model = setting[1].train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    _loss(setting)
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert not changed, f"it changed {', '.join(changed)}"
    assert all(module.training for module in model.modules()), "it left a module in evaluation mode"
