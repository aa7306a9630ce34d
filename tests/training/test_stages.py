"""Training in stages: what carries over, what counts anew, which weights are kept, and resuming in any of them."""

import signal

import pytest
import torch

from crvnn_core import CrvnnError, Observer, Result, Score, SpecError, resume_training, train_seeds
from crvnn_core.inference.trained import load
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.spec import read_spec
from crvnn_core.training import checkpoint
from crvnn_core.training import trainer as training
from crvnn_core.training.stages import carry_optimizer_state
from crvnn_core.training.trainer import train
from small import SETTINGS, Interrupting, Letters, catalog_with, differences, notes_of, same, variant, weights
from training_runs import Gauge, assert_same_run, stopped_after, trained

SHORT = '{name="short", task={longest=2}, training={steps=4}}'
LONG = '{model={decision="stretched"}, training={steps=5, optimizer={learning_rate=0.01}}}'


def staged(*stages):
    """The setting of stages, each as TOML."""
    return f"stages=[{', '.join(stages)}]"


class AtStage(Observer):
    """Calls a function when a stage begins."""

    def __init__(self, callback):
        self.callback = callback

    def stage_started(self, steps, facts):
        self.callback()


# What carries over.


def test_a_stage_begins_with_the_last_weights_of_the_one_before():
    assembly = variant(staged(SHORT, LONG), "training.halve_after=0")
    first, last = assembly.stages
    found = []

    def compare():
        parameters = [dict(stage.model.named_parameters()) for stage in (first, last)]
        found.append(differences(*parameters))

    assembly.observers.insert(0, AtStage(compare))
    train(assembly, evaluate_splits=[])
    assert found == [[]]
    alone = trained("task.longest=2", "training.steps=4", "training.halve_after=0")
    steps = notes_of(assembly).metric("loss")
    assert steps[:4] == notes_of(alone).metric("loss")
    assert len(steps) == 9


def test_stages_that_change_nothing_but_their_length_train_as_one_run_does():
    """Up to the epochs: a stage begins with a new one, so each stage here has whole epochs."""
    one = trained("training.steps=10", "training.optimizer=ranger")
    two = trained("training.steps=5", "training.optimizer=ranger", "stages=[{}, {}]")
    for metric in ("loss", "learning_rate"):
        assert notes_of(two).metric(metric) == notes_of(one).metric(metric)


@pytest.mark.parametrize("name", ["adamw", "ranger"])
def test_the_optimizer_keeps_its_state_and_takes_the_stages_own_settings(name):
    changes = f'{{training={{optimizer={{name="{name}", learning_rate=0.5, weight_decay=0.25}}}}}}'
    assembly = variant(f"training.optimizer={name}", staged("{}", changes))
    first, last = assembly.stages
    old, new = first.optimizer(), last.optimizer()
    for parameter in first.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    old.step()
    assert carry_optimizer_state(first, old, last, new)
    (group,) = new.param_groups
    assert (group["lr"], group["weight_decay"]) == (0.5, 0.25)
    one, two = old.state_dict(), new.state_dict()
    kept = "base_optimizer" if name == "ranger" else None
    one, two = (one[kept], two[kept]) if kept else (one, two)
    assert one["state"]
    assert same(one["state"], two["state"])
    assert group.get("counter") == old.param_groups[0].get("counter")  # of Lookahead


def test_another_optimizer_begins_without_state_and_says_so():
    assembly = trained(staged("{}", '{training={optimizer="radam"}}'))
    messages = [message for (message,) in notes_of(assembly).of("noted")]
    assert messages[1].endswith("; the optimizer begins without state")
    first, last = assembly.stages
    assert not carry_optimizer_state(first, first.optimizer(), last, last.optimizer())


# What counts within a stage, and what goes on.


def test_steps_go_on_and_limits_count_within_the_stage():
    assembly = trained(staged(SHORT, "{training={epochs=2, steps=0}}"), "task.rows=24")
    notebook = notes_of(assembly)
    assert [step for step, _ in notebook.of("stepped")] == list(range(1, 11))
    assert notebook.of("started")[0][0] == 4
    assert notebook.of("stage_started") == [(10, {"stage": 2})]
    assert [step for step, _ in notebook.of("evaluated")] == [3, 4, 7, 10]
    messages = [message for (message,) in notebook.of("noted")]
    assert messages == [
        "stage 1 of 2 'short': task.longest=2, training.steps=4",
        "stage 2 of 2: training.epochs=2, training.steps=0",
    ]


