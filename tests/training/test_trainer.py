"""Training: what is learnt, what observers are told, and what happens when something goes wrong."""

import errno
import json
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from crvnn_core import (
    Cell,
    CrvnnError,
    Example,
    Observer,
    PluginError,
    Result,
    Score,
    train,
)
from crvnn_core.inference.model import Model
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training import trainer as training
from small import Letters, Notebook, differences, notes_of, variant, weights


class Gauge(Observer):
    """Keeps something measured after every step and every look."""

    def __init__(self, measure):
        self.measure, self.steps, self.looks = measure, [], []

    def stepped(self, step, metrics):
        self.steps.append(self.measure())

    def evaluated(self, step, metrics):
        self.looks.append(self.measure())


def trained(*sets, out=None, **components):
    """A small variant after its training."""
    assembly = variant(*sets, **components)
    train(assembly, out, evaluate_splits=[])
    return assembly


# Learning.


def test_training_learns_what_its_task_asks():
    assembly = variant("training.steps=70", "training.evaluate_every=10", "training.watch=loss")
    outcome = train(assembly)
    assert outcome.results["test"].total.accuracy >= 0.9  # half of the answers are yes
    losses = notes_of(assembly).metric("loss")
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_training_twice_from_one_seed_gives_the_same_bits():
    sets = ("model.input_dropout=0.2", "model.output_dropout=0.2")
    one, two, other = trained(*sets), trained(*sets), trained(*sets, "seed=6")
    assert differences(weights(one), weights(two)) == []
    assert differences(weights(one), weights(other))


def test_random_numbers_drawn_before_training_do_not_matter():
    one, two = (variant("model.input_dropout=0.2") for _ in range(2))
    train(one, evaluate_splits=[])
    torch.rand(7), random.random(), np.random.rand()
    train(two, evaluate_splits=[])
    assert differences(weights(one), weights(two)) == []


def test_dropout_is_at_work_in_training_and_not_in_evaluation():
    plain, dropping = trained("training.steps=1"), trained("training.steps=1", "model.input_dropout=0.5")
    assert notes_of(plain).metric("loss") != notes_of(dropping).metric("loss")
    (_, metrics), *_ = notes_of(dropping).of("evaluated")
    again = training.evaluate(
        dropping.model, dropping.task, list(dropping.task.examples("dev", 0))
    ).total.metrics()
    assert metrics == again


def test_dropout_is_another_at_every_step():
    assembly = variant("model.input_dropout=0.5", "training.steps=3", task=Even)
    dropped = []

    def look(module, inputs, output):
        if module.training:
            dropped.append(output == 0)

    assembly.model.dropout.register_forward_hook(look)
    train(assembly, evaluate_splits=[])
    one, two, three = dropped
    assert not torch.equal(one, two)
    assert not torch.equal(two, three)


@pytest.mark.parametrize(("task", "tokens"), [("letters", 1), ("letters", 13), ("pairs", 13)])
def test_a_small_budget_of_tokens_gives_the_same_weights(task, tokens):
    sets = (f"task={task}", 'training.precision="64"')  # in which nothing but rounding can differ
    whole, split = trained(*sets), trained(*sets, f"training.tokens={tokens}")
    for name in ("loss", "accuracy", "depth"):
        assert notes_of(whole).metric(name) == pytest.approx(notes_of(split).metric(name), abs=1e-5)
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(weights(split)[name], tensor, atol=1e-9, rtol=0)


def padded(batch):
    """Tokens and padding of a batch."""
    return sum(tokens.ids.numel() for tokens in batch.sequences)


@pytest.fixture
def watched(monkeypatch):
    """Calls a function with every batch that goes through a model in training."""

    def watch(look):
        forward = Model.forward

        def watched_forward(self, batch, **options):
            output = forward(self, batch, **options)
            if self.training:
                look(batch)
            return output

        monkeypatch.setattr(Model, "forward", watched_forward)

    return watch


