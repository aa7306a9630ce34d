"""``crvnn bench encoders``: all encoders in one table, those that cannot do the work with the reason."""

import json

import pytest

import attention_encoder
from bench_cli import answer, run
from crvnn_bench.contenders import all_encoders

SMALL = (
    "--batch",
    "1",
    "--samples",
    "2",
    "--repeats",
    "1",
    "--width",
    "8",
    "--threads",
    "1",
    "--limit",
    "100",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "encoders.json"
    contenders = ("--contender", "balanced", "--contender", "cyk")
    table = run("encoders", *contenders, "--lengths", "6", "--lengths", "210", *SMALL, "--out", path)
    return table.stdout, json.loads(path.read_text())["entries"]


def test_every_encoder_has_time_and_memory_beside_those_of_the_first(results):
    _, entries = results
    assert [(entry["lengths"], entry["contender"]) for entry in entries] == [
        ("6", "balanced"),
        ("6", "cyk"),
        ("210", "balanced"),
        ("210", "cyk"),
    ]
    first, second = entries[:2]
    assert first["slower"] == first["larger"] == 1
    assert min(second["seconds"], second["bytes"], second["slower"], second["larger"]) > 0


def test_an_encoder_that_cannot_do_a_workload_is_listed_with_the_reason(results):
    table, entries = results
    assert entries[3]["seconds"] is entries[3]["bytes"] is entries[3]["slower"] is None
    assert "takes at most 200" in entries[3]["note"]
    assert "not run:" in table


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--limit", "0.0001", "not run: a step takes more than 0.0001 s (--limit)"),
        ("--memory", "0.00001", "allowed (--memory)"),
    ],
)
def test_an_encoder_over_a_limit_is_not_waited_for_nor_tried_at_longer_lengths(option, value, reason):
    lengths = ("--lengths", "90", "--lengths", "60")  # in any order
    found = answer("encoders", "--contender", "cyk", *lengths, *SMALL, option, value)["entries"]
    assert [entry["lengths"] for entry in found] == ["90", "60"]
    assert all(entry["seconds"] is entry["bytes"] is entry["slower"] is None for entry in found)
    assert reason in found[1]["note"]
    assert found[0]["note"] == "not tried: 60 tokens were too much"


def test_within_its_limits_an_encoder_has_figures_beside_one_that_has_none():
    contenders = ("--contender", "balanced", "--contender", "cyk")
    found = answer("encoders", *contenders, "--lengths", "90", *SMALL, "--memory", "0.02")["entries"]
    assert found[0]["seconds"] > 0
    assert found[0]["bytes"] > 0
    assert "allowed (--memory)" in found[1]["note"]


def test_with_weights_their_encoder_has_them_and_the_others_are_untrained(attention_run):
    table = run(
        "encoders",
        "--plugin",
        attention_encoder.__file__,
        "--weights",
        attention_run,
        *("--contender", "attention", "--contender", "balanced"),
        *("--lengths", "6", "--batch", "1", "--samples", "2", "--repeats", "1"),
    ).stdout
    lines = table.splitlines()
    assert "untrained" not in next(line for line in lines if "attention" in line)
    assert next(line for line in lines if "balanced" in line).endswith("untrained")
    assert "width 8, weights" in table


def test_all_encoders_are_measured_if_none_is_named(catalog):
    names, installed = all_encoders(catalog), set(catalog.components["encoder"])
    assert names[:2] == ["crvnn", "crvnn-self-training"]
    assert set(names) == installed | {"crvnn-self-training"}


def test_an_unknown_encoder_is_refused_with_the_nearest_name():
    refused = run("encoders", "--contender", "cky", *SMALL, code=2)
    assert "Did you mean 'cyk'?" in refused.stderr
