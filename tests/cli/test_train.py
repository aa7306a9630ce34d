"""``crvnn train``, ``eval`` and ``predict``: what they print, where they write, and with which exit code."""

import json
import shutil
import signal
import time

import pytest

from calling import run
from crvnn_core import load
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from small import PLUGIN, begin, differences, leaves, metrics_of, options, same


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The current directory, in which nothing is yet."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


QUICK = ("training.steps=2", "training.evaluate_every=2")


# train


def test_a_run_goes_to_a_new_directory_named_after_the_task(here):
    result = run("train", *options(*QUICK))
    assert "Training into runs/letters (seed 0)." in result.stderr
    assert "runs/letters: 2 steps; the best weights are those of step 2." in result.stdout
    assert "Ask it: crvnn predict runs/letters TEXT" in result.stdout
    assert (here / "runs" / "letters" / "weights.safetensors").exists()


def test_a_second_run_of_a_spec_file_gets_a_number(here):
    (here / "mine.toml").write_text("seed = 3\n")
    for name in ("mine", "mine-2", "mine-3"):
        result = run("train", "mine.toml", *options(*QUICK))
        assert f"Training into runs/{name} (seed 3)." in result.stderr
        assert (here / "runs" / name / "spec.toml").exists()
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["mine", "mine-2", "mine-3"]


def test_parts_and_presets_are_chosen_as_in_assemble(here):
    run("train", *options(*QUICK), "--cell", "lstm", "--out", "a")
    assert 'name = "lstm"' in (here / "a" / "spec.toml").read_text()


def test_the_result_is_shown_as_a_table_of_splits_and_groups(here):
    result = run("train", *options(*QUICK), "--out", "a")
    assert "split  group  examples  accuracy %" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["dev", "all", "20"] in [row[:3] for row in rows]
    assert ["test", "4"] in [row[:2] for row in rows]


def test_json_is_all_there_is_on_standard_output(here):
    result = run("train", *options(*QUICK), "--out", "a", "--json")
    found = json.loads(result.stdout)
    assert found["directory"] == "a"
    assert found["summary"] is None
    (only,) = found["runs"].values()
    assert (only["step"], only["best_step"], only["stopped"], only["finished"]) == (2, 2, "", True)
    written = json.loads((here / "a" / "results.json").read_text())
    assert only["results"] == written["splits"]


def test_a_run_is_not_overwritten_by_another(letters_run, here):
    shutil.copytree(letters_run, here / "a")
    before = contents(here / "a")
    for more in ((), ("--seeds", "2")):
        result = run("train", *options(*QUICK), "--out", "a", *more, code=2)
        assert "crvnn: a holds a run already" in result.stderr
        assert "Traceback" not in result.stderr
    assert contents(here / "a") == before


def test_training_from_several_seeds_gives_a_summary(here):
    result = run("train", *options(*QUICK, "seed=4"), "--seeds", "3", "--out", "a", "--json")
    found = json.loads(result.stdout)
    assert list(found["runs"]) == ["a/seed-4", "a/seed-5", "a/seed-6"]
    written = json.loads((here / "a" / "summary.json").read_text())
    assert written == found["summary"]
    assert written["runs"] == 3
    for split in ("dev", "test"):
        for group, facts in written["splits"][split].items():
            scores = [
                each["results"][split]["total" if group == "all" else "buckets"]
                for each in found["runs"].values()
            ]
            values = [
                score["accuracy"] if group == "all" else score[group]["accuracy"]
                for score in scores
                if group == "all" or group in score
            ]
            mean = sum(values) / len(values)
            deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
            wanted = {"mean": mean, "median": sorted(values)[1], "min": min(values), "std": deviation}
            assert facts == pytest.approx(wanted)
    weights = [checkpoint.load(RunDirectory(here / "a" / f"seed-{n}").weights)["model"] for n in (4, 5, 6)]
    assert differences(weights[0], weights[1])
    assert differences(weights[1], weights[2])


