"""The contract of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import nn

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Example, Task
from crvnn_core.model.batch import Vocabulary, collate
from crvnn_core.model.model import head_of
from crvnn_core.testing.common import WIDTH, build, finite, gradients_reach, random

_SOME = 50


def _some(task: Task, split: str, seed: int = 0) -> list[Example]:
    return list(islice(task.examples(split, seed), _SOME))


def _each(task: Task) -> Iterator[tuple[str, Example]]:
    """Examples of every split, with their places for messages."""
    for split in task.splits:
        for number, example in enumerate(_some(task, split)):
            yield f"{split}, example {number}", example


def check_task_names_its_parts(component: Component) -> None:
    """It has splits, a vocabulary without repeats, at least two classes, and one or two sequences an example."""
    task = build(component)
    assert task.splits, "there are no splits"
    assert len(set(task.vocabulary)) == len(task.vocabulary) > 0, "the vocabulary is empty or repeats a token"
    assert len(set(task.classes)) == len(task.classes) >= 2, f"the classes are {list(task.classes)}"
    assert task.arity in (1, 2), f"arity is {task.arity}"


def check_task_takes_a_saved_vocabulary(component: Component) -> None:
    """A saved model can set its vocabulary and its classes, and they stay as they were set."""
    task = build(component)
    try:
        task.vocabulary, task.classes = ("one", "two"), ("no", "yes")
    except AttributeError as error:
        raise AssertionError(f"{error}; functools.cached_property can be set") from None
    assert (tuple(task.vocabulary), tuple(task.classes)) == (("one", "two"), ("no", "yes")), "it forgot them"


def check_task_gives_examples_in_every_split(component: Component) -> None:
    """Every split has examples of non-empty sequences, with labels that are classes."""
    task = build(component)
    for split in task.splits:
        assert _some(task, split), f"the split '{split}' is empty"
    for where, example in _each(task):
        assert len(example.sequences) == task.arity, f"{where} has {len(example.sequences)} sequences"
        assert all(example.sequences), f"{where} has an empty sequence"
        assert 0 <= example.label < len(task.classes), f"{where} has the label {example.label}"


def check_task_repeats_itself(component: Component) -> None:
    """Examples and their order depend on the split and the seed alone, in a new instance as well."""
    for split in build(component).splits:
        assert _some(build(component), split) == _some(build(component), split), (
            f"'{split}' differs from time to time"
        )


def check_task_keeps_its_splits_apart(component: Component) -> None:
    """No example of one split was seen in another."""
    task = build(component)
    seen: dict[tuple[tuple[str, ...], ...], str] = {}
    for split in task.splits:
        for example in _some(task, split):
            other = seen.setdefault(example.sequences, split)
            assert other == split, f"'{split}' and '{other}' share {example.sequences}"


def check_task_reads_back_its_own_text(component: Component) -> None:
    """Tokenising the tokens of an example, joined by spaces, gives them again, and they are in the vocabulary."""
    task = build(component)
    sequences = [sequence for example in _some(task, task.splits[0]) for sequence in example.sequences]
    for sequence in sequences:
        assert tuple(task.tokenize(" ".join(sequence))) == sequence, f"{sequence} is tokenised otherwise"
    known = set(task.vocabulary) & {token for sequence in sequences for token in sequence}
    assert known, "not one token of the examples is in the vocabulary"


def check_task_gold_trees_fit(component: Component) -> None:
    """Gold trees, where it gives them, are over the tokens of their sequences, and have all of the constituents."""
    task = build(component)
    for where, example in _each(task):
        gold, own = task.gold(example), task.constituents(example)
        assert len(gold) == len(own) == len(example.sequences), (
            f"{where} has {len(example.sequences)} sequences, {len(gold)} gold trees and {len(own)} constituents"
        )
        for tokens, tree, spans in zip(example.sequences, gold, own, strict=True):
            assert tree is None or tree.tokens == tokens, f"{where}: {tree} is no tree over {tokens}"
            missing = (spans or frozenset()) - (tree.spans() if tree is not None else frozenset())
            assert not missing, f"{where}: the gold tree does not have the constituents {sorted(missing)}"


def check_task_gold_labels_fit(component: Component) -> None:
    """The label that it computes from the sequences of an example, where it does, is the example's."""
    task = build(component)
    for where, example in _each(task):
        label = task.gold_label(example.sequences)
        assert label in (None, example.label), (
            f"{where} has the label {example.label}, but gold_label gives {label}"
        )


def check_task_head_gives_logits_that_learn(component: Component) -> None:
    """The head turns sentence vectors into finite logits [B, classes], and gradients reach all of it."""
    task = build(component)
    head = head_of(task, WIDTH, 0.0)
    assert isinstance(head, nn.Module), f"head is {head!r}"
    examples = _some(task, task.splits[0])
    vectors = [random(len(examples), WIDTH, seed=seed) for seed in range(task.arity)]
    logits = head(*vectors)
    assert logits.shape == (len(examples), len(task.classes)), f"logits are {list(logits.shape)}"
    finite(logits, "the logits")
    labels = collate(examples, Vocabulary(task.vocabulary)).labels
    gradients_reach(head, nn.functional.cross_entropy(logits, labels))


def check_task_head_runs_on_any_device(component: Component) -> None:
    """Every tensor of the head is made on the device of its input."""
    task = build(component)
    vectors = [torch.rand(3, WIDTH, device="meta")] * task.arity
    assert head_of(task, WIDTH, 0.0).to("meta")(*vectors).is_meta
