"""Evaluation: scores in all and by group, however the examples are portioned."""

import random

import pytest
import torch

from crvnn_core import CrvnnError, Example, InputError, Score
from crvnn_core.model.batch import collate
from crvnn_core.training import evaluation
from crvnn_core.training.evaluation import evaluate
from small import Letters, variant


@pytest.fixture(scope="module")
def assembly():
    """A small untrained model, which is right and wrong about as often."""
    return variant("model.input_dropout=0.5")


@pytest.fixture(scope="module")
def examples(assembly):
    return [*assembly.task.examples("train", 3), *assembly.task.examples("dev", 0)]


def by_hand(assembly, examples):
    """Loss, whether right, and steps of each example on its own."""
    found = []
    assembly.model.eval()
    with torch.no_grad():
        for example in examples:
            output = assembly.model(collate([example], assembly.model.vocabulary))
            loss = -output.logits.log_softmax(-1)[0, example.label].item()
            steps = [encoding.steps.item() for encoding in output.encodings]
            found.append((loss, output.logits.argmax().item() == example.label, sum(steps) / len(steps)))
    assembly.model.train()
    return found


def assert_score(score, facts):
    losses, right, steps = zip(*facts, strict=True)
    assert score.examples == len(facts)
    assert score.accuracy == pytest.approx(sum(right) / len(right))
    assert score.loss == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    assert score.depth == pytest.approx(sum(steps) / len(steps))


@pytest.mark.parametrize("task", ["letters", "pairs"])
def test_scores_agree_with_a_count_by_hand(task):
    assembly = variant(f"task={task}")
    examples = list(assembly.task.examples("train", 3))
    facts = by_hand(assembly, examples)
    result = evaluate(assembly.model, assembly.task, examples)
    assert_score(result.total, facts)
    assert 0 < result.total.accuracy < 1
    lengths = {assembly.task.bucket(example) for example in examples} - {""}
    assert set(result.buckets) == lengths
    for name, score in result.buckets.items():
        group = [fact for fact, e in zip(facts, examples, strict=True) if assembly.task.bucket(e) == name]
        assert_score(score, group)


@pytest.mark.parametrize("tokens", [0, 1, 9, 4096])
def test_neither_the_budget_nor_the_order_changes_a_result(assembly, examples, tokens):
    whole = evaluate(assembly.model, assembly.task, examples)
    shuffled = random.Random(0).sample(examples, len(examples))
    part = evaluate(assembly.model, assembly.task, shuffled, tokens=tokens)
    assert list(part.buckets) == list(whole.buckets)
    for one, two in zip(
        [whole.total, *whole.buckets.values()], [part.total, *part.buckets.values()], strict=True
    ):
        assert (one.examples, one.accuracy) == (two.examples, two.accuracy)
        assert (one.loss, one.depth) == pytest.approx((two.loss, two.depth), abs=1e-6)


@pytest.mark.parametrize("processes", [2, 3, 100])
def test_the_shares_of_several_processes_add_up(assembly, examples, processes):
    alone = evaluate(assembly.model, assembly.task, examples, tokens=9)
    shares = []

    def collect(facts):
        shares.append(facts.clone())
        return facts

    for number in range(processes):
        evaluate(assembly.model, assembly.task, examples, tokens=9, share=(number, processes), gather=collect)
    together = evaluate(
        assembly.model, assembly.task, examples, share=(0, processes), gather=lambda facts: sum(shares)
    )
    assert together.total.accuracy == alone.total.accuracy
    assert together.total.loss == pytest.approx(alone.total.loss, abs=1e-6)
    assert {name: score.accuracy for name, score in together.buckets.items()} == {
        name: score.accuracy for name, score in alone.buckets.items()
    }


def test_groups_that_begin_with_a_number_come_in_its_order(assembly):
    names = ["100-200", "9", "20-30", "1000", "", "long", "3-10", "odd"]

    class Named(Letters):
        def bucket(self, example):
            return names[len(example.sequences[0]) - 1]

    examples = [Example((("a",) * n,), n % 2) for n in range(1, len(names) + 1)]
    result = evaluate(assembly.model, Named(), examples)
    assert list(result.buckets) == ["long", "odd", "3-10", "9", "20-30", "100-200", "1000"]
    assert result.total.examples == len(names)  # that of no group counts in all


def test_nothing_to_evaluate_is_an_error(assembly):
    with pytest.raises(InputError, match="there are no examples to evaluate"):
        evaluate(assembly.model, assembly.task, [])


def test_the_model_is_left_in_the_mode_it_was_in(assembly, examples):
    for mode in (True, False):
        assembly.model.train(mode)
        evaluate(assembly.model, assembly.task, examples[:3])
        assert assembly.model.training is mode
    assembly.model.train()

    def fail(number):
        raise CrvnnError("enough")

    with pytest.raises(CrvnnError, match="enough"):
        evaluate(assembly.model, assembly.task, examples[:3], done=fail)
    assert assembly.model.training


def test_it_is_told_how_many_examples_are_done(assembly, examples):
    told = []
    evaluate(assembly.model, assembly.task, examples, tokens=9, done=told.append)
    assert sum(told) == len(examples)
    assert len(told) > 5


def test_a_result_can_be_written_as_json(assembly, examples):
    import json

    result = evaluate(assembly.model, assembly.task, examples)
    plain = json.loads(json.dumps(result.plain()))
    assert Score(**plain["total"]) == result.total
    assert {name: Score(**score) for name, score in plain["buckets"].items()} == result.buckets
    assert result.total.metrics() == {
        "loss": result.total.loss, "accuracy": result.total.accuracy, "depth": result.total.depth
    }  # fmt: skip


@pytest.fixture
def memory_for(monkeypatch):
    """Lets memory run out for batches of more than so many examples; returns the sizes of those that fit."""
    facts, sizes = evaluation._facts, []

    def limit(most):
        def narrow(model, group, device, hard):
            if len(group) > most:
                raise torch.OutOfMemoryError("no memory left")
            sizes.append(len(group))
            return facts(model, group, device, hard)

        monkeypatch.setattr(evaluation, "_facts", narrow)
        return sizes

    return limit


def test_when_memory_runs_out_an_evaluation_goes_on_in_smaller_portions(assembly, examples, memory_for):
    whole = evaluate(assembly.model, assembly.task, examples[:8])
    sizes = memory_for(5)
    again = evaluate(assembly.model, assembly.task, examples[:8])
    assert sizes == [4, 4]
    assert again.total.accuracy == whole.total.accuracy
    assert again.total.loss == pytest.approx(whole.total.loss, abs=1e-6)


def test_memory_that_does_not_suffice_for_one_example_is_a_clear_error(assembly, examples, memory_for):
    memory_for(0)
    with pytest.raises(CrvnnError, match=r"memory ran out while evaluating an example of \d+ tokens"):
        evaluate(assembly.model, assembly.task, examples[:2])


def test_batches_of_an_evaluation_stay_within_the_budget_of_a_cpu(assembly, examples, monkeypatch):
    monkeypatch.setattr("crvnn_core.training.evaluation.TOKEN_BUDGET", 12)
    sizes = []
    assembly.model.register_forward_pre_hook(
        lambda model, args: sizes.append(args[0].sequences[0].ids.numel())
    )
    for tokens in (0, 1000):
        evaluate(assembly.model, assembly.task, examples, tokens=tokens)
    longest = max(len(example.sequences[0]) for example in examples)
    assert max(sizes) <= max(12, longest)
