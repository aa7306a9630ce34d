"""The contract of optimizers: built-in optimizers satisfy it, and each check fails for one that violates it."""

import random

import torch

from contract_cases import contract_tests

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [("ranger", ("k=2", "alpha=0.5"))]


def descent(params: list) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=0.05, momentum=0.9)


class Ascent(torch.optim.SGD):
    def __init__(self, params: list):
        super().__init__(params, lr=0.05, maximize=True)


class RandomRate(torch.optim.SGD):
    def __init__(self, params: list):
        super().__init__(params, lr=0.05)
        self.generator = random.SystemRandom()

    def step(self, closure=None):
        self.param_groups[0]["lr"] = self.generator.uniform(0.01, 0.1)
        return super().step(closure)


class UnsavedCount(torch.optim.SGD):
    """Its learning rate depends on a count that is not part of its state."""

    def __init__(self, params: list):
        super().__init__(params, lr=0.05)
        self.taken = 0

    def step(self, closure=None):
        self.taken += 1
        self.param_groups[0]["lr"] = 0.05 / self.taken
        return super().step(closure)


#: A check, an optimizer that fails it, and a part of the reason that is given.
FAULTY = [
    ("is_an_optimizer", lambda params: object(), "object is not a torch.optim.Optimizer"),
    ("is_an_optimizer", lambda params: descent(params[:1]), "does not hold the parameters"),
    ("makes_the_loss_fall", Ascent, "the loss went from"),
    ("is_deterministic", RandomRate, "two equal runs differ"),
    ("can_be_saved", UnsavedCount, "resuming from a saved state gives other weights"),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("optimizer", descent, FAULTY, VARIANTS)
