"""A study: as many trials as planned, each taken by one worker, none lost with its worker."""

import pytest

from crvnn_core import CrvnnError
from crvnn_experiments.findings import read_findings
from crvnn_experiments.study import import_optuna
from crvnn_experiments.sweep import continue_sweep
from crvnn_experiments.worker import this_process
from sweeps import BASE, SPACE, needs_optuna, started
from tables import ended, forked

needs_optuna()

RANDOM = '\n[sweep]\nsampler = "random"\ntrials = 3\n' + SPACE


def states(study):
    return [row.state for row in read_findings(study).rows]


def begin(study, *, killed=False):
    """The next trial, which this process has begun; or has been killed since."""
    for job in study.left():
        if (lock := job.hold()) is not None and job.begin():
            if killed:
                lock.release()
            job.held = lock
            return job
    return None


def test_every_trial_of_a_grid_waits_from_the_beginning(small_catalog, tmp_path):
    study = started(small_catalog, tmp_path)
    rows = read_findings(study).rows
    assert [row.number for row in rows] == [1, 2, 3, 4]
    assert {row.state for row in rows} == {"waiting"}
    assert [(row.params["model.cell"], row.params["model.decision"]) for row in rows] == [
        ("gated", "sigmoid"),
        ("gated", "modulated"),
        ("lstm", "sigmoid"),
        ("lstm", "modulated"),
    ]


def test_a_searched_setting_holds_for_every_stage(small_catalog, tmp_path):
    stages = "\n[[stages]]\ntraining.clip = 2.0\n[[stages]]\n"
    study = started(small_catalog, tmp_path, stages + '[sweep.space]\n"training.clip" = [3.0, 4.0]\n')
    spec = study.trial_spec({"training.clip": 4.0}, "trial 1")
    assert [stage.training.clip for stage in spec.stages] == [4.0, 4.0]


def test_each_trial_is_taken_once_by_whichever_worker_comes_first(small_catalog, tmp_path):
    first = started(small_catalog, tmp_path)
    second = continue_sweep(tmp_path / "study", small_catalog)
    taken = [begin(study) for study in (first, second, second, first, second, first)]
    assert [job and job.number for job in taken] == [0, 1, 2, 3, None, None]


def test_the_same_command_again_joins_the_study(small_catalog, tmp_path):
    running = begin(started(small_catalog, tmp_path))
    again = started(small_catalog, tmp_path)
    assert states(again) == ["running", "waiting", "waiting", "waiting"]
    assert running.held.is_locked


def test_a_study_whose_creation_was_cut_short_is_completed(small_catalog, tmp_path):
    journal = started(small_catalog, tmp_path).path / "study.log"
    lines = journal.read_bytes()
    journal.write_bytes(lines[: len(lines) // 2])  # in the middle of a line, too
    assert states(started(small_catalog, tmp_path)) == ["waiting"] * 4


def test_another_search_in_the_same_directory_is_refused_with_what_differs(small_catalog, tmp_path):
    started(small_catalog, tmp_path)
    with pytest.raises(CrvnnError, match=r"model.width = 8 there, 12 here\n.*another --out"):
        started(small_catalog, tmp_path, base=BASE.replace("width = 8", "width = 12"))
    with pytest.raises(CrvnnError, match=r"sweep.space.model.cell"):
        started(small_catalog, tmp_path, SPACE.replace("lstm", "gru"))


def test_a_trial_whose_process_was_killed_waits_again_in_the_same_directory(small_catalog, tmp_path):
    study = started(small_catalog, tmp_path)
    dead = begin(study, killed=True)
    assert states(study)[0] == "lost"
    running = [begin(study) for _ in range(4)]
    assert begin(study) is None
    retried = running[0]
    assert (retried.directory, retried.params) == (dead.directory, dead.params)
    assert states(study) == ["running"] * 4
    (reason,) = read_findings(study).rows[0].retries
    assert reason == f"its process ({this_process()}) ended without a result"


def test_a_worker_that_is_killed_as_it_takes_a_trial_does_not_keep_it(small_catalog, tmp_path):
    study = started(small_catalog, tmp_path)
    assert ended(forked(lambda: begin(continue_sweep(tmp_path / "study", small_catalog)))) == 0
    assert states(study)[0] == "lost"
    assert begin(study) is not None
    assert read_findings(study).rows[0].retries


def test_a_trial_that_is_lost_again_and_again_has_failed(small_catalog, tmp_path):
    study = started(small_catalog, tmp_path, "\n[sweep]\nretries = 1\n" + SPACE)
    while begin(study, killed=True) is not None:
        pass
    found = read_findings(study)
    assert states(study) == ["failed"] * 4
    assert found.rows[0].message.endswith("ended without a result, after 1 retries")
    assert len(found.rows[0].retries) == 1


def test_a_trial_may_be_interrupted_as_often_as_one_likes(small_catalog, tmp_path):
    study = started(
        small_catalog, tmp_path, '\n[sweep]\nretries = 0\n[sweep.space]\n"model.cell" = ["lstm"]\n'
    )
    for _ in range(3):
        job = begin(study)
        job.give_back()
        job.held.release()
    (row,) = read_findings(study).rows
    assert (row.state, row.retries) == ("waiting", ("interrupted",) * 3)


def test_a_random_study_samples_each_trial_by_its_number(small_catalog, tmp_path):
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        study = started(small_catalog, tmp_path / name, RANDOM)
        jobs = []
        while (job := begin(study)) is not None:
            jobs.append(job)  # whose lock is held as long as it is there
        found.append({job.number: job.params for job in jobs})
    assert found[0] == found[1]
    assert list(found[0]) == [0, 1, 2]


def test_a_random_study_can_be_made_longer_but_not_shorter(small_catalog, tmp_path):
    started(small_catalog, tmp_path, RANDOM)
    longer = continue_sweep(tmp_path / "study", small_catalog, trials=5)
    assert states(longer) == ["waiting"] * 5
    assert states(continue_sweep(tmp_path / "study", small_catalog)) == ["waiting"] * 5
    with pytest.raises(CrvnnError, match="this study has 5"):
        continue_sweep(tmp_path / "study", small_catalog, trials=2)


def test_a_directory_without_a_study_is_named(small_catalog, tmp_path):
    with pytest.raises(
        CrvnnError, match=r"nothing is not a study of 'crvnn sweep': there is no such directory"
    ):
        continue_sweep(tmp_path / "nothing", small_catalog)


def test_without_optuna_one_message_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(CrvnnError, match=r"pip install 'crvnn\[sweep\]'"):
        import_optuna()


@pytest.mark.parametrize("pruner", ["none", "median", "halving"])
@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_every_sampler_and_pruner_is_optunas(small_catalog, tmp_path, pruner, sampler):
    study = started(small_catalog, tmp_path, RANDOM, pruner=pruner, sampler=sampler)
    trial = begin(study).trial
    assert {"tpe": "TPESampler", "random": "RandomSampler"}[sampler] == type(study.study.sampler).__name__
    trial.report(0.5, 1)
    assert not trial.should_prune()
