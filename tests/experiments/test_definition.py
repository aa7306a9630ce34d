"""Tables as data: those that come with crvnn have every row of the paper, and mistakes in one's own are named."""

from pathlib import Path

import pytest

from crvnn_core import CrvnnError
from crvnn_core.spec import read_spec, spec_dict
from crvnn_experiments.definition import BUDGETS, read_table, table_names
from crvnn_experiments.ledger import Ledger
from crvnn_experiments.plan import Plan
from crvnn_experiments.specs import row_spec
from tables import TABLE, write_table

#: The paper's tables: in each line a row with its printed figures.
PAPER = """
[logic]
tree-lstm 94 92 92 88 87 86
tree-cell 98 96 96 95 93 92
tree-rnn 98 98 97 96 95 96
transformer 51 52 51 51 51 48
universal-transformer 51 52 51 51 51 48
lstm 88 84 80 78 71 69
rrnet 84 81 78 74 72 71
on-lstm 91 87 85 81 78 75
ordered-memory 98 97 96 94 93 92
crvnn 98 97 96 95 94 93
[systematicity]
tree-lstm 91 84 76
tree-cell 95 95 90
tree-rnn 94 92 86
transformer 53 51 51
universal-transformer 53 51 51
lstm 84 60 59
rrnet
on-lstm 70 63 60
ordered-memory 94 91 81
crvnn 99 98 92
[listops]
tree-lstm 98.7
transformer 57.4
universal-transformer 71.5
lstm 71.5
rl-spinn 60.7
gumbel-tree 57.6
cooperative 99.2
ordered-memory 99.97
crvnn 99.6
[listops-lengths]
crvnn 98.51 98.46 98.04 97.95 97.17 97.84 96.94 96.78
[natural-language]
rl-spinn 82.3 67.4
gumbel-tree 90.7 53.7 85.6
gumbel-tree-williams 83.7 69.5
gumbel-tree-havrylov 90.3 51.6 84.9
cooperative 90.2 51.5 85.1 70.7
ordered-memory 90.4 52.2
crvnn 88.3 51.4 85.1 72.9
balanced 71.5
[ablation]
crvnn 95.0 93.7 93.1 99.6
no-modulation 95.0 94.3 92.8 90.8
no-transition 95.0 94.4 92.1 99.4
no-structure 87.2 86.1 80.9 83.4
no-halt-penalty 95.2 94.6 93.1 99.4
relu 95.1 94.1 92.7 99.2
lstm-cell 89.4 89.2 86.5 71.2
[speed]
ordered-memory 3.28 5.54 13.23 25 35.34
crvnn 0.20 0.52 0.30 0.38 1.08
"""


def printed_tables():
    """The rows of each of the paper's tables by name."""
    for text in PAPER.strip("\n[").split("\n["):
        name, *lines = text.splitlines()
        yield name.strip("]"), {line.split()[0]: list(map(float, line.split()[1:])) for line in lines}


@pytest.mark.parametrize(("name", "printed"), list(printed_tables()))
def test_every_row_of_the_papers_table_is_there_with_its_figures(name, printed):
    rows = {row.name: row for row in read_table(name).rows}
    for row, figures in printed.items():
        assert [figure.mean for figure in rows[row].published.values()] == figures


def test_there_are_the_papers_tables_and_four_beyond():
    assert set(table_names()) == dict(printed_tables()).keys() | {
        "ablation-self-training",
        "arguments",
        "depth",
        "encoders",
    }


def test_a_spread_is_read_beside_the_mean():
    (row,) = (row for row in read_table("ablation").rows if row.name == "no-modulation")
    assert row.published["ListOps"].spread == 16.3


def row_of(table, name):
    return next(row for row in table.rows if row.name == name)


def test_rrnet_is_a_row_that_is_not_reproduced():
    assert row_of(read_table("logic"), "rrnet").system.missing == "equations not available"


def budgets_of(name):
    """The budgets that all experiments of a table have."""
    used = read_table(name).used.values()
    return [budget for budget in BUDGETS if all(budget in experiment.budgets for experiment in used)]