@pytest.mark.parametrize("task", ["letters", "pairs"])
def test_no_more_tokens_than_the_budget_go_through_the_model_at_a_time(task, watched):
    sizes = []
    watched(lambda batch: sizes.append(padded(batch)))
    trained("training.tokens=12", f"task={task}")
    assert len(sizes) > 6
    assert max(sizes) <= 12


def test_every_epoch_shows_every_example_once(watched):
    seen = []
    watched(lambda batch: seen.append(batch))
    assembly = trained("training.epochs=3", "training.steps=0", "task.rows=19", "training.evaluate_every=0")
    assert [len(batch.labels) for batch in seen].count(8) == 6
    for epoch in range(3):
        lengths = [
            n for batch in seen[3 * epoch : 3 * epoch + 3] for n in batch.sequences[0].mask.sum(1).tolist()
        ]
        assert sorted(lengths) == sorted(len(e.sequences[0]) for e in assembly.task.examples("train", 0))
    assert [step for step, _ in notes_of(assembly).of("evaluated")] == [3, 6, 9]


class Growing(Letters):
    """Gives new examples every epoch, and more each time."""

    def epoch(self, seed, number):
        return list(self.examples("train", seed + number))[: 8 * (number + 1)]


def test_a_task_may_give_other_examples_every_epoch(watched):
    seen = []
    watched(lambda batch: seen.extend(batch.labels.tolist()))
    trained("training.steps=3", task=Growing)
    assert len(seen) == 24  # a batch of the first epoch, two of the second


def test_steps_and_epochs_each_set_a_limit():
    for epochs, steps, wanted in ((2, 0, 10), (0, 7, 7), (2, 7, 7), (1, 70, 5)):
        assembly = trained(f"training.epochs={epochs}", f"training.steps={steps}")
        (told, _), *_ = notes_of(assembly).of("started")
        assert told == len(notes_of(assembly).of("stepped")) == wanted


def test_the_gradient_is_cut_to_the_given_norm():
    def descent(params: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=1.0)

    assembly = variant("training.clip=0.01", "training.steps=1", optimizer=descent)
    before = torch.nn.utils.parameters_to_vector(assembly.model.parameters()).detach().clone()
    train(assembly, evaluate_splits=[])
    after = torch.nn.utils.parameters_to_vector(assembly.model.parameters()).detach()
    assert (after - before).norm().item() == pytest.approx(0.01, rel=1e-2)


def test_scheduled_parts_follow_the_progress_of_training():
    assembly = variant(
        "model.decision=tempered",
        "model.decision.start=2.0",
        "model.decision.end=0.5",
        "model.decision.schedule=linear",
        "training.steps=3",
    )
    decision = assembly.model.encoder.decision
    gauge = Gauge(lambda: decision.temperature.item())
    assembly.observers.append(gauge)
    assert decision.temperature.item() == 2.0
    train(assembly, evaluate_splits=[])
    assert gauge.steps == pytest.approx([1.5, 1.0, 0.5])


