"""Training: one loop, and what its observers are told."""

import itertools

import pytest
import torch

from crvnn_core import CrvnnError, Observer, assemble, read_spec
from crvnn_core.data import batches
from crvnn_core.training import fit, train_step

SMALL = ["model.width=8", "model.scorer.transition=4", "task.max_tokens=12", "training.optimizer=adamw"]


class Notebook(Observer):
    """Writes everything down."""

    def __init__(self):
        self.events = []

    def started(self, steps, facts):
        self.events.append(("started", steps, dict(facts)))

    def stepped(self, step, metrics):
        self.events.append(("stepped", step, dict(metrics)))

    def finished(self, facts):
        self.events.append(("finished",))

    @property
    def kinds(self):
        return [event[0] for event in self.events]


@pytest.fixture
def small(catalog):
    def make(*sets, **parts):
        return assemble(read_spec(catalog, parts=parts, sets=[*SMALL, *sets]), catalog)

    return make


def data_of(assembly, size=8):
    return batches(assembly.task, "train", size, assembly.spec.seed)


def test_the_loss_falls_on_a_batch_seen_again_and_again(small):
    assembly, notes = small("training.optimizer.learning_rate=0.02"), Notebook()
    batch = next(data_of(assembly))
    fit(assembly.model, itertools.repeat(batch), assembly.optimizer(), steps=30, observers=[notes])
    losses = [metrics["loss"] for kind, *rest in notes.events if kind == "stepped" for metrics in rest[1:]]
    assert losses[-1] < 0.5 * losses[0]


def test_training_twice_from_one_seed_gives_the_same_weights(small):
    weights = []
    for _ in range(2):
        assembly = small("model.input_dropout=0.2", "seed=5")
        fit(assembly.model, data_of(assembly), assembly.optimizer(), steps=3)
        weights.append(assembly.model.state_dict())
    one, two = weights
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_observers_are_told_of_the_start_every_step_and_the_end(small):
    assembly, notes, more = small(), Notebook(), Notebook()
    fit(assembly.model, data_of(assembly), assembly.optimizer(), steps=3, observers=[notes, more])
    size = sum(p.numel() for p in assembly.model.parameters())
    assert notes.events[0] == ("started", 3, {"parameters": size})
    assert [event[1] for event in notes.events[1:-1]] == [1, 2, 3]
    assert notes.kinds == ["started", "stepped", "stepped", "stepped", "finished"]
    assert notes.events == more.events
    for _, _, metrics in notes.events[1:-1]:
        assert set(metrics) == {"loss", "accuracy", "depth"}
        assert 0 <= metrics["accuracy"] <= 1
        assert metrics["depth"] >= 1
        assert all(type(value) is float for value in metrics.values())


def test_exactly_as_many_batches_are_used_as_there_are_steps(small):
    assembly = small()
    data = data_of(assembly)
    fit(assembly.model, data, assembly.optimizer(), steps=2)
    left = next(data).sequences[0].ids
    again = small()
    third = next(itertools.islice(data_of(again), 2, None)).sequences[0].ids
    assert torch.equal(left, third)


def test_training_that_runs_out_of_data_says_so(small):
    assembly, notes = small(), Notebook()
    data = itertools.islice(data_of(assembly), 2)
    with pytest.raises(CrvnnError, match="ran out after 2 of 9 steps"):
        fit(assembly.model, data, assembly.optimizer(), steps=9, observers=[notes])
    assert notes.kinds == ["started", "stepped", "stepped", "finished"]


def test_observers_hear_of_the_end_even_when_a_step_fails(small):
    assembly, notes = small(), Notebook()

    def failing():
        yield next(data_of(assembly))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(assembly.model, failing(), assembly.optimizer(), steps=5, observers=[notes])
    assert notes.kinds == ["started", "stepped", "finished"]


def test_observers_that_had_begun_hear_of_the_end_when_another_cannot_begin(small):
    class Unready(Notebook):
        def started(self, steps, facts):
            raise OSError("the disk is full")

    assembly, notes, unready = small(), Notebook(), Unready()
    with pytest.raises(OSError, match="the disk is full"):
        fit(assembly.model, data_of(assembly), assembly.optimizer(), steps=5, observers=[notes, unready])
    assert notes.kinds == ["started", "finished"]
    assert unready.kinds == []


def test_a_loss_that_is_not_a_number_is_an_error_that_names_the_step(small):
    assembly, notes = small(), Notebook()
    with torch.no_grad():
        assembly.model.head.layers[-1].bias[0] = torch.nan
    with pytest.raises(
        CrvnnError, match=r"the loss is nan at step 1; the weights are those of the step before\."
    ):
        fit(assembly.model, data_of(assembly), assembly.optimizer(), steps=5, observers=[notes])
    assert notes.kinds == ["started", "finished"]
    assert all(p.isfinite().all() for p in assembly.model.encoder.parameters())


def test_the_gradient_is_cut_to_the_given_norm(small):
    assembly = small()
    model = assembly.model
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    train_step(model, next(data_of(assembly)), torch.optim.SGD(model.parameters(), lr=1.0), clip=0.01)
    after = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    assert (after - before).norm().item() == pytest.approx(0.01, rel=1e-2)


def test_scheduled_parts_follow_the_progress_of_training(small):
    assembly = small(
        "model.decision.start=2.0",
        "model.decision.end=0.5",
        "model.decision.schedule=linear",
        decision="tempered",
    )
    decision, seen = assembly.model.encoder.decision, []

    class Thermometer(Observer):
        def stepped(self, step, metrics):
            seen.append(decision.temperature.item())

    assert decision.temperature.item() == 2.0
    fit(assembly.model, data_of(assembly), assembly.optimizer(), steps=3, observers=[Thermometer()])
    assert seen == pytest.approx([1.5, 1.0, 0.5])


def test_the_model_is_left_in_training_mode_with_dropout_at_work(small):
    assembly = small()
    assembly.model.eval()
    fit(assembly.model, data_of(assembly), assembly.optimizer(), steps=1)
    assert assembly.model.training
