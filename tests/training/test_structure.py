"""Measures of structure at evaluations: trees, sharpness, hard inference, against tools that measure them alone."""

import pytest
import torch

from crvnn_core.engine.trace import Trace
from crvnn_core.inference.trained import load
from crvnn_core.inference.tree_scores import score_trees
from crvnn_core.interfaces import Encoding
from crvnn_core.training.data import split_examples
from crvnn_core.training.evaluation import _mass, evaluate, structure
from small import notes_of, variant
from training_runs import trained


def test_they_are_those_of_trees_and_eval():
    model = load("listops", sets=["task.held_out=60", "task.test_max_tokens=40"])
    examples = list(split_examples(model.task, "test", 0))
    found = structure(model.model, model.task, examples)
    scores = score_trees({"listops": model}, examples).scores["listops"]
    assert found["constituents"] == scores.constituents
    assert found["f1"] == pytest.approx(scores.f1)
    hard = evaluate(model.model, model.task, examples, hard=True).total.accuracy
    assert found["hard"] == pytest.approx(hard)
    assert found["sharpness"] > 0.999


@pytest.mark.parametrize(("c", "expected"), [(1.0, 1.0), (0.25, 0.25)])
def test_sharpness_is_the_mean_of_c_where_something_composes(c, expected):
    compose = torch.zeros(3, 2, 4)
    compose[0, 0, 1], compose[2, 1, 0] = c, c
    trace = Trace(compose, torch.ones(4, 2, 4), torch.ones(2, 4, dtype=torch.bool), torch.tensor([1, 3]))
    total, weight = _mass(Encoding(torch.zeros(2, 3), torch.tensor([1, 3]), torch.zeros(()), trace=trace))
    assert total / weight == pytest.approx(expected)


def test_the_trainer_measures_as_many_examples_as_it_is_told_and_says_so():
    events = notes_of(trained("training.evaluate_trees=5", "training.evaluate_every=2")).events
    evaluations = [event[2] for event in events if event[0] == "evaluated"]
    assert evaluations
    assert all({"accuracy", "sharpness", "hard"} <= set(metrics) for metrics in evaluations)


def test_an_encoder_without_trees_has_no_measures_of_them():
    assembly = variant("model.encoder=lstm")
    examples = list(split_examples(assembly.task, assembly.task.splits[1], 0))
    assert structure(assembly.model, assembly.task, examples) == {}
