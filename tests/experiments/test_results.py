"""The table that is made from a ledger, and whether claims hold."""

import importlib.util
import json
from pathlib import Path

import pytest
from attrs import evolve

from crvnn_experiments.definition import read_table
from crvnn_experiments.ledger import Ledger
from crvnn_experiments.pages import table_page
from crvnn_experiments.results import read_results
from crvnn_experiments.specs import row_spec
from tables import ENTRY, TABLE, planned


def record(plan, row, accuracies, test):
    """Give a plan's ledger an accuracy of each seed of a row."""
    made = plan.specs[row, "letters"]
    for seed, value in enumerate(accuracies):
        known = {"fingerprint": made.fingerprint, "seed": seed, "figures": {"test": value}, "test": test}
        plan.ledger.append([evolve(ENTRY, **known)])


def recorded(plan, **accuracies):
    """The results of a plan whose ledger has an accuracy of each seed of some rows, and 10 points less when longer."""
    for row, values in accuracies.items():
        record(plan, row, values, {})
        record(plan, row, [value - 0.1 for value in values], {"longest": 9})
    return read_results(plan)


@pytest.fixture
def plan(small_catalog, tmp_path):
    return planned(small_catalog, tmp_path, seeds=3)


def verdicts(results):
    return {verdict.claim.says: (verdict.state, verdict.detail) for verdict in results.verdicts}


def test_published_figures_stand_beside_those_measured_here(plan):
    results = recorded(plan, plain=[0.9, 0.8], sigmoid=[0.5])
    found = results.rows
    assert found.columns[:5] == ("row", "accuracy, paper", "accuracy, here", "longer, paper", "longer, here")
    assert found.rows[0][:6] == ("Plain", "99.6 ± 0.3", "85.0 ± 7.1", "", "75.0 ± 7.1", "2")
    assert found.rows[1][:3] == ("- modulation", "90.8", "50.0")


def test_rows_without_figures_say_why(plan):
    rows = {row[0]: row[-1] for row in recorded(plan, plain=[0.9]).rows.rows}
    assert rows["Stone tablet"] == "not reproduced: nobody can read it"
    assert rows["Unheard of"] == "not run: the encoder 'unheard-of' is not installed"
    assert rows["Plain"] == "2 runs not run"


def test_a_claim_is_undecided_until_its_rows_have_figures(plan):
    results = recorded(plan, plain=[0.9, 0.9])
    assert verdicts(results)["Modulation helps"] == ("undecided", "no figure of sigmoid in 'accuracy' yet")
    assert verdicts(results)["The stone tablet is close"][0] == "undecided"
    assert results.claims.rows[0][2:4] == ("", "")


HIGH, LOW = [0.9, 0.91, 0.89], [0.5, 0.51, 0.49]


@pytest.mark.parametrize(
    ("plain", "sigmoid", "state", "detail"),
    [
        (HIGH, LOW, "holds", "+40.0"),
        (LOW, HIGH, "does not hold", "-40.0"),
        (HIGH, [0.88, 0.9, 0.92], "undecided", "+0.0"),
        ([0.9, 0.8], [0.5, 0.51], "undecided", "+34.5"),  # p is 0.05, and there are two claims
        ([0.9, 0.9], [0.5, 0.5], "undecided", "+40.0; no test, since the seeds do not differ"),
        ([0.9], [0.5, 0.51], "undecided", "+39.5; no test, since one seed tells nothing of the spread"),
    ],
)
def test_a_claim_holds_or_not_by_a_test_of_its_differences(plan, plain, sigmoid, state, detail):
    results = recorded(plan, plain=plain, sigmoid=sigmoid)
    assert verdicts(results)["Modulation helps"] == (state, f"accuracy, sigmoid: {detail}")
    assert results.plain()["claims"][0]["state"] == state
    assert f"| Modulation helps | {state} |" in results.markdown()