def test_frozen_vectors_stay_as_they_are_and_the_unknown_is_trained(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{letter} {i}.5 1 -{i}\n" for i, letter in enumerate("abcdef")))
    for trainable in (False, True):
        sets = ("model.embedding=glove", f"model.embedding.path={path}", "training.batch=40")
        assembly = variant(*sets, f"model.embedding.trainable={str(trainable).lower()}", task=Stranger)
        before = weights(assembly)
        train(assembly, evaluate_splits=[])
        changed = differences(before, weights(assembly))
        assert ("embed.weight" in changed) == trainable
        assert "embed.unknown" in changed


class Stranger(Letters):
    """Writes a letter that is not in the vocabulary."""

    def examples(self, split, seed):
        for example in super().examples(split, seed):
            yield Example((("x", *example.sequences[0]),), example.label)


# Precision and devices.


@pytest.mark.parametrize(
    ("precision", "kind"), [("32", torch.float32), ("64", torch.float64), ("bf16-mixed", torch.float32)]
)
def test_training_works_in_every_precision(precision, kind, tmp_path):
    assembly = trained(f'training.precision="{precision}"', out=tmp_path / "run")
    kept = checkpoint.load(RunDirectory(tmp_path / "run").weights)["model"]
    assert {tensor.dtype for tensor in kept.values() if tensor.is_floating_point()} == {kind}
    assert all(math.isfinite(loss) for loss in notes_of(assembly).metric("loss"))


def test_mixed_precision_is_near_full_precision_and_not_the_same():
    sets = ('training.precision="32"', 'training.precision="bf16-mixed"')
    full, mixed = (notes_of(trained(text)).metric("loss") for text in sets)
    assert full != mixed
    assert mixed == pytest.approx(full, abs=0.05)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_is_not_here_is_one_clear_error():
    with pytest.raises(CrvnnError, match=r"\[training\] cannot be done on this machine: .*CUDA"):
        train(variant("training.accelerator=cuda"))


# Observers.


def test_observers_are_told_of_the_start_every_step_every_look_and_the_end(tmp_path):
    assembly, more = variant("training.steps=5"), Notebook()
    assembly.observers.append(more)
    train(assembly, tmp_path / "run")
    notes = assembly.observers[-2]
    size = sum(p.numel() for p in assembly.model.parameters())
    facts = {"parameters": size, "step": 0, "directory": str(tmp_path / "run")}
    assert notes.events[0] == ("started", 5, facts)
    looks = ["stepped"] * 3 + ["evaluated"] + ["stepped"] * 2 + ["evaluated"]
    assert notes.kinds == ["started", *looks, "finished"]
    assert [step for step, _ in notes.of("stepped")] == [1, 2, 3, 4, 5]
    assert notes.events == more.events
    for _, metrics in notes.of("stepped"):
        assert set(metrics) == {"loss", "accuracy", "depth", "tokens_per_second", "learning_rate"}
        assert 0 <= metrics["accuracy"] <= 1
        assert metrics["tokens_per_second"] > 0
        assert all(type(value) is float for value in metrics.values())
    for step, metrics in notes.of("evaluated"):
        assert step in (3, 5)
        assert set(metrics) == {"loss", "accuracy", "depth"}


def test_without_a_directory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assembly = trained()
    assert list(tmp_path.iterdir()) == []
    assert notes_of(assembly).events[0][2]["directory"] is None


class Raising(Notebook):
    """Fails when told of one kind of event."""

    def __init__(self, kind, error):
        super().__init__()
        setattr(self, kind, self.fail)
        self.error = error

    def fail(self, *_):
        raise self.error


@pytest.mark.parametrize("kind", ["stepped", "evaluated"])
@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt(), SystemExit(3)])
def test_observers_hear_of_the_end_whatever_goes_wrong(kind, error):
    assembly = variant()
    raising = Raising(kind, error)
    assembly.observers.append(raising)
    with pytest.raises((PluginError, KeyboardInterrupt)) as caught:
        train(assembly)
    assert caught.value is error or f"observer Raising failed in '{kind}'" in str(caught.value)
    assert assembly.observers[-2].kinds[-1] == raising.kinds[-1] == "finished"


def test_observers_that_had_begun_hear_of_the_end_when_another_cannot_begin():
    assembly = variant()
    notes, unready = notes_of(assembly), Raising("started", OSError("the disk is full"))
    assembly.observers.append(unready)
    with pytest.raises(PluginError, match="observer Raising failed in 'started': OSError: the disk is full"):
        train(assembly)
    assert notes.kinds == ["started", "finished"]
    assert unready.kinds == []


# The learning rate, and what is looked at.


@pytest.fixture
def scripted(monkeypatch):
    """Makes the looks at the development split end as told; the last score holds for all that follow."""

    def script(*accuracies, losses=None):
        scores = [
            Score(1, accuracy, loss, 0.0)
            for accuracy, loss in zip(accuracies, losses or [1.0] * len(accuracies), strict=True)
        ]
        left = iter(scores)
        monkeypatch.setattr(training, "evaluate", lambda *_, **__: Result(next(left, scores[-1]), {}))

    return script


EVERY = ("training.evaluate_every=1", "training.optimizer.learning_rate=0.16", "training.halve_after=0")


