"""The contract of tasks: built-in tasks satisfy it, and each check fails for a task that violates it."""

import random

import torch
from torch import nn

from contract_cases import contract_tests
from crvnn_core import Example, Task
from crvnn_core.trees import Tree
from crvnn_core.trees.scoring import left_branching

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    ("listops", ("max_tokens=0",)),
    ("listops", ("max_tokens=9", "test_max_tokens=9")),
    ("listops", ("min_tokens=30", "fresh=false", "growing=[40]")),
    *(("logic", (f"setting={setting}", "train_operations=5")) for setting in ("length", "A", "B", "C")),
]


class CountingTask(Task):
    """Is a row of letters of even length? Rows of one split are never as long as those of another."""

    vocabulary = ("a", "b")
    classes = ("no", "yes")

    def examples(self, split, seed):
        place = self.splits.index(split)
        for number in range(60):
            length = 3 * number + place + 1
            yield Example((("a", "b")[number % 2 :][:1] * length,), length % 2)


def task(**changed):
    return type("Faulty", (CountingTask,), changed)


class SameEverywhere(CountingTask):
    def examples(self, split, seed):
        return super().examples("train", seed)


class EmptyTest(CountingTask):
    def examples(self, split, seed):
        return iter(()) if split == "test" else super().examples(split, seed)


class StrangeLabels(CountingTask):
    def examples(self, split, seed):
        return (Example(example.sequences, 2) for example in super().examples(split, seed))


class ChangingTask(CountingTask):
    def examples(self, split, seed):
        yield Example((("a",) * random.SystemRandom().randrange(1000, 100000),), 0)


def with_head(head):
    return task(head=lambda self, width, dropout: head(width))


class CpuHead(nn.Linear):
    def forward(self, vectors):
        return super().forward(vectors) + torch.ones(len(vectors), 2)


class UnusedParameterHead(nn.Linear):
    def __init__(self, width):
        super().__init__(width, 2)
        self.unused = nn.Parameter(torch.zeros(2))


#: A check, a task that fails it, and a part of the reason that is given.
FAULTY = [
    ("names_its_parts", task(vocabulary=("a", "a")), "repeats a token"),
    ("names_its_parts", task(classes=("no",)), "the classes are ['no']"),
    ("names_its_parts", task(arity=3), "arity is 3"),
    ("names_its_parts", task(splits=()), "there are no splits"),
    ("takes_a_saved_vocabulary", task(vocabulary=property(lambda self: ("a",))), "cached_property"),
    ("gives_examples_in_every_split", EmptyTest, "the split 'test' is empty"),
    ("gives_examples_in_every_split", StrangeLabels, "has the label 2"),
    ("gives_examples_in_every_split", task(arity=2), "has 1 sequences"),
    ("repeats_itself", ChangingTask, "differs from time to time"),
    ("keeps_its_splits_apart", SameEverywhere, "'dev' and 'train' share"),
    ("reads_back_its_own_text", task(tokenize=lambda self, text: tuple(text)), "is tokenised otherwise"),
    ("reads_back_its_own_text", task(vocabulary=("x", "y")), "not one token of the examples"),
    ("gold_trees_fit", task(gold=lambda self, example: ()), "has 1 sequences, 0 gold trees"),
    (
        "gold_trees_fit",
        task(gold=lambda self, example: (Tree.of("a b"),)),
        "example 0: a\\sb is no tree over ('a',)",
    ),
    (
        "gold_trees_fit",
        task(
            gold=lambda self, example: (left_branching(*example.sequences),),
            constituents=lambda self, example: (frozenset({(0, 2), (1, 3)}),),
        ),
        "the gold tree does not have the constituents [(0, 2), (1, 3)]",
    ),
    (
        "gold_labels_fit",
        task(gold_label=lambda self, sequences: len(sequences[0]) % 3),
        "example 1 has the label 0, but gold_label gives 1",
    ),
    ("head_gives_logits_that_learn", with_head(lambda width: nn.Linear(width, 3)), "logits are [50, 3]"),
    (
        "head_gives_logits_that_learn",
        with_head(UnusedParameterHead),
        "no gradient reaches the parameter 'unused'",
    ),
    ("head_gives_logits_that_learn", with_head(lambda width: "no module"), "head is 'no module'"),
    ("head_runs_on_any_device", with_head(lambda width: CpuHead(width, 2)), "meta"),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("task", CountingTask, FAULTY, VARIANTS)
