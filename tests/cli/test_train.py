"""``crvnn train``: what it prints, where it writes, and with which exit code."""

import json
import shlex
import statistics

import pytest

from calling import run
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from files import contents
from small import differences, options

QUICK = ("training.steps=2", "training.evaluate_every=2")

pytestmark = pytest.mark.usefixtures("here")


def test_a_run_goes_to_a_new_directory_named_after_the_task(here):
    result = run("train", *options(*QUICK))
    assert "Training into runs/letters (seed 0)." in result.stderr
    assert "runs/letters: 2 steps; the best weights are those of step 2." in result.stdout
    assert "Try it: crvnn --plugin runs/letters/plugins/small.py predict runs/letters " in result.stdout
    assert (here / "runs" / "letters" / "weights.safetensors").exists()


PAIRS = "one,two,label\n" + "".join(f"it's no {n},-{n % 2} it is,{n % 2}\n" for n in range(20))
SNLI = '{"gold_label": "neutral", "sentence1": "A man\'s asleep.", "sentence2": "He is old."}\n'


@pytest.mark.parametrize(
    "sets",
    [
        ("task=listops", "task.max_tokens=9"),
        ("task=logic", "task.train_operations=3"),
        ("task=snli", "task.directory=."),
        ("task=from-file", "task.train=pairs.csv", "task.text=['one', 'two']"),
    ],
)
def test_the_command_that_is_printed_at_the_end_works(here, sets):
    (here / "pairs.csv").write_text(PAIRS)
    for split in ("train", "dev", "test"):
        (here / f"snli_1.0_{split}.jsonl").write_text(SNLI)
    small = () if sets[0] in ("task=snli", "task=from-file") else ("task.rows=16", "task.held_out=4")
    result = run("train", *(f"--set={text}" for text in (*sets, *small, "model.width=8", "training.steps=1")))
    _, _, printed = result.stdout.strip().splitlines()[-1].partition("Try it: crvnn ")
    assert run(*shlex.split(printed)).stdout


def test_a_second_run_of_a_spec_file_gets_a_number(here):
    (here / "mine.toml").write_text("seed = 3\n")
    for name in ("mine", "mine-2", "mine-3"):
        result = run("train", "mine.toml", *options(*QUICK))
        assert f"Training into runs/{name} (seed 3)." in result.stderr
        assert (here / "runs" / name / "spec.toml").exists()
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["mine", "mine-2", "mine-3"]


def test_standard_output_is_json_alone(here):
    result = run("train", *options(*QUICK), "--out", "a", "--json")
    found = json.loads(result.stdout)
    assert found["directory"] == "a"
    assert found["summary"] is None
    (only,) = found["runs"].values()
    assert (only["step"], only["best_step"], only["stopped"], only["finished"]) == (2, 2, "", True)
    written = json.loads((here / "a" / "results.json").read_text())
    assert only["results"] == written["splits"]


def test_training_from_several_seeds_gives_a_summary(here):
    result = run("train", *options(*QUICK, "seed=4"), "--seeds", "3", "--out", "a", "--json")
    found = json.loads(result.stdout)
    assert list(found["runs"]) == ["a/seed-4", "a/seed-5", "a/seed-6"]
    assert json.loads((here / "a" / "summary.json").read_text()) == found["summary"]
    assert found["summary"]["runs"] == 3
    for split in ("dev", "test"):
        scores = [each["results"][split] for each in found["runs"].values()]
        for group, facts in found["summary"]["splits"][split].items():
            known = [score["total"] if group == "all" else score["buckets"].get(group) for score in scores]
            values = [score["accuracy"] for score in known if score is not None]
            wanted = {
                "mean": statistics.mean(values),
                "median": statistics.median(values),
                "min": min(values),
                "std": statistics.stdev(values),
            }
            assert facts == pytest.approx(wanted)
    weights = [checkpoint.load(RunDirectory(here / "a" / f"seed-{n}").weights)["model"] for n in (4, 5, 6)]
    assert differences(weights[0], weights[1])
    assert differences(weights[1], weights[2])


def test_each_of_several_seeds_is_the_run_of_that_seed_and_their_summary_a_table(here):
    shown = run("train", *options(*QUICK), "--seeds", "2", "--out", "a").stdout
    run("train", *options(*QUICK, "seed=1"), "--out", "b")
    one, two = (checkpoint.load(here / path / "weights.safetensors") for path in ("a/seed-1", "b"))
    assert differences(one["model"], two["model"]) == []
    assert "Accuracy (%) over 2 seeds:" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["split", "group", "mean", "median", "min", "std"] in lines
    written = json.loads((here / "a" / "summary.json").read_text())["splits"]["test"]["all"]
    keys = ("mean", "median", "min", "std")
    assert ["test", "all", *(f"{100 * written[key]:.1f}" for key in keys)] in lines


def test_one_seed_is_not_several():
    assert "1 is not in the range" in run("train", *options(), "--seeds", "1", code=2).stderr


def test_a_wrong_spec_is_refused_before_anything_is_written(here):
    result = run("train", *options("training.batch=0", "training.watch=luck"), code=2)
    assert "training.batch=0: must be at least 1, not 0" in result.stderr
    assert "training.watch=luck: must be one of 'accuracy', 'loss', not 'luck'" in result.stderr
    assert list(here.iterdir()) == []


def test_a_group_of_seeds_is_not_mixed_with_another_experiment(here):
    run("train", *options(*QUICK), "--out", "g", "--seeds", "2")
    before = contents(here / "g")
    for more in (("--seeds", "3"), ()):
        result = run("train", *options(*QUICK, "model.width=4"), "--out", "g", *more, code=2)
        assert "g holds a run already" in result.stderr
    assert contents(here / "g") == before


def test_a_precision_may_be_written_as_a_number():
    run("train", *options(*QUICK, "training.precision=64"), "--out", "p")