def test_each_of_several_seeds_is_the_run_of_that_seed(here):
    run("train", *options(*QUICK), "--seeds", "2", "--out", "a")
    run("train", *options(*QUICK, "seed=1"), "--out", "b")
    one, two = (checkpoint.load(here / path / "weights.safetensors") for path in ("a/seed-1", "b"))
    assert differences(one["model"], two["model"]) == []


def test_the_summary_of_several_seeds_is_a_table(here):
    result = run("train", *options(*QUICK), "--seeds", "2", "--out", "a")
    assert "Accuracy (%) over 2 seeds:" in result.stdout
    header = next(line for line in result.stdout.splitlines() if line.startswith("split"))
    assert header.split() == ["split", "group", "mean", "median", "min", "std"]
    written = json.loads((here / "a" / "summary.json").read_text())["splits"]["test"]["all"]
    row = next(line.split() for line in result.stdout.splitlines() if line.split()[:2] == ["test", "all"])
    assert row[2:] == [f"{100 * written[key]:.1f}" for key in ("mean", "median", "min", "std")]


@pytest.mark.parametrize(
    "more", [("mine.toml",), ("--out", "b"), ("--seeds", "2"), ("--cell", "lstm"), ("--preset", "paper")]
)
def test_a_resumed_run_has_a_spec_already(more):
    result = run("train", "--resume", "a", *more, code=2)
    assert "--resume takes the spec of the run; only --set can change how long and where." in result.stderr


def test_one_seed_is_not_several():
    assert "1 is not in the range" in run("train", *options(), "--seeds", "1", code=2).stderr


@pytest.mark.parametrize("text", ["model.width=9", "training.batch=4", "seed=3", "task.rows=9", "training=3"])
def test_what_is_trained_cannot_change_when_a_run_is_resumed(letters_run, here, text):
    shutil.copytree(letters_run, here / "a")
    before = contents(here / "a")
    result = run("train", "--plugin", PLUGIN, "--resume", "a", "--set", text, code=2)
    assert f"crvnn: --set {text}: this cannot change when a run is resumed" in result.stderr
    for key in (
        "epochs",
        "steps",
        "patience",
        "save_every",
        "accelerator",
        "devices",
        "threads",
        "observers",
    ):
        assert f"training.{key}" in result.stderr
    assert contents(here / "a") == before


def test_resuming_a_finished_run_changes_nothing(letters_run, here):
    shutil.copytree(letters_run, here / "a")
    before = contents(here / "a")
    result = run("train", "--plugin", PLUGIN, "--resume", "a", "--json")
    assert "Resuming a (seed 0)." in result.stderr
    (only,) = json.loads(result.stdout)["runs"].values()
    assert only["results"] == json.loads((here / "a" / "results.json").read_text())["splits"]
    assert contents(here / "a") == before


def test_a_finished_run_is_trained_for_longer(letters_run, here):
    shutil.copytree(letters_run, here / "a")
    result = run("train", "--plugin", PLUGIN, "--resume", "a", "--set", "training.steps=33", "--json")
    (only,) = json.loads(result.stdout)["runs"].values()
    assert only["step"] == 33
    steps = [row["step"] for row in metrics_of(here / "a") if row["kind"] == "train"]
    assert steps == list(range(1, 34))


def test_several_seeds_are_resumed_together_even_those_that_had_not_started(here):
    run("train", *options(*QUICK), "--seeds", "3", "--out", "whole")
    shutil.copytree(here / "whole", here / "a")
    (here / "a" / "summary.json").unlink()
    for path in (here / "a" / "seed-2").iterdir():  # it had only been planned
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    result = run("train", "--plugin", PLUGIN, "--resume", "a", "--json")
    assert list(json.loads(result.stdout)["runs"]) == ["a/seed-0", "a/seed-1", "a/seed-2"]
    one, two = (json.loads((here / path / "summary.json").read_text()) for path in ("a", "whole"))
    assert one == two


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "nowhere: there is no such directory"),
        (".", ". is not a run of 'crvnn train': it has no spec.toml"),
    ],
)
def test_a_directory_without_a_run_cannot_be_resumed(name, message):
    assert f"crvnn: {message}" in run("train", "--resume", name, code=2).stderr


