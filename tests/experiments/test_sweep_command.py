"""``crvnn sweep``: what it prints and writes, several processes, and what remains when one is killed."""

import json
import re
import signal
import time

import pytest

from calling import run
from small import PLUGIN, begin
from sweeps import BASE, SPACE, needs_optuna, write

needs_optuna()

pytestmark = pytest.mark.usefixtures("here")
ONE = '\n[sweep.space]\n"model.cell" = ["gated"]\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(*args, code=0):
    return run("sweep", "--plugin", PLUGIN, *args, code=code)


def test_a_sweep_prints_its_table_and_leaves_a_page_the_tables_and_the_best_spec(here):
    done = sweep(write(here))
    assert "4 trials (grid) in runs/letters-sweep." in done.stderr
    assert "Trial 1 of 4: model.cell=gated, model.decision=sigmoid" in done.stderr
    assert done.stdout.startswith("4 trials: 4 complete\n")
    assert "trial  cell   decision   state     accuracy %" in done.stdout
    assert "Best: trial " in done.stdout
    study = here / "runs" / "letters-sweep"
    files = {"best.toml", "report.html", "trials.csv", "trials.md", "base.toml", "sweep.toml", "study.log"}
    assert files <= {path.name for path in study.iterdir()}
    assert sorted(path.name for path in (study / "trials").glob("0*/")) == ["0001", "0002", "0003", "0004"]
    # Once more there is nothing left to train, and the same is shown.
    again = sweep(here / "letters.toml")
    assert "Trial" not in again.stderr
    assert again.stdout == done.stdout
    shown = sweep("--show", study, "--json")
    found = json.loads(shown.stdout)
    assert found["counts"] == {"complete": 4}
    assert found["directory"] == str(study)
    assert sweep("--show", study, "--format", "csv").stdout == (study / "trials.csv").read_text()
    assert sweep("--show", study, "--format", "markdown").stdout in (study / "trials.md").read_text()


def test_options_choose_components_the_sampler_the_trials_and_the_seeds(here):
    options = ("--trials", "1", "--sampler", "random", "--seeds", "2", "--set", "training.steps=2")
    sweep(write(here, ONE), *options, "--decision", "sigmoid", "--out", "s")
    assert 'name = "sigmoid"' in (here / "s" / "best.toml").read_text()
    found = json.loads(sweep("--show", "s", "--json").stdout)
    (trial,) = found["trials"]
    assert len(trial["values"]) == 2
    assert (here / "s" / "trials" / "0001" / "seed-1" / "results.json").exists()
    sweep("--resume", "s", "--trials", "2")
    assert json.loads(sweep("--show", "s", "--json").stdout)["counts"] == {"complete": 2}


def test_a_resumed_study_takes_no_other_settings(here):
    for given in (["--seeds", "3"], ["--set", "model.width=4"], ["--cell", "lstm"], ["x.toml"]):
        done = sweep("--resume", "s", *given, code=2)
        assert "--resume takes the settings of the study" in done.stderr
    assert "so not --resume" in sweep("--show", "s", "--resume", "s", code=2).stderr


def test_a_mistake_in_the_space_is_one_message(here):
    done = sweep(write(here, '\n[sweep.space]\n"model.cell" = ["lstn"]\n'), code=2)
    assert "no cell is called 'lstn'. Did you mean 'lstm'?" in done.stderr
    assert not (here / "runs").exists()


SLOW = BASE.replace("steps = 4", "steps = 100000").replace("evaluate_every = 2", "evaluate_every = 20")


def wait_for(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.1)


def test_when_one_of_two_workers_is_killed_every_trial_is_accounted_for(here):
    """The first worker is killed in the middle of a trial; the second finishes it, and all the others."""
    spec = write(here, SPACE, SLOW)
    command = ("sweep", "--plugin", PLUGIN, spec, "--out", "s")
    first = begin(*command, cwd=here)
    metrics = here / "s" / "trials" / "0001" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and '"dev"' in metrics.read_text())
    first.send_signal(signal.SIGKILL)
    first.communicate()
    counts = json.loads(sweep("--show", "s", "--json").stdout)["counts"]
    assert counts == {"lost": 1, "waiting": 3}
    # The rest is short, also of the lost trial, which the second worker continues.
    for path in (here / "s" / "base.toml", here / "s" / "trials" / "0001" / "spec.toml"):
        path.write_text(_unchecked(path.read_text().replace("steps = 100000", "steps = 40")))
    _forget_content(here / "s")
    sweep("--resume", "s")
    found = json.loads(sweep("--show", "s", "--json").stdout)
    assert found["counts"] == {"complete": 4}
    assert [trial["trial"] for trial in found["trials"]] == [1, 2, 3, 4]
    (reason,) = found["trials"][0]["retries"]
    assert f":{first.pid}) ended without a result" in reason


def _unchecked(text):
    """A spec without the checksum in its last line, so that it may be changed."""
    return re.sub(r"# end [0-9a-f]{8}\n\Z", "# end\n", text)


def _forget_content(directory):
    """Let the study take the settings that now stand in its directory."""
    journal = directory / "study.log"
    journal.write_text(journal.read_text().replace("100000", "40"))


def test_an_interrupted_sweep_says_how_to_resume_it(here):
    worker = begin("sweep", "--plugin", PLUGIN, write(here, ONE, SLOW), "--out", "s", cwd=here)
    metrics = here / "s" / "trials" / "0001" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and '"dev"' in metrics.read_text())
    worker.send_signal(signal.SIGINT)
    stdout, stderr = worker.communicate(timeout=60)
    assert worker.returncode == 130
    assert "1 trials: 1 waiting" in stdout
    assert f"interrupted; resume with: crvnn sweep --resume s --plugin {PLUGIN}" in stderr


def test_several_workers_of_one_command_share_the_trials(here):
    done = begin("sweep", "--plugin", PLUGIN, write(here), "--out", "s", "--workers", "2", "--json", cwd=here)
    stdout, stderr = done.communicate(timeout=120)
    assert done.returncode == 0, stderr
    assert json.loads(stdout)["counts"] == {"complete": 4}
    assert (here / "s" / "worker-2.log").exists()
