"""The table that is made from a ledger, and whether claims hold."""

import importlib.util
import json
from pathlib import Path

import pytest
from attrs import evolve

from crvnn_reproduce.definition import read_table
from crvnn_reproduce.ledger import Ledger
from crvnn_reproduce.output import here, markdown, sheet
from crvnn_reproduce.page import page
from crvnn_reproduce.results import read_results
from crvnn_reproduce.specs import row_spec
from tables import ENTRY, TABLE, planned


def recorded(plan, **accuracies):
    """A plan whose ledger has an accuracy of each seed of some rows."""
    for row, values in accuracies.items():
        made = plan.specs[row, "letters"]
        for seed, value in enumerate(values):
            for test in ({}, {"longest": 9}):
                figures = {"test": value - 0.1 * bool(test)}
                entry = evolve(ENTRY, fingerprint=made.fingerprint, seed=seed, figures=figures, test=test)
                plan.ledger.append([entry])
    return read_results(plan)


@pytest.fixture
def plan(small_catalog, tmp_path):
    return planned(small_catalog, tmp_path)


def verdicts(results):
    return {verdict.claim.says: (verdict.state, verdict.detail) for verdict in results.verdicts}


def test_published_figures_stand_beside_those_measured_here(plan):
    results = recorded(plan, plain=[0.9, 0.8], sigmoid=[0.5])
    found = sheet(results)
    assert found.columns[:5] == ("row", "accuracy, paper", "accuracy, here", "longer, paper", "longer, here")
    assert found.rows[0][:6] == ("Plain", "99.6 ± 0.3", "85.0 ± 7.1", "", "75.0 ± 7.1", "2")
    assert found.rows[1][:3] == ("- modulation", "90.8", "50.0")


def test_an_accuracy_of_nothing_has_as_many_digits_as_others(plan):
    assert sheet(recorded(plan, plain=[0.1])).rows[0][2:5] == ("10.0", "", "0.0")


def test_rows_without_figures_say_why(plan):
    rows = {row[0]: row[-1] for row in sheet(recorded(plan, plain=[0.9])).rows}
    assert rows["Stone tablet"] == "not reproduced: nobody can read it"
    assert rows["Unheard of"] == "not run: the encoder 'unheard-of' is not installed"
    assert rows["Plain"] == "1 run not run"


def test_a_claim_is_open_until_its_rows_have_figures(plan):
    results = recorded(plan, plain=[0.9, 0.9])
    assert verdicts(results)["Modulation helps"] == ("open", "no figure of sigmoid in 'accuracy' yet")
    assert verdicts(results)["The stone tablet is close"][0] == "open"


WITHIN = "(within the spread over seeds, {})"
ONE_SEED = "(one seed tells nothing of the spread)"


@pytest.mark.parametrize(
    ("plain", "sigmoid", "state", "detail"),
    [
        ([0.9, 0.9], [0.5, 0.5], "holds", "+40.0"),
        ([0.9, 0.8], [0.5, 0.5], "holds", "+35.0"),
        ([0.5, 0.5], [0.9, 0.8], "does not hold", "-35.0"),
        ([0.9, 0.8], [0.85, 0.75], "cannot be told", f"+5.0 {WITHIN.format(10.0)}"),
        ([0.85, 0.75], [0.9, 0.8], "cannot be told", f"-5.0 {WITHIN.format(10.0)}"),
        ([0.9, 0.5], [0.75, 0.75], "cannot be told", f"-5.0 {WITHIN.format(28.3)}"),
        ([0.9, 0.9], [0.9, 0.9], "cannot be told", f"+0.0 {WITHIN.format(0.0)}"),
        ([0.9], [0.5, 0.5], "cannot be told", f"+40.0 {ONE_SEED}"),
        ([0.9, 0.9], [0.5], "cannot be told", f"+40.0 {ONE_SEED}"),
    ],
)
def test_a_claim_holds_or_not_only_beyond_the_spread_over_seeds(plan, plain, sigmoid, state, detail):
    results = recorded(plan, plain=plain, sigmoid=sigmoid)
    assert verdicts(results)["Modulation helps"] == (state, f"accuracy, sigmoid: {detail}")
    assert results.plain()["claims"][0]["state"] == state
    assert f"| Modulation helps | {state} |" in markdown(results)


@pytest.mark.parametrize(
    ("longer", "state"),
    [
        ([0.5, 0.5], "holds"),  # of both columns, like the accuracy
        ([0.88, 0.92], "cannot be told"),
        ([0.99, 0.99], "does not hold"),
    ],
)
def test_one_column_within_the_spread_leaves_a_claim_untold_and_one_beyond_it_refutes_it(
    small_catalog, tmp_path, longer, state
):
    text = TABLE.replace('better_than = ["sigmoid"]\ncolumns = ["accuracy"]', 'better_than = ["sigmoid"]')
    plan = planned(small_catalog, tmp_path, text)
    for row, values in {"plain": ([0.9, 0.9], [0.9, 0.9]), "sigmoid": ([0.5, 0.5], longer)}.items():
        for test, accuracies in zip(({}, {"longest": 9}), values, strict=True):
            for seed, value in enumerate(accuracies):
                made = plan.specs[row, "letters"]
                plan.ledger.append(
                    [
                        evolve(
                            ENTRY,
                            fingerprint=made.fingerprint,
                            seed=seed,
                            figures={"test": value},
                            test=test,
                        )
                    ]
                )
    assert verdicts(read_results(plan))["Modulation helps"][0] == state


