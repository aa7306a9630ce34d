"""A model on examples: accuracy, loss and depth, in all and by group; its trees, and how sure its decisions are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.evaluation_mode import evaluating
from crvnn_core.interfaces import Encoding, Example, Task
from crvnn_core.model.model import Model
from crvnn_core.precision import at_least_float32
from crvnn_core.runs.results import Classification, Result, Score, natural_order
from crvnn_core.training.data import (
    TOKEN_BUDGET,
    example_length,
    free_memory,
    grouped,
    out_of_memory,
    within_budget,
)


def evaluate(
    model: Model,
    task: Task,
    examples: Sequence[Example],
    *,
    tokens: int = 0,
    share: tuple[int, int] = (0, 1),
    gather: Callable[[Tensor], Tensor] | None = None,
    done: Callable[[int], None] | None = None,
    hard: bool = False,
) -> Result:
    """Score a model on examples, in evaluation mode and without gradients.

    :param tokens: the most tokens of a forward pass, padding included; 0 for ``TOKEN_BUDGET``. On a CPU it is never
        more than that: larger batches leave the cache and take longer.
    :param share: the rank of this process and the number of processes; each scores its own share of the examples.
    :param gather: sums a tensor over all processes.
    :param done: is called with the number of examples after each batch.
    :param hard: hard inference, for an encoder that declares ``hard_inference``.
    """
    if not examples:
        raise InputError("there are no examples to evaluate")
    device = model.embed.weight.device
    facts = torch.zeros(len(examples), 4, dtype=torch.float64)  # loss, right, steps, prediction of each
    if device.type == "cpu" or not tokens:
        tokens = min(tokens or TOKEN_BUDGET, TOKEN_BUDGET)
    by_length = sorted(range(len(examples)), key=lambda i: example_length(examples[i]))
    mine = by_length[share[0] :: share[1]]
    batches = within_budget([examples[i] for i in mine], tokens)
    random.Random(len(mine)).shuffle(batches)  # so that a progress bar sees short and long ones alike
    model = evaluating(model)
    with torch.inference_mode():
        for batch in batches:
            rows = [mine[i] for i in batch]
            facts[rows] = _facts_that_fit(model, [examples[row] for row in rows], device, hard)
            if done is not None:
                done(len(rows))
    if gather is not None:
        facts = gather(facts.to(device)).cpu()
    scored, predicted = facts[:, :3].contiguous(), facts[:, 3].long().tolist()
    groups: dict[str, list[int]] = {}
    for number, example in enumerate(examples):
        groups.setdefault(task.bucket(example), []).append(number)
    named = sorted((name for name in groups if name), key=natural_order)
    buckets = {name: _score(scored[groups[name]]) for name in named}
    gold = (int(example.label) for example in examples)
    return Result(_score(scored), buckets, Classification.count(task.classes, gold, predicted))


def _facts(model: Model, examples: Sequence[Example], device: torch.device, hard: bool) -> Tensor:
    batch = model.batch(examples).to(device)
    output = model(batch, hard=hard)
    logits = at_least_float32(output.logits)
    losses = torch.nn.functional.cross_entropy(logits, batch.labels, reduction="none")
    predicted = logits.argmax(-1)
    steps = torch.stack([encoding.steps for encoding in output.encodings]).float().mean(0)
    right = (predicted == batch.labels).float()
    return torch.stack([losses.float(), right, steps, predicted.float()], 1).cpu().double()


def _facts_that_fit(model: Model, examples: Sequence[Example], device: torch.device, hard: bool) -> Tensor:
    """The same, in halves if memory runs out."""
    try:
        return _facts(model, examples, device, hard)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        if len(examples) == 1:
            length = example_length(examples[0])
            raise CrvnnError(f"memory ran out while evaluating an example of {length:,} tokens") from error
    free_memory()
    half = len(examples) // 2
    parts = [_facts_that_fit(model, part, device, hard) for part in (examples[:half], examples[half:])]
    return torch.cat(parts)


def _score(facts: Tensor) -> Score:
    loss, right, steps = facts.mean(0).tolist()
    return Score(len(facts), right, loss, steps)


def structure(model: Model, task: Task, examples: Sequence[Example]) -> dict[str, float]:
    """Measures of structure by name; those that do not apply to the encoder or the task are left out.

    ``constituents`` and ``f1`` compare trees with gold ones (``crvnn_core.trees.scoring``). ``sharpness`` is the mean
    of c, weighted by e c: 1 where whatever composes does so at once, and near 0 where it is spread over many steps.
    ``hard`` is the accuracy of hard inference.
    """
    from crvnn_core.trees.extraction import trees_of
    from crvnn_core.trees.scoring import gold_sentences, score

    device, model = model.embed.weight.device, evaluating(model)
    pairs = []  # of the model's trees and gold ones
    squared = composed = right = 0.0
    with torch.inference_mode():
        for rows in grouped(examples):
            members = [examples[row] for row in rows]
            batch = model.batch(members).to(device)
            for place, encoding in enumerate(model(batch, trace=True).encodings):
                masses = _mass(encoding)
                squared, composed = squared + masses[0], composed + masses[1]
                found = trees_of(encoding, [example.sequences[place] for example in members])
                for tree, example in zip(found, members, strict=True):
                    gold = gold_sentences(task, example)[place]
                    if tree is not None and gold is not None:
                        pairs.append((tree, gold))
            if model.encoder.hard_inference:
                right += (model(batch, hard=True).logits.argmax(-1) == batch.labels).sum().item()
    agreement = score([tree for tree, _ in pairs], [gold for _, gold in pairs])
    measures = {
        "constituents": agreement.constituents,
        "f1": agreement.f1,
        "sharpness": squared / composed if composed else None,
        "hard": right / len(examples) if model.encoder.hard_inference and examples else None,
    }
    return {name: value for name, value in measures.items() if value is not None}


def _mass(encoding: Encoding) -> tuple[float, float]:
    """The sums of e c^2 and of e c over all steps and positions; 0 of an encoder without a trace."""
    if encoding.trace is None:
        return 0.0, 0.0
    c: Tensor = encoding.trace.compose.double()  # [K, B, n]
    composed = encoding.trace.exists[:-1] * c
    return (composed * c).sum().item(), composed.sum().item()
