"""Work on a table: every run exactly once, whatever is killed and however many take part."""

import os
import random
import shutil
import time

import pytest

from crvnn_core import Decision
from crvnn_core.host.runs import read_runs
from crvnn_core.inference.trained import load
from crvnn_experiments.plan import Run
from crvnn_experiments.worker import Clock, Worker
from small import catalog_with
from tables import TABLE, ended, figures, forked, kill, planned, steps_of, worked


@pytest.fixture(scope="module")
def undisturbed(small_catalog, tmp_path_factory):
    """A plan that one worker has done in one go."""
    plan = planned(small_catalog, tmp_path_factory.mktemp("undisturbed"))
    worked(plan)
    return plan


def assert_done_once(plan, undisturbed):
    """Every step of every run was recorded once, each has one row of the ledger, and all figures are the same."""
    assert figures(plan) == figures(undisturbed)
    lines = plan.ledger.path.read_text().splitlines()
    assert len(lines) == len(plan.ledger.entries) == 8  # two rows, two seeds, each trained and tested
    for job in plan.runs:
        assert steps_of(job) == list(range(1, 9))
        assert job.holder == ""
        assert not job.error.exists()


def test_each_run_is_a_run_directory_with_the_rows_model(undisturbed, small_catalog):
    assert len(undisturbed.runs) == 4
    for job in undisturbed.runs:
        (record,) = read_runs([str(job.directory)], small_catalog)
        assert record.seed == job.seed
        assert record.spec["model.decision"] == {"plain": "modulated", "sigmoid": "sigmoid"}[job.row.name]
        assert undisturbed.ledger.entries[job.key()].figures["test"] == pytest.approx(
            record.value("test", "", "accuracy"), abs=1e-6
        )
    seeds = read_runs([str(undisturbed.runs[0].directory.parent)], small_catalog)
    assert [record.seed for record in seeds] == [0, 1]


def test_a_column_may_test_the_trained_model_on_other_data(undisturbed, small_catalog):
    job = undisturbed.runs[0]
    trained = load(job.directory, small_catalog, ["task.longest=9"])
    expected = trained.evaluate(trained.examples("test")).total.accuracy
    entry = undisturbed.ledger.entries[job.key({"longest": 9})]
    assert entry.figures["test"] == pytest.approx(expected, abs=1e-6)
    assert "test/9" in entry.figures


def test_what_is_done_is_skipped(undisturbed, monkeypatch):
    before = undisturbed.ledger.path.read_bytes()
    monkeypatch.setattr(Worker, "_do", None)
    assert worked(undisturbed) == []
    assert undisturbed.ledger.path.read_bytes() == before


def test_more_seeds_train_only_what_is_missing(undisturbed, small_catalog, tmp_path):
    shutil.copytree(undisturbed.directory, tmp_path / "reproduced")
    more = planned(small_catalog, tmp_path, seeds=3, only=["plain"])
    told = worked(more)
    assert [line for line in told if line.startswith("Run")] == [
        "Run 3 of 3: Plain, Letters, seed 2 (about 0 min left)"
    ]


def test_rows_killed_at_random_moments_by_two_processes_are_trained_once(
    undisturbed, small_catalog, tmp_path
):
    plan, generator, killed = planned(small_catalog, tmp_path), random.Random(5), 0
    for _ in range(4):
        process, other = (forked(lambda: worked(planned(small_catalog, tmp_path))) for _ in range(2))
        time.sleep(generator.uniform(0.02, 0.3))
        killed += kill(process) + kill(other)
    assert killed
    process = forked(lambda: worked(planned(small_catalog, tmp_path)) is not None)
    worked(plan)
    assert ended(process) == 0
    assert_done_once(plan, undisturbed)


def test_a_process_that_waits_takes_over_from_one_that_dies(undisturbed, small_catalog, tmp_path):
    plan = planned(small_catalog, tmp_path)
    job = plan.runs[0]
    job.directory.parent.mkdir(parents=True)

    def hold():
        lock = job.hold()
        assert lock.is_locked
        Clock(job.time).save()
        (tmp_path / "held").touch()
        time.sleep(60)

    holder = forked(hold)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    told = []

    def tell(line):
        told.append(line)
        if line.startswith("Waiting"):
            kill(holder)

    assert Worker(plan, tell, wait=True).work()
    assert f"Waiting for other processes: Plain, Letters, seed 0 ({os.uname().nodename}:{holder})" in told
    assert_done_once(plan, undisturbed)


def test_without_waiting_a_row_of_another_process_is_left_to_it(small_catalog, tmp_path):
    plan = planned(small_catalog, tmp_path, seeds=1)
    job = plan.runs[0]
    job.directory.parent.mkdir(parents=True)
    lock = job.hold()
    assert Worker(plan, lambda line: None, wait=False).work()
    assert not job.is_done
    assert plan.runs[1].is_done
    lock.release()


def test_a_run_that_finished_without_being_recorded_is_recorded(undisturbed, small_catalog, tmp_path):
    shutil.copytree(undisturbed.directory, tmp_path / "reproduced")
    again = planned(small_catalog, tmp_path)
    again.ledger.path.unlink()
    worked(again)
    assert_done_once(again, undisturbed)


class Broken(Decision):
    """Fails in the first batch."""

    def forward(self, scores, near, eligible, exists):
        raise RuntimeError("this relaxation has a bug")


def test_a_row_that_fails_is_told_and_the_others_go_on(tmp_path):
    from crvnn_experiments.results import read_results

    text = TABLE.replace('model = { decision = "sigmoid" }', 'model = { decision = "mine" }')
    plan = planned(catalog_with(decision=Broken), tmp_path, text, seeds=1)
    told = worked(plan)
    assert any("has a bug" in line for line in told)
    plain, broken, *_ = read_results(plan).lines
    assert plain.seeds == 1
    assert "this relaxation has a bug" in broken.remark
    assert broken.remark.startswith("1 run failed")


def test_an_interrupted_process_says_so_and_another_resumes(
    undisturbed, small_catalog, tmp_path, monkeypatch
):
    plan = planned(small_catalog, tmp_path)

    def interrupted(self, clock):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "do", interrupted)
        assert not Worker(plan, lambda line: None).work()
    assert plan.runs[0].holder == ""
    worked(plan)
    assert_done_once(plan, undisturbed)