def test_a_wrong_spec_is_refused_before_anything_is_written(here):
    result = run("train", *options("training.batch=0", "training.watch=luck"), code=2)
    assert "training.batch=0: must be at least 1, not 0" in result.stderr
    assert "training.watch=luck: must be one of accuracy, loss, not 'luck'" in result.stderr
    assert list(here.iterdir()) == []


def test_training_without_an_end_is_refused(here):
    result = run("train", *options("training.steps=0"), code=2)
    assert "epochs and steps cannot both be without a limit; training would never end" in result.stderr


def wait_for(condition, process):
    """Wait until something is so, or the process has ended."""
    began = time.monotonic()
    while not condition() and process.poll() is None and time.monotonic() - began < 300:
        time.sleep(0.005)


def test_an_interrupted_run_says_how_to_resume_and_ends_the_same(here):
    sets = (
        "training.steps=60",
        "training.evaluate_every=13",
        "training.save_every=7",
        "model.input_dropout=0.2",
    )
    process = begin("train", *options(*sets), "--out", "a", cwd=here)
    metrics = here / "a" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 10, process)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "crvnn: interrupted; resume with: crvnn train --resume a" in errors
    assert "Traceback" not in errors
    assert "interrupted after step" in out
    run("train", "--plugin", PLUGIN, "--resume", "a")
    run("train", *options(*sets), "--out", "b")
    one, two = RunDirectory(here / "a"), RunDirectory(here / "b")
    assert differences(checkpoint.load(one.weights)["model"], checkpoint.load(two.weights)["model"]) == []
    for part in ("model", "optimizer", "position"):
        assert same(checkpoint.load(one.last)[part], checkpoint.load(two.last)[part])
    assert metrics_of(one.path) == metrics_of(two.path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_among_several_seeds_begins_no_other(here, number):
    observers = f'training.observers=[{{name="interrupting", step=3, signals=[{int(number)}]}}]'
    result = run("train", *options(observers), "--seeds", "2", "--out", "a", code=130)
    assert "crvnn: interrupted; resume with: crvnn train --resume a" in result.stderr
    assert "a/seed-0: interrupted after step 3." in result.stdout
    assert list((here / "a" / "seed-1").iterdir()) == []
    assert not (here / "a" / "summary.json").exists()
    run("train", "--plugin", PLUGIN, "--resume", "a", "--set", "training.observers=[]")
    assert json.loads((here / "a" / "summary.json").read_text())["runs"] == 2


# eval


def test_a_model_is_measured_on_its_last_split(letters_run):
    result = run("eval", letters_run, "--plugin", PLUGIN)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0][:3] == ["split", "group", "examples"]
    assert rows[1][:3] == ["test", "all", "20"]
    assert [row[1] for row in rows[2:]] == ["1", "2", "3", "4"]
    found = json.loads((letters_run / "results.json").read_text())["splits"]["test"]["total"]
    assert rows[1][3] == f"{100 * found['accuracy']:.1f}"


def test_a_model_is_measured_on_a_split_for_machines(letters_run):
    found = json.loads(run("eval", letters_run, "--plugin", PLUGIN, "--split", "dev", "--json").stdout)
    written = json.loads((letters_run / "results.json").read_text())["splits"]["dev"]
    assert (found["run"], found["data"]) == (str(letters_run), "dev")
    assert found["total"] == pytest.approx(written["total"], abs=1e-6)
    assert list(found["buckets"]) == list(written["buckets"])


