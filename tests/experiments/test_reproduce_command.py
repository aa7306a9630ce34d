"""crvnn reproduce, from the command line."""

import importlib
import json
import random
import re
import sys

import pytest
from click.testing import CliRunner

from crvnn_bench import timing
from crvnn_core.cli import main
from crvnn_core.host.scaffold import create_package
from crvnn_experiments.results import read_results
from small import PLUGIN
from tables import ENTRY, planned, worked, write_table


@pytest.fixture
def reproduce(tmp_path, monkeypatch):
    """Calls the command in a directory of its own, with the small tasks."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path)

    def call(*arguments, table="letters.toml"):
        return CliRunner().invoke(main, ["reproduce", "--plugin", str(PLUGIN), table, *map(str, arguments)])

    return call


def spec(directory, text, name="mine.toml"):
    (directory / name).write_text(text, encoding="utf-8")
    return name


def test_the_table_is_trained_printed_and_written(reproduce, tmp_path):
    done = reproduce("--seeds", 1, "--dir", "out")
    assert done.exit_code == 1, done.output  # one row's encoder is not installed
    assert "the table is not complete (not trained: unheard-of); its remarks say why" in done.output
    assert "Run 1 of 2: Plain, Letters, seed 0" in done.output
    assert "not reproduced: nobody can read it" in done.output
    assert "The paper's claims" in done.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written >= {"letters-laptop.md", "letters-laptop.json", "letters-laptop.html", "ledger.jsonl"}
    again = reproduce("--seeds", 1, "--dir", "out", "--json")
    assert json.loads(again.stdout) == json.loads((tmp_path / "out" / "letters-laptop.json").read_text())
    assert "Run" not in again.stderr
    page = (tmp_path / "out" / "letters-laptop.html").read_text()
    assert "crvnn reproduce" in page
    assert "99.6 ± 0.3" in page


def test_the_ledger_names_neither_the_machine_nor_its_directories(reproduce, tmp_path):
    import socket

    reproduce("--seeds", 1, "--only", "plain", "--ledger", "results.jsonl")
    text = (tmp_path / "results.jsonl").read_text()
    row = json.loads(text.splitlines()[0])
    assert row["hardware"]["device"] == "cpu"
    assert row["steps"] == 8
    assert re.fullmatch(r"([0-9a-f]{12}\+?)?", row["commit"])
    assert row["hours"] > 0
    assert row["spec"]["model"]["width"] == 8
    assert str(tmp_path) not in text
    assert f'"{socket.gethostname()}"' not in text


def test_showing_trains_nothing(reproduce, tmp_path):
    done = reproduce("--show")
    assert done.exit_code == 0
    assert "2 runs not run" in done.output
    assert not (tmp_path / "runs" / "reproduce" / "laptop").exists()


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            "listop",
            [],
            "no table is called 'listop'. Did you mean 'listops'?\nTables: ablation, ablation-self",
        ),
        ("none.toml", [], "none.toml: there is no such file. Tables: ablation"),
        (
            "letters.toml",
            ["--only", "plan"],
            "has no row 'plan'. Did you mean 'plain'?\nRows: plain, sigmoid",
        ),
        ("letters.toml", ["--add", "none.toml"], "none.toml: there is no such file"),
    ],
)
def test_names_that_nothing_has_are_one_message(reproduce, table, options, message):
    done = reproduce(*options, table=table)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.toml", '[model.encoder]\nname = "lstm"\nlayers = 0\n', "mine.toml:3 [model.encoder.layers]"),
        ("mine.toml", '[model]\ncell = "gatet"\n', "no cell is called 'gatet'. Did you mean 'gated'?"),
        ("mine.toml", "[task]\nname = 'letters'\n", "mine.toml has neither a [model] nor a preset"),
        (
            "plain.toml",
            '[model]\ncell = "lstm"\n',
            "the table has a row 'plain' already; give the file another",
        ),
    ],
)
def test_a_variant_that_cannot_be_added_is_one_message_before_anything_is_trained(
    reproduce, tmp_path, name, text, message
):
    done = reproduce("--add", spec(tmp_path, text, name))
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("only", "rows"), [("mine", ["mine"]), ("plain", ["plain", "mine"])])
def test_only_knows_added_rows_which_stay(reproduce, tmp_path, only, rows):
    done = reproduce("--add", spec(tmp_path, '[model]\ncell = "lstm"\n'), "--only", only, "--show", "--json")
    assert done.exit_code == 0
    assert [row["row"] for row in json.loads(done.stdout)["rows"]] == rows


def test_missing_data_is_told_with_the_command_that_gets_it(reproduce):
    done = reproduce("--budget", "paper")
    assert done.exit_code == 1
    assert "crvnn data get letters --dir data/alphabet" in done.output
    assert (
        "the table is not complete (not trained: plain, sigmoid, unheard-of); its remarks say" in done.output
    )


def test_a_row_without_equations_is_not_an_error(reproduce):
    done = reproduce("--only", "plain,stone", "--seeds", "1")
    assert done.exit_code == 0
    assert "not reproduced: nobody can read it" in done.output


def test_a_half_written_ledger_row_is_told_with_its_line(reproduce, tmp_path):
    (tmp_path / "results.jsonl").write_text('{"experiment": "letters", "seed"')
    done = reproduce("--show", "--ledger", "results.jsonl")
    assert done.exit_code == 0
    assert "results.jsonl:1: this row is not complete and is not counted" in done.output
    assert (tmp_path / "results.jsonl").read_text() == '{"experiment": "letters", "seed"'


def test_a_third_party_cell_stands_beside_the_others(tmp_path, monkeypatch):
    import small
    from crvnn_core import create_plugin_manager, read_catalog

    create_package("cell", "demo-third", tmp_path / "demo")
    monkeypatch.syspath_prepend(tmp_path / "demo")
    plugin = importlib.import_module("demo_third")
    catalog = read_catalog(create_plugin_manager(small, plugin))
    text = 'preset = "simplified-2023"\n[task]\nname = "listops"\n[model]\ncell = "demo-third"\n'
    path = tmp_path / spec(tmp_path, text)
    plan = planned(catalog, tmp_path, add=[path], seeds=1, only=["plain"])
    worked(plan)
    plain, mine = read_results(plan).lines
    assert (mine.row.name, mine.row.section, mine.seeds) == ("mine", "added", 1)
    entry = plan.entries(mine.row, plan.table.columns[0])[0]
    assert entry.spec["model"]["cell"]["name"] == "demo-third"
    assert entry.spec["task"]["name"] == "letters"  # the table's
    assert entry.spec["model"]["width"] == 8
    assert entry.spec["model"]["encoder"]["halt_penalty"] == 0.0  # its preset's
    assert plain.seeds == 1
    for module in [name for name in sys.modules if name.partition(".")[0] == "demo_third"]:
        del sys.modules[module]


def test_a_variant_that_was_changed_is_trained_again(small_catalog, tmp_path):
    path = tmp_path / spec(tmp_path, '[model]\ncell = "lstm"\n')
    first = planned(small_catalog, tmp_path, add=[path], seeds=1, only=["plain"])
    spec(tmp_path, '[model]\ncell = "rnn"\n')
    second = planned(small_catalog, tmp_path, add=[path], seeds=1, only=["plain"])
    assert first.runs[0].key() == second.runs[0].key()
    assert first.runs[1].key() != second.runs[1].key()
    assert ENTRY.key not in (first.runs[1].key(), second.runs[1].key())


def test_a_speed_table_times_training_steps(small_catalog, tmp_path, monkeypatch):
    made = timing.interleave

    def steady(jobs, *arguments, **options):
        """What is timed, as if the machine were never busy: two samples of a busy one may leave a claim undecided."""
        timed = made(jobs, *arguments, **options)
        for name, found in timed.items():
            assert found.wall > 0
            found.wall = {"crvnn": 0.2, "lstm": 0.01}[name] * random.uniform(0.99, 1.01)
        return timed

    monkeypatch.setattr(timing, "interleave", steady)
    text = """
title = "Speed"
[experiments.quick]
title = "Quick"
measure = "minutes"
[experiments.quick.laptop]
data = "two expressions"
seeds = 2
samples = 2
spec = { task = "listops", model = { width = 8 }, training = { threads = 1, accelerator = "cpu" } }
[experiments.quick.paper]
data = "none"
spec = { task = "listops" }
[[columns]]
name = "short"
experiment = "quick"
lengths = "4-9"
[[columns]]
name = "long"
experiment = "quick"
lengths = "30-40"
[[rows]]
system = "crvnn"
published = { short = "0.20" }
[[rows]]
system = "lstm"
[[claims]]
says = "The LSTM is faster"
row = "lstm"
better_than = ["crvnn"]
columns = ["long"]
"""
    plan = planned(small_catalog, tmp_path, text)
    worked(plan)
    results = read_results(plan)
    crvnn, lstm = results.lines
    assert len(crvnn.cells["long"].values) == len(lstm.cells["short"].values) == 2
    assert 0 < crvnn.cells["short"].mean < 1
    assert results.verdicts[0].state == "holds"
    assert "times as long" in results.verdicts[0].detail
    assert worked(plan) == []
