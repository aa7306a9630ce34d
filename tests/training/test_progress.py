"""The learning rate, the best weights, early stopping, and the development split that decides on them."""

import json
import math

import pytest

from crvnn_core import Result, Score
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training import trainer as training
from crvnn_core.training.trainer import train
from small import Letters, differences, notes_of, variant, weights
from training_runs import Gauge, trained


@pytest.fixture
def scripted(monkeypatch):
    """Replaces the scores of the development split; the last one holds for every later evaluation."""

    def script(*accuracies, losses=None):
        scores = [
            Score(1, accuracy, loss, 0.0)
            for accuracy, loss in zip(accuracies, losses or [1.0] * len(accuracies), strict=True)
        ]
        left = iter(scores)
        monkeypatch.setattr(training, "evaluate", lambda *_, **__: Result(next(left, scores[-1]), {}))

    return script


EVERY = ("training.evaluate_every=1", "training.optimizer.learning_rate=0.16", "training.halve_after=0")


@pytest.mark.parametrize(
    ("setting", "rates"),
    [
        ("training.warmup=4", [0.04, 0.08, 0.12, 0.16, 0.16, 0.16]),
        ("training.anneal=true", [0.16 * 0.5 * (1 + math.cos(math.pi * step / 6)) for step in range(6)]),
    ],
)
def test_the_learning_rate_rises_linearly_during_warmup_and_is_annealed_along_a_cosine(setting, rates):
    assert notes_of(trained(*EVERY, setting)).metric("learning_rate") == pytest.approx(rates)


@pytest.mark.parametrize(
    ("sets", "accuracies", "losses", "rates"),
    [
        # evaluations 3 and 4 are no better than 2, 6 and 7 no better than 5, nor are 8 and 9
        (
            ["halve_after=2"],
            [0.5, 0.6, 0.6, 0.55, 0.7, *[0.7] * 5],
            None,
            [0.16] * 4 + [0.08] * 3 + [0.04] * 2 + [0.02],
        ),
        (
            ["halve_after=1"],
            [0.5, 0.50001, 0.50002, 0.50003],
            None,
            [0.16] * 4,
        ),  # any improvement ends a plateau
        (["halve_after=1", "watch=loss"], [0.5] * 3, [math.nan, 3.0, 2.0], [0.16] * 3),
        (["halve_after=0"], [0.5] * 6, None, [0.16] * 6),
    ],
    ids=["plateaus", "any improvement", "a loss that is a number again", "never"],
)
def test_the_learning_rate_is_halved_on_a_plateau(scripted, sets, accuracies, losses, rates):
    scripted(*accuracies, losses=losses)
    sets = [f"training.{text}" for text in (*sets, f"steps={len(accuracies)}")]
    notes = notes_of(trained(*EVERY, *sets))
    assert notes.metric("learning_rate") == pytest.approx(rates)
    halved = "no better in 2 evaluations: the learning rate is halved"
    assert [message for (message,) in notes.of("noted")] == [halved] * (len(set(rates)) - 1)


@pytest.mark.parametrize("watch", ["accuracy", "loss"])
def test_a_plateau_ends_only_with_an_improvement_above_the_threshold(scripted, watch):
    scripted(0.5, 0.52, 0.54, 0.56, 0.58, losses=[1.0, 0.96, 0.92, 0.88, 0.8])
    sets = (*EVERY, f"training.watch={watch}", "training.halve_after=2", "training.threshold=0.1")
    assembly = variant(*sets, "training.steps=5", "training.patience=2")
    outcome = train(assembly)
    # evaluations 2 and 3 are less than 10% better than the first, evaluation 4 is more
    assert notes_of(assembly).metric("learning_rate") == pytest.approx([0.16] * 3 + [0.08] * 2)
    assert (outcome.best_step, outcome.stopped) == (5, "")  # each of them is the best so far all the same


@pytest.mark.parametrize(
    ("accuracies", "sets", "expected"),
    [
        ([0.5, 0.6, 0.6, 0.1, 0.59], ("steps=50", "patience=3"), (5, 2, "no better since step 2")),
        ([0.1, 0.1, 0.2, 0.2, 0.3, 0.3], ("patience=2",), (6, 5, "")),
    ],
)
def test_training_stops_early_when_nothing_improves_within_its_patience(scripted, accuracies, sets, expected):
    scripted(*accuracies)
    outcome = train(variant(*EVERY, *(f"training.{text}" for text in sets)))
    assert (outcome.step, outcome.best_step, outcome.stopped) == expected
    assert outcome.finished