def test_a_model_is_measured_on_a_file(letters_run, here):
    (here / "mine.tsv").write_text("yes\ta b\nno\tc d\nyes\tb\n")
    found = json.loads(run("eval", letters_run, "--plugin", PLUGIN, "--data", "mine.tsv", "--json").stdout)
    assert found["data"] == "mine.tsv"
    assert found["total"]["examples"] == 3
    assert {name: score["examples"] for name, score in found["buckets"].items()} == {"1": 1, "2": 2}
    (here / "mine.tsv").write_text("yes\ta b\nperhaps\tc d\n")
    result = run("eval", letters_run, "--plugin", PLUGIN, "--data", "mine.tsv", code=2)
    assert result.stderr.strip() == "crvnn: mine.tsv:2: expected a label, a tab and letters"


def test_settings_of_the_task_may_change_when_a_model_is_measured(letters_run):
    args = ("eval", letters_run, "--plugin", PLUGIN, "--split", "train", "--json")
    assert json.loads(run(*args, "--set", "task.rows=11").stdout)["total"]["examples"] == 11
    assert "only the task's settings can change" in run(*args, "--set", "model.width=3", code=2).stderr


def test_a_file_and_a_split_are_not_measured_at_once(letters_run):
    result = run("eval", letters_run, "--plugin", PLUGIN, "--data", "x", "--split", "dev", code=2)
    assert "give --data or --split, not both." in result.stderr


def test_an_unknown_split_or_run_is_one_clear_message(letters_run):
    result = run("eval", letters_run, "--plugin", PLUGIN, "--split", "devv", code=2)
    assert result.stderr.startswith("crvnn: no split is called 'devv'. Did you mean 'dev'?")
    assert "nowhere: there is no such run directory" in run("eval", "nowhere", code=2).stderr


# predict


def test_each_text_has_a_line_with_its_label(letters_run, small_catalog):
    result = run("predict", letters_run, "a b", "c d e", "--plugin", PLUGIN)
    wanted = load(letters_run, small_catalog).predict(["a b", "c d e"])
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == [answer.label for answer in wanted]
    assert [line[1] for line in lines] == [f"{answer.probabilities[answer.label]:.1%}" for answer in wanted]
    assert [line[2] for line in lines] == ["a b", "c d e"]


def test_trees_are_shown_when_asked_for(letters_run, small_catalog):
    result = run("predict", letters_run, "a b c", "--trees", "--plugin", PLUGIN)
    _, tree = result.stdout.splitlines()
    assert tree.strip() in ("((a b) c)", "(a (b c))")


def test_predictions_for_machines(letters_run, small_catalog):
    found = json.loads(run("predict", letters_run, "a b c", "f", "--plugin", PLUGIN, "--json").stdout)
    wanted = load(letters_run, small_catalog).predict(["a b c", "f"])
    assert [each["text"] for each in found] == ["a b c", "f"]
    assert [each["label"] for each in found] == [answer.label for answer in wanted]
    for each, answer in zip(found, wanted, strict=True):
        assert each["probabilities"] == pytest.approx(answer.probabilities)
        assert each["trees"][0].replace("(", "").replace(")", "").split() == leaves(answer.tree)


