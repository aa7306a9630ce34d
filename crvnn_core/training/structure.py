"""What a model does with structure, measured in training: its trees, how sure its decisions are, hard inference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crvnn_core.evaluation_mode import evaluating
from crvnn_core.interfaces import Encoding, Example, Task
from crvnn_core.model.model import Model
from crvnn_core.training.data import grouped
from crvnn_core.trees.extraction import trees_of
from crvnn_core.trees.scoring import Sentence, gold_sentences, score
from crvnn_core.trees.tree import Tree


def structure(model: Model, task: Task, examples: Sequence[Example]) -> dict[str, float]:
    """Measures of structure by name; those that do not apply to the encoder or the task are left out.

    ``constituents`` and ``f1`` compare trees with gold ones (``crvnn_core.trees.scoring``). ``sharpness`` is the mean
    of c, weighted by e c: 1 where whatever composes does so at once, and near 0 where it is spread over many steps.
    ``hard`` is the accuracy of hard inference.
    """
    device, model = model.embed.weight.device, evaluating(model)
    trees: list[Tree] = []
    sentences: list[Sentence] = []
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
                        trees.append(tree)
                        sentences.append(gold)
            if model.encoder.hard_inference:
                right += (model(batch, hard=True).logits.argmax(-1) == batch.labels).sum().item()
    agreement = score(trees, sentences)
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
