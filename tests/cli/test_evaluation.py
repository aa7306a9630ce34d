"""``crvnn eval``: what it prints and writes; of one run, and of several seeds."""

import csv
import json
import statistics
from types import SimpleNamespace

import pytest

from calling import run
from crvnn_core.cli.evaluation import _show_classes
from crvnn_core.inference.trained import load
from crvnn_core.runs.results import Classification, SeedResults
from small import PLUGIN

pytestmark = pytest.mark.usefixtures("here")


def evaluate(*args, **more):
    return run("eval", "--plugin", PLUGIN, *args, **more)


def evaluated(*args):
    """What is printed as JSON."""
    return json.loads(evaluate(*args, "--json").stdout)


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_model_is_evaluated_on_its_last_split(letters_run):
    result = evaluate(letters_run)
    rows = [line.split() for line in result.stdout.partition("\n\n")[0].splitlines()]
    assert rows[0][:3] == ["split", "group", "examples"]
    assert rows[1][:3] == ["test", "all", "20"]
    assert [row[1] for row in rows[2:]] == ["1", "2", "3", "4"]
    found = json.loads((letters_run / "results.json").read_text())["splits"]["test"]["total"]
    assert rows[1][3] == f"{100 * found['accuracy']:.1f}"


def test_an_evaluation_can_be_printed_as_json(letters_run):
    found = evaluated(letters_run, "--split", "dev")
    written = json.loads((letters_run / "results.json").read_text())["splits"]["dev"]
    assert (found["run"], found["data"]) == (str(letters_run), "dev")
    assert found["total"] == pytest.approx(written["total"], abs=1e-6)
    assert list(found["buckets"]) == list(written["buckets"])


def test_a_model_is_evaluated_on_a_file(letters_run, here):
    (here / "mine.tsv").write_text("yes\ta b\nno\tc d\nyes\tb\n")
    found = evaluated(letters_run, "--data", "mine.tsv")
    assert found["data"] == "mine.tsv"
    assert found["total"]["examples"] == 3
    assert {name: score["examples"] for name, score in found["buckets"].items()} == {"1": 1, "2": 2}
    (here / "mine.tsv").write_text("yes\ta b\nperhaps\tc d\n")
    result = evaluate(letters_run, "--data", "mine.tsv", code=2)
    assert result.stderr.strip() == "crvnn: mine.tsv:2: expected a label, a tab and letters"


def test_settings_of_the_task_may_change_in_an_evaluation(letters_run):
    args = (letters_run, "--split", "train", "--set")
    assert evaluated(*args, "task.rows=11")["total"]["examples"] == 11
    assert "only the task's settings can change" in evaluate(*args, "model.width=3", code=2).stderr


def test_a_file_and_a_split_are_not_evaluated_at_once(letters_run):
    result = evaluate(letters_run, "--data", "x", "--split", "dev", code=2)
    assert "give --data or --split, not both." in result.stderr


def test_an_unknown_split_or_run_is_one_clear_message(letters_run):
    result = evaluate(letters_run, "--split", "devv", code=2)
    assert result.stderr.startswith("crvnn: no split is called 'devv'. Did you mean 'dev'?")
    assert "nowhere: there is no such run directory" in evaluate("nowhere", code=2).stderr


# Classes.


def test_each_class_is_scored_and_the_confusion_is_shown(letters_run):
    shown = evaluate(letters_run).stdout
    found = evaluated(letters_run)
    (a, b), (c, d) = found["confusion"]["counts"]
    assert a + b + c + d == 20
    assert (a + d) / 20 == pytest.approx(found["total"]["accuracy"])
    f1s = [2 * a / (2 * a + b + c), 2 * d / (2 * d + b + c)]
    assert found["macro_f1"] == pytest.approx(sum(f1s) / 2)
    assert [found["classes"][name]["f1"] for name in ("no", "yes")] == pytest.approx(f1s)
    assert f"test: macro F1 {50 * sum(f1s):.1f} %, over 2 classes" in shown
    rows = [line.split() for line in shown.splitlines()]
    precision, recall = (f"{100 * part:.1f}" for part in (a / (a + c), a / (a + b)))
    assert ["no", precision, recall, f"{100 * f1s[0]:.1f}", str(a + b), str(a + c)] in rows
    assert rows[-2:] == [["no", *(str(n or ".") for n in (a, b))], ["yes", *(str(n or ".") for n in (c, d))]]


def test_classes_that_never_occur_are_said(letters_run, here):
    (here / "mine.tsv").write_text("yes\ta b\nyes\tb a\n")
    result = evaluate(letters_run, "--data", "mine.tsv")
    assert "without examples here: no" in result.stdout
    found = evaluated(letters_run, "--data", "mine.tsv")
    assert found["classes"]["no"]["support"] == 0
    assert found["classes"]["no"]["recall"] is None


def show_classes(names, gold, predicted):
    result = SimpleNamespace(classification=Classification.count(names, gold, predicted))
    _show_classes("dev", SeedResults({None: result}))


@pytest.mark.parametrize(
    ("classes", "name"), [(40, "c{}"), (15, "a class whose name is far too long, number {}")]
)
def test_many_classes_are_shown_as_the_worst_and_the_most_confused(classes, name, capsys, monkeypatch):
    monkeypatch.setattr("crvnn_core.cli.evaluation.terminal_width", lambda: 80)
    gold = [i % classes for i in range(200)]
    predicted = [0 if label in (3, 5) else label for label in gold]
    names = [name.format(i) for i in range(classes)]
    show_classes(names, gold, predicted)
    shown = capsys.readouterr().out
    assert "Most frequent confusions" in shown
    assert len(shown.splitlines()) < 45
    for label in (0, 3, 5):
        assert names[label] in shown
    assert f"never predicted: {names[3]}, {names[5]}" in shown