def test_p_values_are_welchs_and_corrected_for_the_number_of_claims(plan):
    from scipy.stats import ttest_ind

    first, second = [0.9, 0.8, 0.7], [0.6, 0.61]
    verdict, _ = recorded(plan, plain=first, sigmoid=second).verdicts
    expected = ttest_ind(first, second, equal_var=False, alternative="greater").pvalue
    assert verdict.p == pytest.approx(expected, abs=1e-9)
    assert verdict.p_against == pytest.approx(1 - expected, abs=1e-9)
    assert verdict.p_corrected == pytest.approx(2 * expected, abs=1e-9)
    assert verdict.p_against_corrected == 1


@pytest.mark.parametrize(
    ("longer", "state"),
    [
        (LOW, "holds"),  # of both columns, like the accuracy
        ([0.88, 0.92, 0.9], "undecided"),
        ([0.99, 0.98, 0.985], "does not hold"),
    ],
)
def test_a_claim_about_several_columns_needs_all_of_them(small_catalog, tmp_path, longer, state):
    text = TABLE.replace('better_than = ["sigmoid"]\ncolumns = ["accuracy"]', 'better_than = ["sigmoid"]')
    plan = planned(small_catalog, tmp_path, text, seeds=3)
    for row, values in {"plain": (HIGH, HIGH), "sigmoid": (LOW, longer)}.items():
        for test, accuracies in zip(({}, {"longest": 9}), values, strict=True):
            record(plan, row, accuracies, test)
    assert verdicts(read_results(plan))["Modulation helps"][0] == state


@pytest.mark.parametrize(
    ("other", "state"),
    [
        ([0.89, 0.88, 0.9], "holds"),
        ([0.85, 0.84, 0.86], "undecided"),  # 5 points are few
        ([0.93, 0.85, 0.89], "undecided"),
        ([0.7, 0.71, 0.72], "does not hold"),
        ([0.86], "undecided"),
    ],
)
def test_a_row_is_as_good_as_another_if_the_difference_is_within_the_margin(
    small_catalog, tmp_path, other, state
):
    text = TABLE.replace('close_to = "stone"', 'close_to = "sigmoid"\ncolumns = ["accuracy"]')
    results = recorded(planned(small_catalog, tmp_path, text, seeds=3), plain=HIGH, sigmoid=other)
    found, detail = verdicts(results)["The stone tablet is close"]
    assert found == state
    assert "within 5" in detail


def test_a_claim_about_a_row_that_was_left_out_is_left_out(small_catalog, tmp_path):
    results = recorded(planned(small_catalog, tmp_path, only=["plain", "sigmoid"]), plain=[0.9])
    assert list(verdicts(results)) == ["Modulation helps"]


def test_many_columns_are_shown_as_a_line_of_the_paper_and_a_line_of_here(small_catalog, tmp_path):
    text = TABLE.replace(
        "[[rows]]", '[[columns]]\nname = "dev"\nexperiment = "letters"\nsplit = "dev"\n[[rows]]', 1
    )
    found = recorded(planned(small_catalog, tmp_path, text), plain=[0.9]).rows
    assert found.columns[:5] == ("row", "", "accuracy", "longer", "dev")
    assert [row[:3] for row in found.rows[:2]] == [("Plain", "paper", "99.6 ± 0.3"), ("", "here", "90.0")]


def test_a_laptops_budget_is_labelled_everywhere(plan):
    results = recorded(plan, plain=[0.1])
    assert results.rows.rows[0][2:5] == ("10.0", "", "0.0")  # nothing has as many digits as all else
    assert "budget of a laptop" in results.markdown().splitlines()[0]
    assert "budget of a laptop" in table_page(results)
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
    assert line.cells["accuracy"].here == "50.0"
    assert line.remark == ""


def test_json_has_everything(plan):
    plain = json.loads(json.dumps(recorded(plan, plain=HIGH, sigmoid=LOW).plain()))
    first = plain["rows"][0]
    assert first["cells"]["accuracy"]["published"] == {"mean": 99.6, "spread": 0.3}
    assert first["cells"]["accuracy"]["here"]["seeds"] == pytest.approx([90, 91, 89])
    assert first["seeds"] == 3
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