def test_warm_up_annealing_and_halving_count_within_the_stage():
    stages = (
        "{training={steps=4, anneal=true}}",
        "{training={steps=3, warmup=2, optimizer={learning_rate=0.4}}}",
    )
    rates = notes_of(trained(staged(*stages), "training.optimizer.learning_rate=1.0")).metric("learning_rate")
    assert rates == pytest.approx([1.0, 0.8535534, 0.5, 0.1464466, 0.2, 0.4, 0.4])


def test_scheduled_components_follow_the_progress_of_their_stage():
    decision = '{name="tempered", start=2.0, end=0.5, schedule="linear"}'
    assembly = variant(
        staged("{training={steps=2}}", f"{{model={{decision={decision}}}, training={{steps=3}}}}")
    )
    gauge = Gauge(lambda: assembly.model.encoder.decision.temperature.item())
    assembly.observers.append(gauge)
    train(assembly, evaluate_splits=[])
    assert gauge.steps == pytest.approx([2.0, 2.0, 1.5, 1.0, 0.5])


class Counting(Letters):
    """Records the numbers of the epochs."""

    numbers = None

    def epoch(self, seed, number):
        self.numbers.append(number)
        return super().epoch(seed, number)


def test_no_stage_sees_an_epoch_of_another(monkeypatch):
    monkeypatch.setattr(Counting, "numbers", [])
    trained(staged("{training={steps=7}}", "{task={longest=2}, training={steps=5}}", "{}"), task=Counting)
    assert Counting.numbers == [0, 1, 2, 3, 4]  # five steps an epoch: 7, 5 and 6 steps


# Which weights are kept.


@pytest.fixture
def better_before(monkeypatch):
    """Evaluations that find the model best at step 2 of stage 1, which ends early, and at step 3 of stage 2."""

    def evaluate(self, split, examples):
        accuracies = {0: {1: 0.8, 2: 0.9, 3: 0.7, 4: 0.6}, 1: {1: 0.1, 2: 0.2, 3: 0.5, 4: 0.3}}[
            self.position.stage
        ]
        return Result(Score(1, accuracies[self.position.stage_step], 1.0, 0.0), {})

    monkeypatch.setattr(training.Trainer, "_evaluate", evaluate)
    return "training.evaluate_every=1"


def test_a_stage_that_stops_early_is_followed_by_the_next_and_the_last_selects_the_weights(
    better_before, tmp_path
):
    stages = staged("{training={steps=9, patience=2}}", "{training={steps=4}}")
    assembly = variant(stages, better_before)
    kept = []
    assembly.observers.insert(0, AtStage(lambda: kept.append(weights(assembly.stages[0]))))
    outcome = train(assembly, tmp_path / "run")
    assert (outcome.step, outcome.best_step, outcome.stopped) == (8, 7, "")
    run = RunDirectory(tmp_path / "run")
    assert differences(checkpoint.load(run.weights)["model"], weights(assembly)) == []
    without = variant(stages, better_before)
    assert train(without).best_step == 7
    assert differences(weights(without), weights(assembly)) == []
    last_of_first = checkpoint.load(run.weights)["model"]
    assert differences(kept[0], last_of_first)


def test_a_run_is_loaded_as_its_last_stage_also_before_it_gets_there(tmp_path):
    tempered = '{model={decision="tempered"}, training={steps=4}}'
    stages = staged(tempered, LONG)
    stopped_after(5, tmp_path / "run", stages)
    catalog = catalog_with()
    early = load(tmp_path / "run", catalog)
    assert early.spec.model.decision.name == "stretched"
    last = checkpoint.load(RunDirectory(tmp_path / "run").last)["model"]  # of the first stage
    assert early.model.state_dict().keys() == last.keys()
    train(variant(stages), tmp_path / "run", resume=True)
    assert load(tmp_path / "run", catalog, sets=["task.longest=3"]).task.longest == 3


# Resuming.

