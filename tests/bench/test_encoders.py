"""``crvnn bench encoders``: all encoders in one table, those that cannot do the work with the reason."""

import json

import pytest

import attention_encoder
import bench_cli
from bench_cli import answer, run
from crvnn_bench import experiments, memory

SMALL = (*bench_cli.SMALL, "--batch", 1, "--samples", 2, "--repeats", 1, "--limit", 100)


@pytest.fixture
def here(monkeypatch):
    """Memory is measured in this process: others take seconds to begin."""
    monkeypatch.setattr(experiments, "measure_peak", memory.measure_here)


def test_every_encoder_has_time_and_memory_beside_those_of_the_first_or_the_reason(here, tmp_path):
    path = tmp_path / "encoders.json"
    contenders = ("--contender", "balanced", "--contender", "cyk")
    table = run("encoders", *contenders, "--lengths", "6", "--lengths", "210", *SMALL, "--out", path).stdout
    entries = json.loads(path.read_text())["entries"]
    assert [(entry["lengths"], entry["contender"]) for entry in entries] == [
        ("6", "balanced"),
        ("6", "cyk"),
        ("210", "balanced"),
        ("210", "cyk"),
    ]
    first, second, _, too_long = entries
    assert first["against"] == first["larger"] == 1
    assert min(second["seconds"], second["tensors"], second["against"], second["larger"]) > 0
    assert too_long["seconds"] is too_long["bytes"] is too_long["against"] is None
    assert "takes at most 200" in too_long["note"]
    assert "not run:" in table


def assert_not_tried_again(reason, *options):
    """An encoder that is over a limit at one length is not tried at longer ones."""
    lengths = ("--lengths", "90", "--lengths", "60")  # the shorter first, whatever the order
    found = answer("encoders", "--contender", "cyk", *lengths, *SMALL, *options)["entries"]
    assert [entry["lengths"] for entry in found] == ["60", "90"]
    assert all(entry["seconds"] is entry["bytes"] is entry["against"] is None for entry in found)
    assert reason in found[0]["note"]
    assert found[1]["note"] == "not tried: 60 tokens were too much"


def test_an_encoder_over_the_time_limit_is_not_waited_for():
    assert_not_tried_again("not run: a step takes more than 0.0001 s (--limit)", "--limit", 0.0001)


def test_an_encoder_over_the_memory_limit_is_not_tried_at_longer_lengths(here):
    assert_not_tried_again("allowed (--memory)", "--memory", 0.00001)


def test_within_its_limits_an_encoder_has_figures_beside_one_that_has_none(here):
    contenders = ("--contender", "balanced", "--contender", "cyk")
    found = answer("encoders", *contenders, "--lengths", "90", *SMALL, "--memory", "0.02")["entries"]
    assert found[0]["seconds"] > 0
    assert found[0]["tensors"] > 0
    assert "allowed (--memory)" in found[1]["note"]


def test_with_weights_their_encoder_has_them_and_the_others_are_untrained(here, attention_run):
    given = ("--plugin", attention_encoder.__file__, "--weights", attention_run)
    chosen = ("--contender", "attention", "--contender", "balanced", "--lengths", "6")
    table = run("encoders", *given, *chosen, *SMALL).stdout
    lines = table.splitlines()
    assert "untrained" not in next(line for line in lines if "attention" in line)
    assert next(line for line in lines if "balanced" in line).endswith("untrained")
    assert "width 8, weights" in table


def test_all_encoders_are_measured_if_none_is_named(contenders, catalog):
    names, installed = contenders.all_encoders, set(catalog.components["encoder"])
    assert names[:2] == ["crvnn", "crvnn-self-training"]
    assert set(names) == installed | {"crvnn-self-training"}


def test_an_unknown_encoder_is_refused_with_the_nearest_name():
    refused = run("encoders", "--contender", "cky", *SMALL, code=2)
    assert "Did you mean 'cyk'?" in refused.stderr
