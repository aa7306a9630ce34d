"""Growth of time and memory with length."""

import json

import pytest

from bench_cli import SMALL, run
from crvnn_bench import experiments
from crvnn_bench.memory import Peak
from crvnn_bench.workloads import Range, Workload


def growing(monkeypatch, **powers):
    """Let memory grow as asked for, without measuring anything."""
    asked = []

    def measured(setup, name, load):
        asked.append((name, load.lengths.high))
        return Peak(int(load.lengths.high ** powers[name.replace("-", "_")]))

    monkeypatch.setattr(experiments, "measure_peak", measured)
    return asked


def test_a_contender_stops_before_it_would_take_more_memory_than_it_may(monkeypatch, contenders):
    asked = growing(monkeypatch, crvnn=1, dense=2)
    loads = [Workload(lengths=Range(length, length), random=True, memory=1000) for length in (8, 16, 32, 64)]
    rows = experiments.measure(contenders, ["crvnn", "dense"], loads, memory=True)
    points = {(point["contender"], point["length"]): point for point in rows}
    assert [length for name, length in asked if name == "dense"] == [8, 16]
    assert points["dense", 32]["seconds"] is None
    assert "not run: a batch would take some" in points["dense", 32]["note"]
    assert points["dense", 64]["note"] == "not tried: 32 tokens were too much"
    assert points["crvnn", 64]["seconds"] > 0
    grown = experiments.exponents(rows)
    assert grown["crvnn"]["memory"] == pytest.approx(1)
    assert grown["dense"]["memory"] == pytest.approx(2)


def test_a_process_that_ran_out_of_memory_is_no_error(monkeypatch, contenders):
    monkeypatch.setattr(experiments, "measure_peak", lambda *given: Peak(note="out of memory"))
    load = Workload(lengths=Range(8, 8), random=True)
    (point,) = experiments.measure(contenders, ["crvnn"], [load], memory=True)
    assert point["note"] == "out of memory"
    assert experiments.exponents([point]) == {"crvnn": {"time": None, "memory": None}}


def test_lengths_are_measured_and_can_be_drawn(monkeypatch, tmp_path):
    growing(monkeypatch, crvnn=1, crvnn_checkpointed=1)
    saved = tmp_path / "lengths.json"
    args = ("--length", 12, "--length", 24, "--depth", 2, "--repeats", 2, *SMALL, "-o", saved)
    shown = run("lengths", "--contender", "crvnn", "--contender", "crvnn-checkpointed", *args).stdout
    assert "n^1.00" in shown
    assert "halting off, 2 steps" in shown
    results = json.loads(saved.read_text())
    assert (results["bench"], results["width"]) == ("lengths", 8)
    assert [point["length"] for point in results["points"]] == [12, 12, 24, 24]
    picture = tmp_path / "lengths.svg"
    run("plot", saved, "-o", picture)
    assert "crvnn-checkpointed" in picture.read_text()