def test_names_that_are_too_long_for_columns_are_numbered(capsys, monkeypatch):
    monkeypatch.setattr("crvnn_core.cli.evaluation.terminal_width", lambda: 40)
    show_classes(["rather negative", "rather positive"], [0, 1, 1], [0, 1, 0])
    assert [line.split() for line in capsys.readouterr().out.splitlines()][-3:] == [
        ["1", "2"],
        ["1:", "rather", "negative", "1", "."],
        ["2:", "rather", "positive", "1", "1"],
    ]


def test_tables_are_written_beside_each_other(letters_run, here):
    result = evaluate(letters_run, "--out", "r.csv", "--json", "--hard")
    assert result.stderr.strip() == "wrote r.csv, r-classes.csv, r-confusion.csv"
    found = json.loads(result.stdout)
    groups = table(here / "r.csv")
    assert [(row["decisions"], row["group"]) for row in groups] == [
        (kind, group) for kind in ("soft", "hard") for group in ("all", "1", "2", "3", "4")
    ]
    assert float(groups[0]["accuracy"]) == pytest.approx(found["total"]["accuracy"])
    assert float(groups[0]["macro_f1"]) == pytest.approx(found["macro_f1"])
    classes = table(here / "r-classes.csv")
    assert [row["class"] for row in classes] == ["no", "yes"] * 2
    assert float(classes[1]["f1"]) == pytest.approx(found["classes"]["yes"]["f1"])
    matrix = [
        [int(row["predicted no"]), int(row["predicted yes"])] for row in table(here / "r-confusion.csv")
    ]
    assert matrix == found["confusion"]["counts"] + found["hard"]["confusion"]["counts"]


def test_tables_go_to_csv_files_only():
    assert (
        "r.txt: tables are written to files that end in .csv"
        in evaluate("x", "--out", "r.txt", code=2).stderr
    )


# Several seeds.


def test_seeds_are_evaluated_together(seeds_run):
    found = evaluated(seeds_run, "--split", "dev")
    accuracies = [found["seeds"][str(seed)]["total"]["accuracy"] for seed in (3, 4, 5)]
    for seed, accuracy in zip((3, 4, 5), accuracies, strict=True):
        written = json.loads((seeds_run / f"seed-{seed}" / "results.json").read_text())
        assert written["splits"]["dev"]["total"]["accuracy"] == pytest.approx(accuracy)
    assert found["total"]["accuracy"]["mean"] == pytest.approx(statistics.mean(accuracies))
    assert found["total"]["accuracy"]["std"] == pytest.approx(statistics.stdev(accuracies))
    assert found["macro_f1"]["min"] == min(found["seeds"][str(seed)]["macro_f1"] for seed in (3, 4, 5))
    assert found["classes"]["yes"]["f1"]["mean"] == pytest.approx(
        statistics.mean(found["seeds"][str(seed)]["classes"]["yes"]["f1"] for seed in (3, 4, 5))
    )


def test_the_spread_over_seeds_and_every_seed_are_shown(seeds_run, here):
    shown = evaluate(seeds_run, "--split", "dev", "--out", "r.csv").stdout
    found = evaluated(seeds_run, "--split", "dev")
    accuracy = found["total"]["accuracy"]
    assert f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f}" in shown
    rows = [line.split() for line in shown.splitlines()]
    for seed, result in found["seeds"].items():
        cells = [f"{100 * result['total']['accuracy']:.1f}", f"{100 * result['macro_f1']:.1f}"]
        assert ["dev", seed, *cells] in rows
    assert "Confusion, over 3 seeds" in shown
    runs = [row["run"] for row in table(here / "r.csv") if row["group"] == "all"]
    assert runs == [f"{seeds_run}/seed-{seed}" for seed in (3, 4, 5)]


def test_where_one_model_is_needed_the_best_seed_is_used_and_named(seeds_run, small_catalog):
    accuracies = {
        seed: json.loads((seeds_run / f"seed-{seed}" / "results.json").read_text())["splits"]["dev"]["total"][
            "accuracy"
        ]
        for seed in (3, 4, 5)
    }
    best = max(accuracies, key=accuracies.__getitem__)
    assert best != 3  # or the first would do
    said = f"crvnn: {seeds_run}: using seed-{best}, the best of 3 seeds on 'dev' ({accuracies[best]:.1%})"
    (wanted,) = load(seeds_run / f"seed-{best}", small_catalog).predict(["a b c"])
    result = run("predict", "--plugin", PLUGIN, seeds_run, "a b c", "--json")
    assert result.stderr.strip() == said
    assert json.loads(result.stdout)[0]["probabilities"] == wanted.probabilities
    assert run("predict", "--plugin", PLUGIN, seeds_run, "a b c").stderr.strip() == said
    assert run("predict", "--plugin", PLUGIN, seeds_run / f"seed-{best}", "a").stderr == ""
    assert load(seeds_run, small_catalog).predict(["a b c"]) == [wanted]


def test_trees_of_seeds_are_compared_and_their_scores_averaged(seeds_run):
    args = ("trees", "--split", "dev", "--plugin", PLUGIN, seeds_run)
    found = json.loads(run(*args, "--json").stdout)
    assert found["runs"] == [f"{seeds_run}/seed-{seed}" for seed in (3, 4, 5)]
    assert found["agreement"] is not None
    assert found["seeds"][str(seeds_run)]["f1"] is None  # letters have no gold trees
    assert "agreement, the mean F1 of every two runs" in run(*args).stdout
    again = run(*args, seeds_run / "seed-3", code=2)
    assert "the same run is there twice." in again.stderr
