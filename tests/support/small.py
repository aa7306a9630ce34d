"""Small tasks to train on in a moment, and what else the tests of training share.

This is a plug-in file as well, and a program: ``python tests/support/small.py train ...`` is ``crvnn train ...``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import torch

from crvnn_core import (
    Component,
    CrvnnError,
    Decision,
    Encoder,
    Encoding,
    Example,
    Observer,
    Task,
    hookimpl,
)
from crvnn_core.host.slots import SLOT_BY_NAME
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble

PLUGIN = Path(__file__)

#: A variant that takes a few milliseconds a step.
SETTINGS = (
    "task=letters",
    "model.width=8",
    "model.scorer.transition=4",
    "training.batch=8",
    "training.epochs=0",
    "training.steps=6",
    "training.evaluate_every=3",
    "training.threads=1",
    "training.accelerator=cpu",
    "training.observers=[]",
    "training.optimizer.learning_rate=0.02",
)


class Letters(Task):
    """Is there an ``a`` among the letters?

    :param rows: of the training split.
    :param longest: the most letters.
    """

    vocabulary = tuple("abcdef")
    classes = ("no", "yes")

    def __init__(self, rows: int = 40, longest: int = 4) -> None:
        self.rows = rows
        self.longest = longest

    def examples(self, split, seed):
        generator = random.Random(f"{split} {seed}")
        for number in range(self.rows if split == "train" else 20):
            letters = [generator.choice("bcdef") for _ in range(generator.randint(1, self.longest))]
            if number % 2:
                letters[generator.randrange(len(letters))] = "a"
            yield Example((tuple(letters),), number % 2)

    def read(self, path):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            label, tab, text = line.partition("\t")
            if not tab or label not in self.classes:
                raise CrvnnError(f"{path}:{number}: expected a label, a tab and letters")
            yield Example((self.tokenize(text),), self.classes.index(label))

    def bucket(self, example):
        return str(len(example.sequences[0]))


class Pairs(Letters):
    """Do two sequences begin with the same letter?"""

    arity = 2

    def examples(self, split, seed):
        generator = random.Random(f"{split} {seed}")
        for example in super().examples(split, seed):
            (one,) = example.sequences
            two = (one[0] if example.label else generator.choice("bcdef"), *reversed(one))
            yield Example((one, two), int(one[0] == two[0]))

    def bucket(self, example):
        return ""


class Interrupting(Observer):
    """Sends signals to this very process after a step.

    :param step: after which.
    :param signals: their numbers.
    """

    def __init__(self, step: int, signals: list[int]) -> None:
        self.step, self.signals = step, signals

    def stepped(self, step, metrics):
        for number in self.signals if step == self.step else ():
            os.kill(os.getpid(), number)


class Eager(Decision):
    """Composes whatever it may, at once: of n tokens, all but the last two are lost in conflicts."""

    def forward(self, scores, near, eligible, exists):
        return eligible.to(scores.dtype) + 0 * scores


class Averaging(Encoder):
    """Keeps no trace."""

    def forward(self, inputs, mask, *, trace=False):
        zeros = inputs.new_zeros(len(inputs))
        return Encoding((inputs * mask.unsqueeze(-1)).sum(1), zeros, zeros)


@hookimpl
def crvnn_tasks():
    return [Component("letters", Letters), Component("pairs", Pairs)]


@hookimpl
def crvnn_decisions():
    return [Component("eager", Eager)]


@hookimpl
def crvnn_observers():
    return [Component("interrupting", Interrupting)]


class Notebook(Observer):
    """Writes everything down."""

    def __init__(self):
        self.events = []

    def started(self, steps, facts):
        self.events.append(("started", steps, dict(facts)))

    def stage_started(self, steps, facts):
        self.events.append(("stage_started", steps, dict(facts)))

    def stepped(self, step, metrics):
        self.events.append(("stepped", step, dict(metrics)))

    def evaluated(self, step, metrics):
        self.events.append(("evaluated", step, dict(metrics)))

    def noted(self, message):
        self.events.append(("noted", message))

    def finished(self, facts):
        self.events.append(("finished",))

    @property
    def kinds(self):
        """What kind of event each was."""
        return [event[0] for event in self.events]

    def of(self, kind):
        """What was told in events of one kind."""
        return [event[1:] for event in self.events if event[0] == kind]

    def metric(self, name):
        """One of the metrics of every step."""
        return [metrics[name] for _, metrics in self.of("stepped")]


def catalog_with(**components):
    """What is installed, the small tasks, and by slot components of one's own that are called ``mine``."""
    import small  # here, since crvnn imports this file alone as a plug-in
    from stub_plugins import with_components

    return with_components(small, **{slot: [Component("mine", build)] for slot, build in components.items()})


def variant(*sets, **components):
    """A small variant put together, with a notebook among its observers, and components of one's own by slot."""
    catalog = catalog_with(**components)
    slots = {".".join(slot.path): slot for slot in map(SLOT_BY_NAME.__getitem__, components)}
    mine = [f"{place}=" + ('["mine"]' if slot.many else "mine") for place, slot in slots.items()]
    others = [text for text in _settings(*mine, *sets) if not text.startswith(tuple(slots))]
    assembly = assemble(read_spec(catalog, sets=[*others, *mine, *sets]), catalog)
    assembly.observers.append(Notebook())
    return assembly


def _settings(*sets):
    """The settings of a small variant; other encoders than the default need not have a scorer."""
    other = any(text.startswith("model.encoder=") for text in sets)
    return [text for text in SETTINGS if not (other and text.startswith("model.scorer."))]


def notes_of(assembly):
    """Its notebook."""
    return assembly.observers[-1]


def weights(assembly):
    """A copy of the model's weights."""
    return {name: tensor.clone() for name, tensor in assembly.model.state_dict().items()}


def leaves(tree):
    """The tokens of a tree, or of pairs in pairs, from left to right; every inner node must have two children."""
    found, waiting = [], [tree if isinstance(tree, (str, tuple)) else tree.nested()]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            found.append(node)
        else:
            left, right = node
            waiting += [right, left]
    return found


def differences(one, two):
    """The names of tensors that are not the same bit for bit."""
    return [name for name in one.keys() | two.keys() if not same(one.get(name), two.get(name))]


def same(one, two):
    """Whether two trees of tensors, numbers and strings are the same, bit for bit."""
    return bits(one) == bits(two)


def bits(tree):
    """A tree whose tensors and numbers, NaN too, are in a form that equals only the same, bit for bit."""
    if isinstance(tree, torch.Tensor):
        return tree.dtype, tree.shape, tree.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(tree, dict):
        return dict, [(key, bits(value)) for key, value in tree.items()]
    return type(tree), [bits(each) for each in tree] if isinstance(tree, (list, tuple)) else repr(tree)


def options(*sets):
    """The options of ``crvnn train`` for a small variant."""
    return [
        "--plugin",
        str(PLUGIN),
        *(part for text in (*_settings(*sets), *sets) for part in ("--set", text)),
    ]


def start(*command, cwd, **environment):
    """A process with pipes that has just been started, with additional variables in its environment."""
    return subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            **{name: str(value) for name, value in environment.items()},
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def begin(*args, cwd):
    """``crvnn`` in a process of its own, which has just been started."""
    return start(sys.executable, PLUGIN, *args, cwd=cwd)


def metrics_of(run):
    """What a run wrote down, but for how quick it was."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in row.items() if key not in ("tokens_per_second", "seconds")}
        for row in rows
    ]


if __name__ == "__main__":
    from crvnn_core.cli import main

    main(prog_name="crvnn")