@pytest.mark.parametrize(
    ("name", "budget"), [(name, budget) for name in table_names() for budget in budgets_of(name)]
)
def test_every_row_of_a_shipped_table_has_a_spec(name, budget, catalog, tmp_path):
    table = read_table(name)
    plan = Plan(
        table=table,
        budget=budget,
        seeds=1,
        directory=tmp_path,
        data=tmp_path / "data",
        catalog=catalog,
        ledger=Ledger(tmp_path / "ledger.jsonl"),
    )
    for experiment in table.used.values():
        for place in experiment.budgets[budget].needs:
            (tmp_path / "data" / place).mkdir(parents=True, exist_ok=True)
    reasons = ("not reproduced: equations", "not run: the encoder")
    assert {p for p in plan.problems.values() if not p.startswith(reasons)} == set()
    for run in plan.runs:
        directory = run.made.spec(0, plan.data).task.params.get("directory")
        assert not directory or str(tmp_path) in str(directory)


def test_the_table_of_encoders_has_every_encoder_of_crvnn(catalog):
    table = read_table("encoders")
    named = {
        row_spec(row, table.experiments["listops"], "laptop", catalog)
        .spec(0, Path("data"))
        .model.encoder.name
        for row in table.rows
    }
    ours = {
        n for n, c in catalog.components["encoder"].items() if str(c.component.build).startswith("crvnn_")
    }
    assert ours <= named
    assert len(ours) > 15


def test_models_of_all_tables_share_the_runs_of_listops(catalog):
    known = {}
    for table in map(read_table, ("listops", "ablation", "encoders")):
        for row in table.rows:
            made = row_spec(row, table.experiments["listops"], "laptop", catalog)
            assert known.setdefault(row.name, made.fingerprint) == made.fingerprint


def test_the_soft_budget_is_of_the_tables_in_which_structure_is_learnt_from_labels():
    soft = {name for name in table_names() if "soft" in budgets_of(name)}
    others = {"natural-language", "speed", "ablation-self-training"}
    assert soft == set(table_names()) - others
    with pytest.raises(CrvnnError, match=r"'speed' has no budget 'soft': .* has laptop, paper"):
        read_table("speed").expect_budget("soft")


def test_without_modulation_no_stage_of_the_soft_budget_has_it(catalog):
    table = read_table("ablation")
    made = row_spec(row_of(table, "no-modulation"), table.experiments["listops"], "soft", catalog)
    *soft, last = (stage.model.decision for stage in made.spec(0, Path("data")).stages)
    assert {decision.name for decision in soft} == {"sigmoid"}
    assert (last.name, last.params["modulation"]) == ("stretched", "none")
    plain = row_spec(row_of(table, "crvnn"), table.experiments["listops"], "soft", catalog)
    assert made.fingerprint != plain.fingerprint


@pytest.mark.parametrize("task", ["listops", "logic"])
@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("no-modulation", "sigmoid"),
        ("no-transition", "no-transition"),
        ("no-structure", "no-structure"),
        ("no-halt-penalty", "no-halt-penalty"),
        ("relu", "relu"),
        ("lstm-cell", "lstm"),
    ],
)
def test_the_ablations_of_the_papers_budget_are_its_specs(task, row, name, catalog):
    table = read_table("ablation")
    made = row_spec(row_of(table, row), table.experiments[task], "paper", catalog).spec(0, Path("data"))
    expected = read_spec(catalog, f"ablation-{task}-{name}")
    assert spec_dict(made)["model"] == spec_dict(expected)["model"]
    assert spec_dict(made)["task"] == spec_dict(expected)["task"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'system = "plain"',
            'system = "plane"',
            r"\[rows.plane\]: no system is called 'plane'. Did you mean",
        ),
        ('"99.6 ± 0.3"', '"99.6+-0.3"', "written as 99.6 or as 99.6 ± 0.3"),
        ("published = { accuracy", "published = { acuracy", "no column 'acuracy'. Did you mean 'accuracy'"),
        ('experiment = "letters"', 'experiment = "leters"', "no experiment is called 'leters'. Did you mean"),
        ("says =", "say =", "there is no 'say'. Did you mean 'says'"),
        ('row = "plain"', 'row = "plan"', "names 'plan', which is not there"),
        ('title = "Letters"', "", "missing 1 required keyword-only argument: 'title'"),
        ('system = "sigmoid"', 'system = "plain"', "no two of the same name"),
        ("[[claims]]", "[claims", "this is not TOML"),
    ],
)
def test_a_mistake_in_a_table_of_ones_own_is_named(tmp_path, old, new, message):
    with pytest.raises(CrvnnError, match=message):
        read_table(str(write_table(tmp_path, TABLE.replace(old, new, 1))))