@pytest.mark.parametrize(
    ("other", "state"),
    [
        ([0.86, 0.86], "holds"),
        ([0.85, 0.85], "holds"),  # 5 points are few
        ([0.84, 0.84], "does not hold"),
        ([0.93, 0.85], "cannot be told"),  # 1 point, but 5.7 over seeds
        ([0.87, 0.79], "cannot be told"),  # 7 points
        ([0.72, 0.78], "does not hold"),
        ([0.86], "cannot be told"),
    ],
)
def test_a_row_that_is_close_differs_by_few_points_whatever_the_seeds(small_catalog, tmp_path, other, state):
    text = TABLE.replace('close_to = "stone"', 'close_to = "sigmoid"\ncolumns = ["accuracy"]')
    results = recorded(planned(small_catalog, tmp_path, text), plain=[0.9, 0.9], sigmoid=other)
    assert verdicts(results)["The stone tablet is close"][0] == state


def test_a_claim_about_a_row_that_was_left_out_is_left_out(small_catalog, tmp_path):
    results = recorded(planned(small_catalog, tmp_path, only=["plain", "sigmoid"]), plain=[0.9])
    assert list(verdicts(results)) == ["Modulation helps"]


def test_many_columns_are_shown_as_a_line_of_the_paper_and_a_line_of_here(small_catalog, tmp_path):
    text = TABLE.replace(
        "[[rows]]", '[[columns]]\nname = "dev"\nexperiment = "letters"\nsplit = "dev"\n[[rows]]', 1
    )
    found = sheet(recorded(planned(small_catalog, tmp_path, text), plain=[0.9]))
    assert found.columns[:5] == ("row", "", "accuracy", "longer", "dev")
    assert [row[:3] for row in found.rows[:2]] == [("Plain", "paper", "99.6 ± 0.3"), ("", "here", "90.0")]


def test_a_laptops_budget_is_labelled_everywhere(plan):
    results = recorded(plan, plain=[0.9])
    assert "budget of a laptop" in markdown(results).splitlines()[0]
    assert "budget of a laptop" in page(results)
    assert results.plain()["budget"] == "laptop"


def test_what_is_in_a_ledger_is_shown_where_nothing_could_be_trained(plan, tmp_path, small_catalog):
    made = planned(small_catalog, tmp_path, budget="paper", seeds=1)
    assert "crvnn data get letters --dir" in made.problems["plain", "letters"]
    for test in ({}, {"longest": 9}):
        entry = evolve(
            ENTRY, budget="paper", fingerprint=made.specs["plain", "letters"].fingerprint, test=test
        )
        made.ledger.append([entry])
    line = read_results(made).lines[0]
    assert here(line.cells["accuracy"]) == "50.0"
    assert line.remark == ""


def test_json_has_everything(plan):
    plain = json.loads(json.dumps(recorded(plan, plain=[0.9, 0.8], sigmoid=[0.5, 0.5]).plain()))
    first = plain["rows"][0]
    assert first["cells"]["accuracy"]["published"] == {"mean": 99.6, "spread": 0.3}
    assert first["cells"]["accuracy"]["here"]["seeds"] == pytest.approx([90, 80])
    assert first["seeds"] == 2
    assert plain["data"] == {"Letters": "forty sequences of letters"}
    assert plain["claims"][0]["state"] == "holds"


def test_nothing_that_was_not_run_is_shown(plan):
    results = read_results(plan)
    assert all(cell.mean is None for line in results.lines for cell in line.cells.values())
    assert not Ledger(plan.ledger.path).entries


@pytest.fixture(scope="module")
def generator():
    path = Path(__file__).parents[2] / "docs" / "make_results.py"
    spec = importlib.util.spec_from_file_location("make_results", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_documentation_are_what_the_ledger_says(generator):
    assert generator.page() == (generator.RESULTS / "tables.md").read_text(encoding="utf-8"), "run make docs"


def test_a_page_of_tables_has_those_with_runs_alone(generator, catalog, tmp_path):
    table = read_table("ablation")
    made = row_spec(table.rows[0], table.experiments["listops"], "laptop", catalog)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append([evolve(ENTRY, experiment="listops", fingerprint=made.fingerprint)])
    page = generator.page(ledger.path)
    assert "## Ablations of CRvNN, budget of a laptop" in page
    assert "## Accuracy on ListOps, budget of a laptop" in page  # which has the same run
    assert "Logical inference" in page.partition("### Notes")[2]
    assert "## Logical inference" not in page