def test_the_learning_rate_rises_over_the_first_steps():
    rates = notes_of(trained(*EVERY, "training.warmup=4")).metric("learning_rate")
    assert rates == pytest.approx([0.04, 0.08, 0.12, 0.16, 0.16, 0.16])


def test_the_learning_rate_sinks_along_a_cosine():
    rates = notes_of(trained(*EVERY, "training.anneal=true")).metric("learning_rate")
    assert rates == pytest.approx([0.16 * 0.5 * (1 + math.cos(math.pi * step / 6)) for step in range(6)])


def test_the_learning_rate_is_halved_when_nothing_improves(scripted):
    scripted(0.5, 0.6, 0.6, 0.55, 0.7, 0.7, 0.7, 0.7, 0.7)
    notes = notes_of(trained(*EVERY, "training.steps=10", "training.halve_after=2"))
    # looks 3 and 4 are no better than 2, 6 and 7 no better than 5, nor are 8 and 9
    rates = [0.16] * 4 + [0.08] * 3 + [0.04] * 2 + [0.02]
    assert notes.metric("learning_rate") == pytest.approx(rates)
    told = [message for (message,) in notes.of("noted")]
    assert told[0] == "no better since step 2: the learning rate is halved"
    assert len(told) == 3


def test_the_learning_rate_stays_when_it_is_never_to_be_halved(scripted):
    scripted(0.5)
    notes = notes_of(trained(*EVERY))
    assert notes.metric("learning_rate") == pytest.approx([0.16] * 6)
    assert notes.of("noted") == []


def test_training_stops_early_when_nothing_improves(scripted):
    scripted(0.5, 0.6, 0.6, 0.1, 0.59)
    outcome = train(variant(*EVERY, "training.steps=50", "training.patience=3"))
    assert (outcome.step, outcome.best_step, outcome.finished) == (5, 2, True)
    assert outcome.stopped == "no better since step 2"


def test_training_that_improves_now_and_then_goes_on_to_its_end(scripted):
    scripted(0.1, 0.1, 0.2, 0.2, 0.3, 0.3)
    outcome = train(variant(*EVERY, "training.patience=2"))
    assert (outcome.step, outcome.best_step, outcome.stopped) == (6, 5, "")


def test_the_loss_may_be_watched_instead_of_the_accuracy(scripted):
    losses = [0.9, 0.5, 0.7, 0.4, 0.6, 0.4]
    for watch, best in (("loss", 4), ("accuracy", 3)):
        scripted(0.1, 0.2, 0.9, 0.8, 0.7, 0.6, losses=losses)
        assert train(variant(*EVERY, f"training.watch={watch}")).best_step == best


@pytest.fixture
def past_the_peak(scripted):
    """A variant that does best after step 4 of 8, and a gauge of its weights at every look."""
    scripted(0.5, 0.9, 0.4, 0.3)
    assembly = variant("training.steps=8", "training.evaluate_every=2")
    gauge = Gauge(lambda: weights(assembly))
    assembly.observers.append(gauge)
    return assembly, gauge