def test_the_loss_may_be_watched_instead_of_the_accuracy(scripted):
    losses = [0.9, 0.5, 0.7, 0.4, 0.6, 0.4]
    for watch, best in (("loss", 4), ("accuracy", 3)):
        scripted(0.1, 0.2, 0.9, 0.8, 0.7, 0.6, losses=losses)
        assert train(variant(*EVERY, f"training.watch={watch}")).best_step == best


def test_of_equal_accuracies_the_lower_loss_is_the_best(scripted):
    scripted(0.5, 0.9, 0.9, 0.9, 0.8, 0.9, losses=[0.1, 0.7, 0.5, 0.6, 0.2, 0.5])
    assert train(variant(*EVERY)).best_step == 3


def test_a_lower_loss_alone_neither_ends_a_plateau_nor_postpones_the_end(scripted):
    losses = [1.0, 0.9, 0.8, 0.7]
    scripted(*[0.5] * 4, losses=losses)
    assembly = variant(*EVERY, "training.steps=50", "training.patience=3", "training.halve_after=2")
    outcome = train(assembly)
    assert (outcome.step, outcome.best_step) == (4, 4)
    assert notes_of(assembly).metric("learning_rate") == pytest.approx([0.16] * 3 + [0.08])


@pytest.mark.parametrize("rows", [1, 19])
def test_a_development_split_that_is_too_small_to_choose_by_is_said(rows):
    class Few(Letters):
        development_advice = "give it letters"

        def examples(self, split, seed):
            yield from list(super().examples(split, seed))[: None if split == "train" else rows]

    assembly = variant(task=Few)
    train(assembly)
    (said,) = [note for (note,) in notes_of(assembly).of("noted") if "too few" in note]
    assert said.startswith(f"the development split has {rows} row{'s' * (rows > 1)}, too few to choose")
    assert f"{100 / rows:.0f} points of accuracy" in said
    assert said.endswith(": give it letters")


def test_an_epoch_of_one_small_batch_is_said():
    assembly = variant("training.batch=128", "training.epochs=1", "training.steps=0")
    train(assembly)
    (said,) = [note for (note,) in notes_of(assembly).of("noted")]
    assert said.startswith("an epoch has 40 rows, which are one step (training.batch=128)")


@pytest.fixture
def past_the_peak(scripted):
    """A variant whose best evaluation is at step 4 of 8, and a gauge of its weights at every evaluation."""
    scripted(0.5, 0.9, 0.4, 0.3)
    assembly = variant("training.steps=8", "training.evaluate_every=2")
    gauge = Gauge(lambda: weights(assembly))
    assembly.observers.append(gauge)
    return assembly, gauge


def test_the_best_weights_are_kept_and_left_in_the_model_and_the_last_kept_too(past_the_peak, tmp_path):
    assembly, gauge = past_the_peak
    assert train(assembly, tmp_path / "run").best_step == 4
    run = RunDirectory(tmp_path / "run")
    assert differences(checkpoint.load(run.weights)["model"], gauge.evaluations[1]) == []
    assert differences(weights(assembly), gauge.evaluations[1]) == []
    last = checkpoint.load(run.last)
    assert last["position"]["step"] == 8
    assert differences(last["model"], gauge.evaluations[3]) == []
    assert json.loads(run.results.read_text())["step"] == 4


def test_the_best_weights_are_left_in_the_model_without_a_directory_too(past_the_peak):
    assembly, gauge = past_the_peak
    assert train(assembly).best_step == 4
    assert differences(weights(assembly), gauge.evaluations[1]) == []


class Unsplit(Letters):
    splits = ("train",)


class WithoutDevelopment(Letters):
    splits = ("train", "test")


@pytest.mark.parametrize("task", [Unsplit, WithoutDevelopment])
def test_without_a_development_split_the_last_weights_are_the_best_and_test_is_never_used_for_it(
    task, tmp_path
):
    assembly = variant(task=task)
    outcome = train(assembly, tmp_path / "run")
    assert outcome.best_step == outcome.step == 6
    assert tuple(outcome.results) == task.splits[1:]
    kept = checkpoint.load(RunDirectory(tmp_path / "run").weights)["model"]
    assert differences(kept, weights(assembly)) == []
    notes = notes_of(assembly)
    assert "evaluated" not in notes.kinds
    assert any("no development split" in message for (message,) in notes.of("noted"))


def test_another_split_may_be_named_for_development():
    class Named(Letters):
        splits = ("train", "validation")
        development = "validation"

    assembly = variant(task=Named)
    assert list(train(assembly).results) == ["validation"]
    assert "evaluated" in notes_of(assembly).kinds
