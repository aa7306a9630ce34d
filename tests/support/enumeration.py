"""The gradient of a sampled loss in expectation, over all decisions that an encoder can sample for one sequence."""

import copy

import torch
from torch import nn

from crvnn_core import Encoding, Head, Model
from crvnn_core.interfaces import Example
from crvnn_core.model.batch import collate
from crvnn_core.model.model import Output, TokenVectors

WIDTH = 5


def model_with(encoder):
    """A model in float64 of three tokens and four classes, with weights so large that decisions matter."""
    model = Model(
        ["a", "b", "c"], TokenVectors(torch.randn(3, WIDTH), True), encoder, Head(WIDTH, 4), width=WIDTH
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def outcomes(model, tokens, count):
    """The output for a sequence, ``count`` times as a batch in training, and the labels."""
    batch = collate([Example((tuple(tokens),), 1)] * count, model.vocabulary)
    return model.train()(batch), batch.labels


def expected_gradients(model, output, labels):
    """The mean gradient of the loss, weighing each row of the output by its probability."""
    parameters = list(model.parameters())
    before = copy.deepcopy(model.encoder.costs.state_dict())
    totals = [torch.zeros_like(p) for p in parameters]
    (encoding,) = output.encodings
    for row in range(len(labels)):
        model.encoder.costs.load_state_dict(before)
        just = slice(row, row + 1)
        one = Encoding(
            encoding.vector[just],
            torch.zeros_like(encoding.penalty[just]),
            encoding.steps[just],
            log_probability=encoding.log_probability[just],
        )
        baseline = None if output.baseline is None else output.baseline[just]
        loss = Output(output.logits[just], (one,), baseline, model.encoder.relative_cost).loss(labels[just])
        chance = encoding.log_probability[row].exp().detach()
        found = torch.autograd.grad(
            chance * loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        totals = [total + each for total, each in zip(totals, found, strict=True)]
    return totals


def gradients_of_expectation(model, output, labels):
    """The gradient of the mean cross-entropy, in which each row of the output has its probability."""
    chances = output.encodings[0].log_probability.exp()
    expected = (chances * nn.functional.cross_entropy(output.logits, labels, reduction="none")).sum()
    return torch.autograd.grad(
        expected, list(model.parameters()), retain_graph=True, allow_unused=True, materialize_grads=True
    )


def assert_expected_gradients(model, output, labels, name):
    """Assert that both are the same for every parameter, and not small for the one of this name."""
    got, want = (find(model, output, labels) for find in (expected_gradients, gradients_of_expectation))
    for (parameter, _), ours, theirs in zip(model.named_parameters(), got, want, strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=1e-8, atol=1e-10, msg=lambda text, parameter=parameter: f"{parameter}: {text}"
        )
    assert dict(zip(dict(model.named_parameters()), want, strict=True))[name].abs().max() > 1e-3


def scripted(*columns):
    """A choice that takes the decisions of these columns, one step after another, in place of sampling."""
    steps = iter(zip(*columns, strict=True))
    return lambda scores: torch.tensor(next(steps), device=scores.device)
