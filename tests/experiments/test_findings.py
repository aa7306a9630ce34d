"""What a study has found: rows, the best trial, importance, tables and the page."""

import csv
import io
import json

import pytest

from crvnn_experiments.findings import Effect, Findings, Row, explained_variance, read_findings
from crvnn_experiments.pages import sweep_page
from sweeps import needs_optuna, started

needs_optuna()

SPACE = """
[sweep]
trials = 12
sampler = "random"

[sweep.space]
"model.cell" = ["gated", "lstm"]
"model.decision" = ["sigmoid", {name = "stretched", stretch = {low = 0.05, high = 0.3}}]
"training.optimizer.learning_rate" = {low = 1e-4, high = 1e-2, log = true}
"""


@pytest.fixture(scope="module")
def told(small_catalog, tmp_path_factory):
    """A study whose trials were not trained: the LSTM is better by 0.4, one trial has failed, one is pruned."""
    study = started(small_catalog, tmp_path_factory.mktemp("told"), SPACE)
    state = study.optuna.trial.TrialState
    for job in study.left():
        assert job.begin()
        trial, params = job.trial, job.params
        trial.set_user_attr("seconds", 12.4)
        if trial.number == 3:
            trial.set_user_attr("error", "a | b\nsecond line <script>")
            study.study.tell(trial, state=state.FAIL)
        elif trial.number == 5:
            trial.report(0.1, 7)
            trial.set_user_attr("error", "pruned at step 7")
            study.study.tell(trial, state=state.PRUNED)
        else:
            value = (0.8 if params["model.cell"] == "lstm" else 0.4) + 0.001 * trial.number
            trial.set_user_attr("results", {"dev": {"accuracy": value}, "test": {"accuracy": value / 2}})
            trial.set_user_attr("values", [value - 0.01, value + 0.01])
            study.study.tell(trial, value)
    return study


@pytest.fixture(scope="module")
def found(told):
    return read_findings(told)


def test_every_trial_has_a_row_whatever_became_of_it(found):
    assert [row.number for row in found.rows] == list(range(1, 13))
    assert found.counts == {"complete": 10, "pruned": 1, "failed": 1}
    assert found.counted == "12 trials: 10 complete, 1 pruned, 1 failed"


def test_the_best_trial_comes_first_and_those_without_a_result_last(found):
    assert found.best.params["model.cell"] == "lstm"
    assert found.best.value == max(row.value for row in found.complete)
    assert [row.state for row in found.ordered[-2:]] == ["pruned", "failed"]


def test_the_setting_that_matters_most_comes_first(found):
    assert next(iter(found.importance)) == "model.cell"
    assert found.importance["model.cell"] > 0.95
    gated, lstm = found.effects["model.cell"]
    assert (gated.value, lstm.value) == ("gated", "lstm")
    assert gated.trials + lstm.trials == 10
    assert lstm.mean > gated.mean + 0.3
    rows = found.settings.rows
    assert rows[0][:3] == ("cell", f"{100 * found.importance['model.cell']:.0f}%", "gated")
    assert rows[1][:3] == ("", "", "lstm")


def test_numbers_are_grouped_into_quarters_of_the_trials(found):
    effects = found.effects["training.optimizer.learning_rate"]
    assert sum(effect.trials for effect in effects) == 10
    assert len(effects) == 4
    assert all(" to " in effect.value for effect in effects)


def test_a_conditional_setting_is_judged_by_the_trials_that_have_it(found):
    having = [row for row in found.complete if row.params["model.decision"] == "stretched"]
    effects = found.effects["model.decision.stretched.stretch"]
    assert sum(effect.trials for effect in effects) == len(having)


def test_the_share_of_variance_is_one_if_a_setting_decides_and_zero_if_it_does_not():
    assert explained_variance([[1.0, 1.0], [2.0, 2.0]]) == pytest.approx(1)
    assert explained_variance([[1.0, 2.0], [1.0, 2.0]]) == 0
    assert explained_variance([[1.0], [2.0]]) == 0  # one trial each proves nothing
    assert explained_variance([[1.0, 1.0], [1.0, 1.0]]) == 0
    assert 0 < explained_variance([[1.0, 1.4], [1.3, 1.9]]) < 1


def test_the_table_has_short_names_values_over_seeds_and_remarks(found):
    table = found.trials
    assert table.columns == (
        *("trial", "cell", "decision", "stretch", "learning_rate"),
        *("state", "accuracy %", "test %", "seconds", "remarks"),
    )
    best, failed = table.rows[0], table.rows[-1]
    assert "±" in best[6]
    assert best[8] == "12"
    assert (failed[0], failed[5], failed[-1]) == ("4", "failed", "a | b")
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_markdown_has_the_same_rows_and_no_bar_in_a_cell(found):
    lines = found.trials.markdown().splitlines()
    assert len(lines) == 14
    assert lines[1].startswith("| ---: | --- |")
    assert "a \\| b" in lines[-1]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    whole = found.markdown("A title")
    assert whole.startswith("# A title\n\n12 trials: 10 complete")
    assert "| setting | importance |" in whole


def test_csv_has_exact_numbers_and_full_names(found):
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert len(rows) == 12
    by_number = {int(row["trial"]): row for row in rows}
    best = by_number[found.best.number]
    assert float(best["accuracy"]) == found.best.value
    assert best["model.cell"] == "lstm"
    assert float(best["test/accuracy"]) == pytest.approx(found.best.value / 2)
    assert by_number[4]["message"] == "a | b\nsecond line <script>"


def test_a_spreadsheet_takes_no_text_of_the_csv_for_a_formula():
    params = {"task.path": "=1+1", "training.clip": -1.5}
    row = Row(1, "failed", params, None, (), {}, 1.0, "@SUM(A1)", (), "trials/0001")
    (line,) = csv.DictReader(
        io.StringIO(Findings("loss", False, (row,), {}, dict.fromkeys(params, ())).csv())
    )
    assert (line["task.path"], line["message"], line["training.clip"]) == ("'=1+1", "'@SUM(A1)", "-1.5")


def test_json_has_everything(found):
    plain = json.loads(json.dumps(found.plain()))
    assert (plain["counts"], plain["best"]) == (found.counts, found.best.number)
    assert (len(plain["trials"]), plain["direction"]) == (12, "maximize")
    assert plain["effects"]["model.cell"][1]["value"] == "lstm"


def test_the_page_draws_every_setting_escapes_messages_and_loads_nothing(found, told):
    text = sweep_page(found, told.sweep, "a <study>")
    for name in ("cell", "decision", "learning_rate"):
        assert f"<figcaption>{name} " in text
    assert "cell and decision" in text
    assert text.count("<script") == 1  # its own
    assert "a &lt;study&gt;" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_a_study_without_results_has_tables_and_a_page_too(small_catalog, tmp_path):
    study = started(small_catalog, tmp_path)
    nothing = read_findings(study)
    assert nothing.best is None
    assert "No trial is complete." in sweep_page(nothing, study.sweep, "x")
    assert len(nothing.trials.rows) == 4


def test_the_lowest_loss_is_the_best_and_a_remark_says_how_often_a_trial_was_begun():
    again = ("interrupted", "its process ended")
    rows = tuple(
        Row(number, "complete", {}, value, (value,), {}, 1.0, "", again, "")
        for number, value in enumerate((2.0, 1.0, 3.0))
    )
    assert rows[0].remark == "begun 3 times: its process ended"
    found = Findings("loss", False, rows, {}, {"x": (Effect("a", 1, 1.0, 1.0),)})
    assert found.best.number == 1
    assert found.trials.rows[0][2] == "1.0000"