@pytest.mark.parametrize("way", ["file", "stdin"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_texts_are_read_from_a_file_or_from_standard_input(letters_run, here, way, end):
    content = end.join(["a b", "c", "d e f"])
    (here / "texts").write_bytes(content.encode())
    args = ("texts",) if way == "file" else ("-",)
    result = run("predict", letters_run, "--plugin", PLUGIN, "--file", *args, "--json", stdin=content)
    assert [each["text"] for each in json.loads(result.stdout)] == ["a b", "c", "d e f"]


def test_pairs_are_taken_two_by_two_or_tab_by_tab(pairs_run, here):
    by_argument = run("predict", pairs_run, "a b", "a", "c", "d e", "--plugin", PLUGIN, "--json")
    (here / "pairs").write_text("a b\ta\nc\td e\n")
    by_file = run("predict", pairs_run, "--file", "pairs", "--plugin", PLUGIN, "--json")
    assert json.loads(by_argument.stdout) == json.loads(by_file.stdout)
    assert [each["text"] for each in json.loads(by_file.stdout)] == [["a b", "a"], ["c", "d e"]]
    assert all(len(each["trees"]) == 2 for each in json.loads(by_file.stdout))
    shown = run("predict", pairs_run, "a b", "a", "--plugin", PLUGIN)
    assert shown.stdout.rstrip().endswith("\ta b  |  a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nc d\n", "pairs:2: expected two texts with a tab between them"),
        ("a\t\n", "pairs:1: expected two texts with a tab between them"),
        ("a\tb\n\nc\td\n", "pairs:2: the line is empty"),
    ],
)
def test_a_line_that_is_no_pair_is_named(pairs_run, here, content, message):
    (here / "pairs").write_text(content)
    result = run("predict", pairs_run, "--file", "pairs", "--plugin", PLUGIN, code=2)
    assert result.stderr.strip() == f"crvnn: {message}"


def test_a_file_that_is_no_text_is_one_clear_message(letters_run, here):
    (here / "texts").write_bytes(b"caf\xe9\n")
    result = run("predict", letters_run, "--file", "texts", "--plugin", PLUGIN, code=2)
    assert "texts" in result.stderr
    assert "UTF-8" in result.stderr


def test_texts_and_pairs_that_cannot_be_asked_about_are_usage_errors(letters_run, pairs_run, here):
    (here / "texts").write_text("a\n")
    for args in ((), ("a", "--file", "texts")):
        assert "give texts, or a file of them" in run("predict", letters_run, *args, code=2).stderr
    result = run("predict", pairs_run, "a", "b", "c", "--plugin", PLUGIN, code=2)
    assert "the task is about pairs of texts; 3 cannot be paired" in result.stderr
    assert "No such file" in run("predict", letters_run, "--file", "nowhere", code=2).stderr


def test_an_empty_text_is_one_clear_message(letters_run):
    result = run("predict", letters_run, "a", " ", "--plugin", PLUGIN, code=2)
    assert result.stderr.strip() == "crvnn: text 2 is empty: there is nothing to predict"


def test_a_run_whose_task_is_not_installed_names_it(letters_run):
    result = run("predict", letters_run, "a", code=2)
    assert "no task is called 'letters'" in result.stderr


def test_a_damaged_run_is_one_clear_message(letters_run, here):
    shutil.copytree(letters_run, here / "a")
    weights = here / "a" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    result = run("predict", "a", "b", "--plugin", PLUGIN, code=2)
    assert result.stderr.startswith("crvnn: a/weights.safetensors is damaged: ")
    assert len(result.stderr.splitlines()) == 1


# What may change when a run is taken up.


def test_what_changes_when_a_run_is_taken_up_is_written_down(letters_run, here):
    shutil.copytree(letters_run, here / "a")
    sets = ("--set", "training.steps=33", "--set", "training.optimizer.learning_rate=0.005")
    run("train", "--plugin", PLUGIN, "--resume", "a", *sets)
    text = (here / "a" / "spec.toml").read_text()
    assert "steps = 33" in text
    assert "learning_rate = 0.005" in text
    (last,) = [row for row in metrics_of(here / "a") if row["step"] == 33 and row["kind"] == "train"]
    assert last["learning_rate"] == 0.005


def test_a_group_of_seeds_is_not_mixed_with_another_experiment(here):
    run("train", *options(*QUICK), "--out", "g", "--seeds", "2")
    before = contents(here / "g")
    for more in (("--seeds", "3"), ()):
        result = run("train", *options(*QUICK, "model.width=4"), "--out", "g", *more, code=2)
        assert "g holds a run already" in result.stderr
    assert contents(here / "g") == before


def test_a_precision_may_be_written_as_a_number():
    run("train", *options(*QUICK, "training.precision=64"), "--out", "p")