def test_the_best_weights_are_kept_and_the_last_ones_too(past_the_peak, tmp_path):
    assembly, gauge = past_the_peak
    outcome = train(assembly, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    assert outcome.best_step == 4
    assert differences(checkpoint.load(run.weights)["model"], gauge.looks[1]) == []
    best, last = checkpoint.load(run.best), checkpoint.load(run.last)
    assert (best["position"]["step"], last["position"]["step"]) == (4, 8)
    assert differences(best["model"], gauge.looks[1]) == []
    assert differences(last["model"], gauge.looks[3]) == []
    assert json.loads(run.results.read_text())["step"] == 4


def test_the_best_weights_are_evaluated_and_left_in_the_model(past_the_peak, tmp_path):
    assembly, gauge = past_the_peak
    train(assembly, tmp_path / "run")
    assert differences(weights(assembly), gauge.looks[1]) == []


def test_the_best_weights_are_left_in_the_model_without_a_directory_too(past_the_peak):
    assembly, gauge = past_the_peak
    assert train(assembly).best_step == 4
    assert differences(weights(assembly), gauge.looks[1]) == []


class Unsplit(Letters):
    splits = ("train",)


def test_without_a_development_split_the_last_weights_are_the_best(tmp_path):
    assembly = variant(task=Unsplit)
    outcome = train(assembly, tmp_path / "run")
    assert (outcome.best_step, outcome.results) == (6, {})
    kept = checkpoint.load(RunDirectory(tmp_path / "run").weights)["model"]
    assert differences(kept, weights(assembly)) == []


def test_only_the_splits_asked_for_are_evaluated():
    assert list(train(variant(), evaluate_splits=["test"]).results) == ["test"]
    assert list(train(variant()).results) == ["dev", "test"]


def test_a_task_without_training_examples_is_refused():
    with pytest.raises(CrvnnError, match="there are no training examples"):
        train(variant("task.rows=0"))


def test_a_wrong_example_is_named_by_its_epoch():
    class Wrong(Letters):
        def epoch(self, seed, number):
            yield Example((("a",),), 7)

    with pytest.raises(CrvnnError, match="example 0 of epoch 0 has the label 7; labels are 0 to 1"):
        train(variant(task=Wrong))


# When something goes wrong.


class Summing(Cell):
    """Adds its children until it is told to fail."""

    mode = "sound"

    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        parent = left + right
        if self.mode == "nan":
            parent = parent * torch.nan
        if self.mode == "bad gradient":  # 0, with a slope of 0 * infinity
            parent = parent + (parent - parent.detach()).abs().sqrt()
        return parent


def failing_after(step, mode, *sets, **components):
    """A variant whose cell fails from the step after ``step``."""
    assembly = variant(*sets, cell=Summing, **components)

    class Saboteur(Observer):
        def stepped(self, number, metrics):
            if number == step:
                assembly.model.encoder.cell.mode = mode

    assembly.observers.insert(0, Saboteur())
    return assembly


# Long enough for the cell to be used, in batches whose numbers are known.
STEADY = ("training.batch=20", "training.steps=9", "training.evaluate_every=4", "training.save_every=1")


@pytest.mark.parametrize(
    ("mode", "what"),
    [("nan", "the loss is nan and the gradient's norm nan"), ("bad gradient", "the gradient's norm nan")],
)
def test_a_loss_or_gradient_that_is_no_number_stops_training_and_says_where(mode, what, tmp_path):
    run = RunDirectory(tmp_path / "run")
    assembly = failing_after(3, mode, *STEADY)
    gauge = Gauge(lambda: weights(assembly))
    assembly.observers.append(gauge)
    with pytest.raises(CrvnnError) as caught:
        train(assembly, run.path)
    message = str(caught.value)
    assert what in message
    assert "at step 4 (batch 1 of epoch 1), and the weights were not changed by it" in message
    assert f"Its examples are in {run.failed_batch}." in message
    assert f"The last good checkpoint is {run.last}." in message
    assert differences(weights(assembly), gauge.steps[-1]) == []
    assert assembly.observers[-2].kinds[-1] == "finished"


def test_after_a_failure_the_last_checkpoint_is_intact_and_goes_on(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(CrvnnError):
        train(failing_after(3, "nan", *STEADY), run.path)
    assert checkpoint.load(run.last)["position"]["step"] == 3
    repaired, never_broken = variant(*STEADY, cell=Summing), variant(*STEADY, cell=Summing)
    train(repaired, run.path, resume=True)
    train(never_broken, tmp_path / "other")
    assert differences(weights(repaired), weights(never_broken)) == []


def test_the_examples_of_a_failed_batch_can_be_looked_at(tmp_path, watched):
    seen = []
    watched(lambda batch: seen.append(batch.labels.tolist()))
    run = RunDirectory(tmp_path / "run")
    assembly = failing_after(1, "nan", *STEADY)
    with pytest.raises(CrvnnError):
        train(assembly, run.path)
    rows = [json.loads(line) for line in run.failed_batch.read_text().splitlines()]
    assert [row["label"] for row in rows] == seen[-1]
    given = {(e.sequences, e.label) for e in assembly.task.examples("train", 0)}
    assert {(tuple(map(tuple, row["sequences"])), row["label"]) for row in rows} <= given


def test_a_failed_batch_may_have_labels_of_numpys_kind(tmp_path):
    class Counted(Letters):
        def examples(self, split, seed):
            for example in super().examples(split, seed):
                yield Example(example.sequences, np.int64(example.label))

    run = RunDirectory(tmp_path / "run")
    with pytest.raises(CrvnnError, match="the loss is nan"):
        train(failing_after(1, "nan", *STEADY, task=Counted), run.path)
    assert {json.loads(line)["label"] for line in run.failed_batch.read_text().splitlines()} == {0, 1}


def test_a_failure_before_the_first_checkpoint_or_without_a_directory_says_so(tmp_path):
    for out in (tmp_path / "run", None):
        with pytest.raises(CrvnnError, match=r"the loss is nan .* at step 2 .*There is no checkpoint yet\."):
            train(failing_after(1, "nan", *STEADY, "training.save_every=0"), out)


class Even(Letters):
    """Has sequences of one length only."""

    def examples(self, split, seed):
        for example in super().examples(split, seed):
            (letters,) = example.sequences
            yield Example(((*letters, *"fffff")[:5],), example.label)


def too_small_for(limit, error):
    """A look at a batch that fails if the batch is too large."""

    def look(batch):
        if padded(batch) > limit:
            raise error

    return look


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize(
    ("error", "dropout"), [*((error, 0.0) for error in OUT_OF_MEMORY), (OUT_OF_MEMORY[0], 0.2)]
)
def test_when_memory_runs_out_training_goes_on_in_smaller_portions(error, dropout, watched):
    sets = ("training.batch=12", f"model.input_dropout={dropout}")
    small_at_once = trained(*sets, "training.tokens=15", task=Even)  # 12 x 5 = 60, then 30, then 15
    watched(too_small_for(20, error))
    assembly = trained(*sets, task=Even)
    told = [message for (message,) in notes_of(assembly).of("noted")]
    assert told == [
        "memory ran out at step 1 with 60 tokens at a time; going on with at most 30 (the batch stays as it is)",
        "memory ran out at step 1 with 30 tokens at a time; going on with at most 15 (the batch stays as it is)",
    ]
    assert len(notes_of(assembly).of("stepped")) == 6
    assert differences(weights(assembly), weights(small_at_once)) == []


def test_what_memory_allows_is_remembered_when_a_run_is_taken_up(watched, tmp_path):
    watched(too_small_for(20, OUT_OF_MEMORY[0]))
    train(variant("training.batch=12", task=Even), tmp_path / "run")
    longer = variant("training.batch=12", "training.steps=9", task=Even)
    train(longer, tmp_path / "run", resume=True)
    assert notes_of(longer).of("noted") == []


def test_memory_that_does_not_suffice_for_one_example_is_a_clear_error(watched):
    watched(too_small_for(4, OUT_OF_MEMORY[0]))
    with pytest.raises(
        CrvnnError, match=r"memory ran out at step 1, with 5 tokens at a time\. Set training\.tokens"
    ):
        trained(task=Even)


def test_other_errors_are_not_taken_for_a_lack_of_memory(watched):
    watched(too_small_for(0, RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        trained()


class Full:
    """A disk that becomes full after a step: one of the ways to write then fails."""

    def __init__(self, monkeypatch, way):
        self.monkeypatch, self.way = monkeypatch, way

    def fill(self):
        def fail(*args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def fail_strangely(*args, **kwargs):
            raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device")

        where, name, how = {
            "writing": (safetensors.torch, "save_file", fail_strangely),
            "syncing": (os, "fsync", fail),
            "renaming": (Path, "replace", fail),
        }[self.way]
        self.monkeypatch.setattr(where, name, how)


@pytest.mark.parametrize("way", ["writing", "syncing", "renaming"])
@pytest.mark.parametrize("step", [3, 4])  # before a checkpoint, and before a look that would be the best
def test_a_full_disk_is_a_clear_error_and_the_old_checkpoint_is_still_there(way, step, tmp_path, monkeypatch):
    run = RunDirectory(tmp_path / "run")
    assembly = variant("training.evaluate_every=5", "training.save_every=1")
    with monkeypatch.context() as patch:
        disk = Full(patch, way)

        class Filling(Observer):
            def stepped(self, number, metrics):
                if number == step:
                    disk.fill()

        assembly.observers.append(Filling())
        with pytest.raises(CrvnnError, match=r"cannot be written: .*No space left on device") as caught:
            train(assembly, run.path)
    assert "the file is unchanged" in str(caught.value)
    assert checkpoint.load(run.last)["position"]["step"] == step - 1
    assert list(run.path.rglob(".*")) == []
    again = variant("training.evaluate_every=5", "training.save_every=1")
    assert train(again, run.path, resume=True).step == 6


# Starting from other weights.


def test_training_may_start_from_the_weights_of_another_run(tmp_path):
    first = trained(out=tmp_path / "first")
    slow = ("training.optimizer.learning_rate=1e-7", "training.steps=7")  # the optimizer looks ahead after 5
    second = variant(f"training.start={tmp_path / 'first'}", "seed=9", *slow)
    fresh = weights(second)
    train(second, evaluate_splits=[])
    torch.testing.assert_close(weights(second), weights(first), atol=1e-4, rtol=0)
    assert max((fresh[name] - tensor).abs().max() for name, tensor in weights(first).items()) > 0.5


def test_weights_of_another_vocabulary_are_refused_as_a_start(tmp_path):
    class Strange(Letters):
        vocabulary = tuple("abcdeg")

    trained(out=tmp_path / "first")
    with pytest.raises(CrvnnError, match=r"\[training\.start\]: the vocabulary of .*first is another"):
        train(variant(f"training.start={tmp_path / 'first'}", task=Strange))


def test_weights_of_another_shape_are_refused_as_a_start(tmp_path):
    trained(out=tmp_path / "first")
    with pytest.raises(CrvnnError, match=r"do not fit the model:\n .*misshapen: \S+ is \[") as caught:
        train(variant(f"training.start={tmp_path / 'first'}", "model.width=9"))
    assert str(tmp_path / "first" / "weights.safetensors") in str(caught.value)


def test_a_start_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(CrvnnError, match=r"\[training\.start\]: .*nowhere: there is no such directory"):
        train(variant(f"training.start={tmp_path / 'nowhere'}"))


def test_a_run_that_is_taken_up_no_longer_needs_its_start(tmp_path):
    trained(out=tmp_path / "first")
    sets = (f"training.start={tmp_path / 'first'}", "training.steps=3")
    trained(*sets, out=tmp_path / "second")
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    assert train(variant(*sets, "training.steps=5"), tmp_path / "second", resume=True).step == 5


# The development split.


class WithoutDevelopment(Letters):
    splits = ("train", "test")


def test_the_test_split_is_never_taken_for_development(tmp_path):
    assembly = variant(task=WithoutDevelopment)
    outcome = train(assembly, tmp_path / "run")
    notes = notes_of(assembly)
    assert "evaluated" not in notes.kinds
    assert outcome.best_step == outcome.step == 6
    assert list(outcome.results) == ["test"]
    kinds = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("no development split" in row.get("message", "") for row in kinds)


def test_another_split_may_be_named_for_development():
    class Named(Letters):
        splits = ("train", "validation")
        development = "validation"

    assembly = variant(task=Named)
    assert list(train(assembly).results) == ["validation"]
    assert "evaluated" in notes_of(assembly).kinds


def test_a_missing_split_is_missed_before_training():
    class Missing(Letters):
        def examples(self, split, seed):
            if split == "test":
                raise CrvnnError("there is no test.txt")
            return super().examples(split, seed)

    assembly = variant(task=Missing)
    with pytest.raises(CrvnnError, match=r"there is no test.txt"):
        train(assembly)
    assert notes_of(assembly).kinds == []


def test_an_assembly_left_in_evaluation_is_trained_with_its_dropout():
    assembly = variant("model.input_dropout=0.5")
    assembly.model.eval()
    train(assembly)
    assert differences(weights(assembly), weights(trained("model.input_dropout=0.5"))) == []
