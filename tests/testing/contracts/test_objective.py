"""The contract of objectives: built-in objectives satisfy it, and each check fails for one that violates it."""

import torch

from contract_cases import contract_tests
from crvnn_core import Objective

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    ("self-training", ("samples=1", "confidence=0.0", "decisions=0.0")),
    ("self-training", ("substitution=true",)),
]


class Plain(Objective):
    """The cross-entropy of the labels."""

    def loss(self, model, forward, batch, examples):
        output = forward(batch)
        return output.loss(batch.labels), output


class ForEachExample(Plain):
    def loss(self, model, forward, batch, examples):
        loss, output = super().loss(model, forward, batch, examples)
        return loss.expand(len(examples)), output


class WithoutGradients(Plain):
    def loss(self, model, forward, batch, examples):
        with torch.no_grad():
            return super().loss(model, forward, batch, examples)


class Twice(Plain):
    def loss(self, model, forward, batch, examples):
        forward(batch)
        return super().loss(model, forward, batch, examples)


class Counting(Plain):
    """Weighs the loss by the number of batches so far."""

    batches = 0

    def loss(self, model, forward, batch, examples):
        self.batches += 1
        loss, output = super().loss(model, forward, batch, examples)
        return loss * self.batches, output


class LeavesEvaluationMode(Plain):
    def loss(self, model, forward, batch, examples):
        return super().loss(model.eval(), forward, batch, examples)


class ChangesWeights(Plain):
    @torch.no_grad()
    def loss(self, model, forward, batch, examples):
        model.embed.unknown.zero_()
        return super().loss(model, forward, batch, examples)


#: A check, an objective that fails it, and a part of the reason that is given.
FAULTY = [
    ("is_an_objective", lambda: object(), "subclass crvnn_core.Objective"),
    ("gives_a_loss_and_the_output", ForEachExample, "the loss is [4], not one number"),
    ("passes_gradients_to_the_head_and_the_cell", WithoutGradients, "no gradient reaches"),
    ("calls_the_model_that_is_trained_once", Twice, "forward was called 2 times"),
    ("is_deterministic", Counting, "the loss was"),
    ("leaves_the_model_as_it_is", LeavesEvaluationMode, "it left a module in evaluation mode"),
    ("leaves_the_model_as_it_is", ChangesWeights, "it changed embed.unknown"),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("objective", Plain, FAULTY, VARIANTS)
