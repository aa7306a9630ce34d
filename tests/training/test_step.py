"""One optimizer step: gradient accumulation, losses that are not finite, and running out of memory."""

import json

import numpy as np
import pytest
import torch

from crvnn_core import Cell, CrvnnError, Example, Observer
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training.trainer import train
from small import Letters, differences, notes_of, variant, weights
from training_runs import Even, Gauge, padded, trained


@pytest.mark.parametrize(("task", "tokens"), [("letters", 1), ("letters", 13), ("pairs", 13)])
def test_gradient_accumulation_over_a_token_budget_gives_the_same_weights(task, tokens, on_forward):
    sets = (f"task={task}", 'training.precision="64"')  # in which nothing but rounding can differ
    whole, sizes = trained(*sets), []
    on_forward(lambda batch: sizes.append(padded(batch)))
    split = trained(*sets, f"training.tokens={tokens}")
    assert len(sizes) > 6
    assert max(sizes) <= max(tokens, 4)  # the longest example, which is alone then
    for name in ("loss", "accuracy", "depth"):
        assert notes_of(whole).metric(name) == pytest.approx(notes_of(split).metric(name), abs=1e-5)
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(weights(split)[name], tensor, atol=1e-9, rtol=0)


def test_the_gradient_is_clipped_to_the_given_norm():
    def descent(params: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=1.0)

    assembly = variant("training.clip=0.01", "training.steps=1", optimizer=descent)
    before = torch.nn.utils.parameters_to_vector(assembly.model.parameters()).detach().clone()
    train(assembly, evaluate_splits=[])
    after = torch.nn.utils.parameters_to_vector(assembly.model.parameters()).detach()
    assert (after - before).norm().item() == pytest.approx(0.01, rel=1e-2)


class Summing(Cell):
    """Adds its children; a mode other than 'sound' makes it fail."""

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
def test_a_loss_or_gradient_that_is_not_finite_stops_training_and_says_where(mode, what, tmp_path):
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
    assert "A smaller learning rate may help" in message
    assert ("--set training.precision=64" in message) == (mode == "bad gradient")
    assert differences(weights(assembly), gauge.steps[-1]) == []
    assert assembly.observers[-2].kinds[-1] == "finished"


def test_no_wider_precision_is_suggested_in_64_bits():
    with pytest.raises(CrvnnError, match="the gradient's norm nan") as caught:
        train(failing_after(3, "bad gradient", *STEADY, "training.precision=64"))
    assert "training.precision" not in str(caught.value)


def test_after_a_failure_the_last_checkpoint_is_intact_and_can_be_resumed(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(CrvnnError):
        train(failing_after(3, "nan", *STEADY), run.path)
    assert checkpoint.load(run.last)["position"]["step"] == 3
    repaired, never_broken = variant(*STEADY, cell=Summing), variant(*STEADY, cell=Summing)
    train(repaired, run.path, resume=True)
    train(never_broken, tmp_path / "other")
    assert differences(weights(repaired), weights(never_broken)) == []


def test_the_examples_of_a_failed_batch_are_written_to_a_file(tmp_path, on_forward):
    class Counted(Letters):
        """Has labels of NumPy's kind."""

        def examples(self, split, seed):
            for example in super().examples(split, seed):
                yield Example(example.sequences, np.int64(example.label))

    seen = []
    on_forward(lambda batch: seen.append(batch.labels.tolist()))
    run = RunDirectory(tmp_path / "run")
    assembly = failing_after(1, "nan", *STEADY, task=Counted)
    with pytest.raises(CrvnnError, match="the loss is nan"):
        train(assembly, run.path)
    rows = [json.loads(line) for line in run.failed_batch.read_text().splitlines()]
    assert [row["label"] for row in rows] == seen[-1]
    given = {(e.sequences, e.label) for e in assembly.task.examples("train", 0)}
    assert {(tuple(map(tuple, row["sequences"])), row["label"]) for row in rows} <= given


def test_a_failure_before_the_first_checkpoint_or_without_a_directory_says_so(tmp_path):
    for out in (tmp_path / "run", None):
        with pytest.raises(CrvnnError, match=r"the loss is nan .* at step 2 .*There is no checkpoint yet\."):
            train(failing_after(1, "nan", *STEADY, "training.save_every=0"), out)


def too_small_for(limit, error):
    """A callback that raises an error for a batch of more than ``limit`` tokens."""

    def callback(batch):
        if padded(batch) > limit:
            raise error

    return callback


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize(
    ("error", "dropout"), [*((error, 0.0) for error in OUT_OF_MEMORY), (OUT_OF_MEMORY[0], 0.2)]
)
def test_when_memory_runs_out_training_continues_with_smaller_micro_batches(error, dropout, on_forward):
    sets = ("training.batch=12", f"model.input_dropout={dropout}")
    small_at_once = trained(*sets, "training.tokens=15", task=Even)  # 12 x 5 = 60, then 30, then 15
    on_forward(too_small_for(20, error))
    assembly = trained(*sets, task=Even)
    told = [message for (message,) in notes_of(assembly).of("noted")]
    assert told == [
        "memory ran out at step 1 with 60 tokens at a time; going on with at most 30 (the batch stays as it is)",
        "memory ran out at step 1 with 30 tokens at a time; going on with at most 15 (the batch stays as it is)",
    ]
    assert len(notes_of(assembly).of("stepped")) == 6
    assert differences(weights(assembly), weights(small_at_once)) == []


def test_a_resumed_run_keeps_its_reduced_token_budget(on_forward, tmp_path):
    on_forward(too_small_for(20, OUT_OF_MEMORY[0]))
    train(variant("training.batch=12", task=Even), tmp_path / "run")
    longer = variant("training.batch=12", "training.steps=9", task=Even)
    train(longer, tmp_path / "run", resume=True)
    assert notes_of(longer).of("noted") == []


def test_memory_that_does_not_suffice_for_one_example_is_a_clear_error(on_forward):
    on_forward(too_small_for(4, OUT_OF_MEMORY[0]))
    with pytest.raises(
        CrvnnError, match=r"memory ran out at step 1, with 5 tokens at a time\. Set training\.tokens"
    ):
        trained(task=Even)


def test_other_errors_are_not_taken_for_a_lack_of_memory(on_forward):
    on_forward(too_small_for(0, RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        trained()
