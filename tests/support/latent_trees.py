"""Latent-tree encoders written from their equations with plain recursion, one sequence at a time."""

from __future__ import annotations

import torch
from torch import nn

from crvnn_core import Cell


class LinearCell(Cell):
    """A parent is an affine function of its children, so means over trees and composition commute."""

    def __init__(self, width):
        super().__init__(width)
        self.first, self.compose = nn.Linear(width, width), nn.Linear(2 * width, width)

    def leaf(self, inputs):
        return self.first(inputs)

    def forward(self, left, right):
        return self.compose(torch.cat([left, right], -1))


def beam_tree_score(encoder, left, right):
    """The score of a pair by its parent."""
    return encoder.scorer(encoder.cell.readout(encoder.cell(left, right)))[0]


def efficient_beam_tree_score(encoder, left, right):
    """The score of a pair by the first numbers of both children."""
    first = slice(encoder.score_width)
    hidden, activation, output = encoder.scorer
    children = torch.cat([encoder.cell.readout(left)[first], encoder.cell.readout(right)[first]])
    return output.weight[0] @ activation(hidden.weight @ children + hidden.bias)


def merges(encoder, score, nodes):
    """The log-probability of each merge of neighbours, and the nodes that it leaves."""
    logits = torch.stack([score(encoder, *nodes[at : at + 2]) for at in range(len(nodes) - 1)])
    for at, log_p in enumerate(logits - logits.logsumexp(0)):
        yield at, log_p, [*nodes[:at], encoder.cell(nodes[at], nodes[at + 1]), *nodes[at + 2 :]]


def all_merge_sequences(encoder, score, nodes, log_p=0.0):
    """The log-probability and the root of every one of the (n - 1)! sequences of merges."""
    if len(nodes) == 1:
        yield log_p, nodes[0]
        return
    for _, step, rest in merges(encoder, score, nodes):
        yield from all_merge_sequences(encoder, score, rest, log_p + step)


def exhaustive(encoder, score, tokens):
    """The expectation of the root over all sequences of merges."""
    found = all_merge_sequences(encoder, score, list(encoder.cell.leaf(tokens)))
    return sum(torch.as_tensor(log_p).exp() * encoder.cell.readout(root) for log_p, root in found)


def slow_beams(encoder, score, tokens):
    """The vector and the best tree, with a list of beams; a tree is written as pairs of pairs of positions."""
    beams = [(tokens.new_zeros(()), list(encoder.cell.leaf(tokens)), list(range(len(tokens))))]
    for _ in range(len(tokens) - 1):
        continued = [
            (total + log_p, rest, [*trees[:at], (trees[at], trees[at + 1]), *trees[at + 2 :]])
            for total, nodes, trees in beams
            for at, log_p, rest in merges(encoder, score, nodes)
        ]
        beams = sorted(continued, key=lambda beam: -beam[0].item())[: encoder.beam]
    weights = torch.stack([total for total, _, _ in beams]).softmax(0)
    roots = [encoder.cell.readout(nodes[0]) for _, nodes, _ in beams]
    return sum(weight * root for weight, root in zip(weights, roots, strict=True)), beams[0][2][0]


def chart_scores(encoder, parents):
    """The scores of the parents of all splits of a span."""
    scores = []
    for parent in parents:
        vector = encoder.cell.readout(parent)
        size = vector.norm() * encoder.query.norm() if encoder.score == "cosine" else 1
        scores.append(encoder.query @ vector / size / encoder.temperature)
    return torch.stack(scores)


def slow_chart(encoder, tokens, start=0):
    """The node of a span, and its tree of best splits, as pairs of pairs of positions."""
    if len(tokens) == 1:
        return encoder.cell.leaf(tokens[0]), start
    halves = [
        (slow_chart(encoder, tokens[:k], start), slow_chart(encoder, tokens[k:], start + k))
        for k in range(1, len(tokens))
    ]
    parents = [encoder.cell(left, right) for (left, _), (right, _) in halves]
    scores = chart_scores(encoder, parents)
    (_, left), (_, right) = halves[int(scores.argmax())]
    return sum(weight * each for weight, each in zip(scores.softmax(0), parents, strict=True)), (left, right)


def all_trees(encoder, tokens):
    """The probability and the root of every binary tree over the tokens; splits are drawn from the root down.

    The score of a split is the mean over all trees of both parts.
    """
    if len(tokens) == 1:
        return [(tokens.new_ones(()), encoder.cell.leaf(tokens[0]))]
    splits = [
        [
            (p * q, encoder.cell(left, right))
            for p, left in all_trees(encoder, tokens[:k])
            for q, right in all_trees(encoder, tokens[k:])
        ]
        for k in range(1, len(tokens))
    ]
    scores = [sum(p * chart_scores(encoder, [root])[0] for p, root in trees) for trees in splits]
    chances = torch.stack(scores).softmax(0)
    return [(chance * p, root) for chance, trees in zip(chances, splits, strict=True) for p, root in trees]
