"""Training: what is learnt, epochs and their examples, precision, and the splits that are evaluated."""

import math
import random

import numpy as np
import pytest
import torch

from crvnn_core import CrvnnError, Example
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training import trainer as training
from crvnn_core.training.evaluation import evaluate
from crvnn_core.training.trainer import train
from small import Letters, differences, notes_of, variant, weights
from training_runs import Even, Growing, trained


def test_training_learns_what_its_task_asks():
    assembly = variant("training.steps=70", "training.evaluate_every=10", "training.watch=loss")
    outcome = train(assembly)
    assert outcome.results["test"].total.accuracy >= 0.9  # half of the answers are yes
    losses = notes_of(assembly).metric("loss")
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_training_twice_from_one_seed_gives_the_same_bits_whatever_was_drawn_before():
    sets = ("model.input_dropout=0.2", "model.output_dropout=0.2")
    one, two = trained(*sets), variant(*sets)
    torch.rand(7), random.random(), np.random.rand()
    train(two, evaluate_splits=[])
    assert differences(weights(one), weights(two)) == []
    assert differences(weights(one), weights(trained(*sets, "seed=6")))


def test_dropout_is_applied_in_training_and_not_in_evaluation():
    plain, dropping = trained("training.steps=1"), trained("training.steps=1", "model.input_dropout=0.5")
    assert notes_of(plain).metric("loss") != notes_of(dropping).metric("loss")
    (_, metrics), *_ = notes_of(dropping).of("evaluated")
    again = training.evaluate(
        dropping.model, dropping.task, list(dropping.task.examples("dev", 0))
    ).total.metrics()
    assert metrics == again


def test_every_step_has_another_dropout_mask():
    assembly = variant("model.input_dropout=0.5", "training.steps=3", task=Even)
    dropped = []

    def callback(module, inputs, output):
        if module.training:
            dropped.append(output == 0)

    assembly.model.dropout.register_forward_hook(callback)
    train(assembly, evaluate_splits=[])
    one, two, three = dropped
    assert not torch.equal(one, two)
    assert not torch.equal(two, three)


def test_every_epoch_has_every_example_once(on_forward):
    seen = []
    on_forward(lambda batch: seen.append(batch))
    assembly = trained("training.epochs=3", "training.steps=0", "task.rows=19", "training.evaluate_every=0")
    assert [len(batch.labels) for batch in seen].count(8) == 6
    for epoch in range(3):
        lengths = [
            n for batch in seen[3 * epoch : 3 * epoch + 3] for n in batch.sequences[0].mask.sum(1).tolist()
        ]
        assert sorted(lengths) == sorted(len(e.sequences[0]) for e in assembly.task.examples("train", 0))
    assert [step for step, _ in notes_of(assembly).of("evaluated")] == [3, 6, 9]


def test_batches_come_in_the_order_that_the_spec_says(on_forward):
    seen = []
    on_forward(lambda batch: seen.append(batch.sequences[0].mask.shape[1]))
    sets = ("training.epochs=1", "training.steps=0", "training.batch=4", "task.longest=30")
    for order, ascending in (("shuffled", False), ("short-to-long", True)):
        seen.clear()
        train(variant(*sets, f"training.order={order}"), evaluate_splits=[])
        assert (seen[:10] == sorted(seen[:10])) == ascending


def test_evaluation_during_training_may_take_a_part_of_the_development_split(monkeypatch):
    seen = []

    def counted(model, task, examples, **options):
        seen.append(len(examples))
        return evaluate(model, task, examples, **options)

    monkeypatch.setattr("crvnn_core.training.trainer.evaluate", counted)
    assembly = variant("training.steps=4", "training.evaluate_every=2", "training.evaluate_rows=5")
    outcome = train(assembly, evaluate_splits=["dev"])
    whole = len(list(assembly.task.examples("dev", 0)))
    assert seen == [5, 5, whole]
    assert outcome.results["dev"].total.examples == whole > 5


def test_a_task_may_give_other_examples_every_epoch(on_forward):
    seen = []
    on_forward(lambda batch: seen.extend(batch.labels.tolist()))
    trained("training.steps=3", task=Growing)
    assert len(seen) == 24  # a batch of the first epoch, two of the second


def test_steps_and_epochs_each_set_a_limit():
    for epochs, steps, wanted in ((2, 0, 10), (0, 7, 7), (2, 7, 7), (1, 70, 5)):
        assembly = trained(f"training.epochs={epochs}", f"training.steps={steps}")
        (told, _), *_ = notes_of(assembly).of("started")
        assert told == len(notes_of(assembly).of("stepped")) == wanted


def test_frozen_embeddings_stay_unchanged_and_that_of_unknown_tokens_is_trained(tmp_path):
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
    """Has a letter that is not in the vocabulary."""

    def examples(self, split, seed):
        for example in super().examples(split, seed):
            yield Example((("x", *example.sequences[0]),), example.label)


@pytest.mark.parametrize(
    ("precision", "kind"),
    [
        ("32", torch.float32),
        ("64", torch.float64),
        ("bf16-mixed", torch.float32),
        ("bf16-products", torch.float32),
    ],
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


def test_rounded_products_are_those_of_training_alone_and_said_to_save_nothing_where_they_do_not(monkeypatch):
    found = dict(torch.cpu.get_capabilities())
    for amx in (True, False):
        known = {**found, "amx_bf16": amx, "avx512_bf16": True}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda known=known: known)
        events = notes_of(trained("training.precision=bf16-products")).events
        assert any("no AMX" in str(event[1]) for event in events if event[0] == "noted") is not amx
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_an_unavailable_device_is_one_clear_error():
    with pytest.raises(CrvnnError, match=r"\[training\] cannot be done on this machine: .*CUDA"):
        train(variant("training.accelerator=cuda"))


def test_only_the_splits_asked_for_are_evaluated():
    assert list(train(variant(), evaluate_splits=["test"]).results) == ["test"]
    assert list(train(variant()).results) == ["dev", "test"]


def test_a_task_without_training_examples_is_refused():
    with pytest.raises(CrvnnError, match="there are no training examples"):
        train(variant("task.rows=0"))


def test_a_missing_split_is_an_error_before_training():
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
