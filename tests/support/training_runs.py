"""Small training runs, and what to measure during them."""

from crvnn_core import Example, Observer, train
from small import Letters, variant


class Gauge(Observer):
    """Records a measurement after every step and every evaluation."""

    def __init__(self, measure):
        self.measure, self.steps, self.evaluations = measure, [], []

    def stepped(self, step, metrics):
        self.steps.append(self.measure())

    def evaluated(self, step, metrics):
        self.evaluations.append(self.measure())


def trained(*sets, out=None, **components):
    """A small variant, trained."""
    assembly = variant(*sets, **components)
    train(assembly, out, evaluate_splits=[])
    return assembly


def padded(batch):
    """Tokens and padding of a batch."""
    return sum(tokens.ids.numel() for tokens in batch.sequences)


class Even(Letters):
    """Has sequences of one length only."""

    def examples(self, split, seed):
        for example in super().examples(split, seed):
            (letters,) = example.sequences
            yield Example(((*letters, *"fffff")[:5],), example.label)
