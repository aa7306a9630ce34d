"""Trials as jobs of a worker: they are runs, failures are recorded, and an interrupted or killed trial is continued."""

import os
import re
import signal

import pytest

from crvnn_core import Decision, Observer
from crvnn_core.host.runs import read_runs
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.spec import read_spec, spec_dict
from crvnn_experiments.findings import read_findings
from crvnn_experiments.sweep import continue_sweep, show_sweep
from crvnn_experiments.worker import QueueError, Worker
from small import Letters, catalog_with
from sweeps import BASE, finished, needs_optuna, started
from training_runs import assert_same_run

needs_optuna()


def test_each_trial_is_a_run_directory_with_the_settings_of_its_trial(small_catalog, tmp_path):
    study, found = finished(small_catalog, tmp_path)
    assert found.counts == {"complete": 4}
    for row in found.rows:
        (record,) = read_runs([str(study.path / row.directory)], small_catalog)
        assert record.spec["model.cell"] == row.params["model.cell"]
        assert record.spec["model.decision"] == row.params["model.decision"]
        assert record.value("dev", "", "accuracy") == row.value
        assert record.value("test", "", "loss") == pytest.approx(row.results["test"]["loss"])


def test_several_seeds_are_several_runs_whose_mean_counts(small_catalog, tmp_path):
    study, found = finished(small_catalog, tmp_path, '\n[sweep.space]\n"model.cell" = ["gated"]\n', seeds=2)
    (row,) = found.rows
    records = read_runs([str(study.path / row.directory)], small_catalog)
    values = [record.value("dev", "", "accuracy") for record in records]
    assert [record.seed for record in records] == [0, 1]
    assert list(row.values) == values
    assert row.value == pytest.approx(sum(values) / 2)


def test_the_best_trial_is_written_as_a_spec_that_can_be_trained(small_catalog, tmp_path):
    study, found = finished(small_catalog, tmp_path)
    show_sweep(study.path, small_catalog)
    best = read_spec(small_catalog, study.best)
    trained = read_spec(small_catalog, RunDirectory(study.path / found.best.directory).spec)
    assert spec_dict(best) == spec_dict(trained)
    assert found.best.value == max(row.value for row in found.rows)


class Broken(Decision):
    """Fails in the first batch."""

    def forward(self, scores, near, eligible, exists):
        raise RuntimeError("this relaxation has a bug")


class NotANumber(Decision):
    """Gives NaN."""

    def forward(self, scores, near, eligible, exists):
        return scores * float("nan")


def mine_or(other):
    return f'\n[sweep.space]\n"model.decision" = ["mine", "{other}"]\n'


GLOVE = '\n[sweep.space]\n"model.embedding" = [{name = "glove", path = "nowhere.txt"}, "random"]\n'


@pytest.mark.parametrize(
    ("components", "text", "message"),
    [
        ({"decision": Broken}, mine_or("sigmoid"), "has a bug"),
        ({"decision": NotANumber}, mine_or("sigmoid"), "(?i)nan|not finite"),
        ({}, GLOVE, r"/nowhere\.txt"),  # a mistake of the user's
    ],
)
def test_a_variant_that_fails_is_recorded_with_its_message_and_the_study_goes_on(
    tmp_path, components, text, message
):
    study, found = finished(catalog_with(**components), tmp_path, text)
    assert [row.state for row in found.rows] == ["failed", "complete"]
    assert re.search(message, found.rows[0].message)
    assert "Traceback" not in found.rows[0].message
    assert (study.path / "trials" / "0001-error.txt").exists()


class Unsplit(Letters):
    """Has no development split."""

    splits = ("train", "test")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (BASE.replace('"letters"', '"mine"'), "no split 'dev'"),
        (BASE + "devices = 2\n", "start a worker for each device"),
    ],
)
def test_what_no_trial_can_do_is_recorded_as_the_reason(tmp_path, base, message):
    _, found = finished(catalog_with(task=Unsplit), tmp_path, base=base)
    assert {row.state for row in found.rows} == {"failed"}
    assert message in found.rows[0].message


class Stopping(Observer):
    """Interrupts training after a step, once.

    :param step: after which.
    """

    done = False

    def __init__(self, step: int = 3) -> None:
        self.step = step

    def stepped(self, step, metrics):
        if step == self.step and not Stopping.done:
            Stopping.done = True
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_trial_is_continued_later_and_ends_the_same(tmp_path):
    catalog = catalog_with(observer=Stopping)
    base = BASE.replace("observers = []", 'observers = ["mine"]')
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    Stopping.done = True
    whole, _ = finished(catalog, tmp_path / "whole", base=base)
    Stopping.done = False
    study = started(catalog, tmp_path / "stopped", base=base)
    assert not Worker(study, lambda line: None).work()
    assert [row.state for row in read_findings(study).rows] == ["waiting"] * 4
    again = continue_sweep(study.path, catalog)
    assert Worker(again, lambda line: None).work()
    rows = read_findings(again).rows
    assert [row.state for row in rows] == ["complete"] * 4
    assert rows[0].retries == ("interrupted",)
    assert_same_run(whole.path / "trials/0001", study.path / "trials/0001")


def test_a_journal_that_is_gone_is_no_failure_of_the_variant(small_catalog, tmp_path, monkeypatch):
    study = started(small_catalog, tmp_path)
    import optuna

    def fail(*args):
        raise OSError("disk lost")

    monkeypatch.setattr(optuna.Trial, "report", fail)
    with pytest.raises(QueueError, match="disk lost"):
        Worker(study, lambda line: None).work()


def test_a_pruned_trial_ends_early_and_is_recorded_as_such(small_catalog, tmp_path, monkeypatch):
    study = started(small_catalog, tmp_path, pruner="median")
    import optuna

    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 1)
    assert Worker(study, lambda line: None).work()
    rows = read_findings(study).rows
    assert [row.state for row in rows] == ["complete", "pruned", "complete", "complete"]
    assert rows[1].message == "pruned at step 2"
    assert rows[1].value is not None
    assert not RunDirectory(study.path / "trials/0002").results.exists()