# Dropout, an optimizer with a memory, and evaluations, checkpoints and ends of stages that fall on different steps.
UNEVEN = (
    "model.input_dropout=0.2",
    "training.optimizer=ranger",
    "training.evaluate_every=3",
    "training.save_every=4",
    "training.halve_after=1",
    "training.steps=7",
    staged(
        "{task={longest=2}, training={anneal=true}}",
        '{model={decision="tempered"}, training={steps=4, warmup=3}}',
        '{model={decision="stretched"}, training={steps=6, optimizer="adamw"}}',
    ),
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A run that was never stopped."""
    path = tmp_path_factory.mktemp("uninterrupted") / "run"
    train(variant(*UNEVEN), path)
    return path


@pytest.mark.parametrize("step", [5, 7, 8, 11, 12, 17])
def test_a_run_killed_in_any_stage_ends_as_if_it_never_had_been(step, uninterrupted, tmp_path):
    stopped_after(step, tmp_path / "run", *UNEVEN)
    train(variant(*UNEVEN), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("step", [7, 11])
def test_a_run_interrupted_at_the_end_of_a_stage_begins_the_next_when_resumed(step, uninterrupted, tmp_path):
    assembly = variant(*UNEVEN)
    assembly.observers.append(Interrupting(step, [signal.SIGINT]))
    outcome = train(assembly, tmp_path / "run")
    assert (outcome.step, outcome.finished) == (step, False)
    assert checkpoint.load(RunDirectory(tmp_path / "run").last)["position"]["stage"] == {7: 0, 11: 1}[step]
    train(variant(*UNEVEN), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_finished_run_in_stages_changes_nothing_when_resumed(uninterrupted, tmp_path):
    before = weights(variant(*UNEVEN))
    again = variant(*UNEVEN)
    outcome = train(again, uninterrupted, resume=True)
    assert outcome.step == 17
    assert notes_of(again).of("stepped") == []
    assert differences(before, weights(again))  # the trained weights are in the model


@pytest.fixture
def spec_file(tmp_path):
    """A spec with two stages."""
    path = tmp_path / "staged.toml"
    path.write_text(
        '[[stages]]\ntask.longest = 2\n[[stages]]\ntraining.steps = 3\nmodel.decision = "stretched"\n',
        encoding="utf-8",
    )
    return path


SHARED = [text for text in SETTINGS if not text.startswith("training.steps")]


def test_seeds_are_trained_in_stages_and_the_last_is_resumed_for_longer(spec_file, tmp_path):
    catalog = catalog_with()
    spec = read_spec(catalog, spec_file, sets=[*SHARED, "training.epochs=1"])
    runs = train_seeds(spec, tmp_path / "run", seeds=2, catalog=catalog)
    assert [outcome.step for outcome in runs.outcomes.values()] == [8, 8]
    one, two = (load(path, catalog) for path in runs.outcomes)
    assert differences(one.model.state_dict(), two.model.state_dict())
    longer = resume_training(
        tmp_path / "run", sets=["stages.2.training.steps=9", "stages.2.training.epochs=0"], catalog=catalog
    )
    assert [outcome.step for outcome in longer.outcomes.values()] == [14, 14]
    for text in ("stages.1.training.steps=9", "training.steps=9"):
        with pytest.raises(CrvnnError, match=r"stage 1 of this run has ended.* set stages.2.training.steps$"):
            resume_training(tmp_path / "run", sets=[text], catalog=catalog)
    unchanged = resume_training(tmp_path / "run", sets=["training.save_every=9"], catalog=catalog)
    assert unchanged.finished
    for text in ("stages.2.task.longest=9", "stages=[{training={steps=9}}]"):
        with pytest.raises(SpecError, match="this cannot change when a run is resumed"):
            resume_training(tmp_path / "run", sets=[text], catalog=catalog)


class Vanishing(Letters):
    """Has no training data if sequences may be long."""

    def examples(self, split, seed):
        if split == "train" and self.longest > 4:
            raise CrvnnError("long.txt is missing")
        yield from super().examples(split, seed)


def test_missing_data_of_a_later_stage_is_an_error_before_the_first_step():
    assembly = variant(staged("{}", "{task={longest=9}}"), task=Vanishing)
    with pytest.raises(CrvnnError, match="is missing"):
        train(assembly)
    assert notes_of(assembly).events == []
