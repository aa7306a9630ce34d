"""``crvnn bench speed``: what is timed, what is said of it, and mistakes."""

import json

import pytest

from attention_encoder import PLUGIN
from bench_cli import SMALL, answer, run
from crvnn_bench import memory


def test_speed_gives_times_and_steps_and_saves_them(tmp_path):
    saved = tmp_path / "speed.json"
    args = ("--lengths", "20-30", "--samples", 2, "--repeats", 2, "--batch", 1, "--batch", 2, *SMALL)
    found = answer("speed", "--weights", "untrained", *args, "-o", saved)
    assert json.loads(saved.read_text()) == found
    assert [(row["batch"], row["contender"]) for row in found["entries"]] == [
        (size, name) for size in (1, 2) for name in ("crvnn", "dense")
    ]
    for row in found["entries"]:
        assert 0 < row["low"] <= row["seconds"] <= row["high"]
        assert row["against"] > 0
        assert (row["weights"], row["lengths"], row["work"]) == ("untrained", "20-30", "train")
        assert (row["batches"], row["repeats"]) == (2 // row["batch"], 2)
    ours, theirs = found["entries"][:2]
    assert ours["against"] == 1
    assert ours["steps"] == theirs["steps"] > 1
    assert {"torch", "threads", "cpu", "seed", "date"} <= found["environment"].keys()
    assert found["setup"]["width"] == 8
    assert "the optimizer is outside" in found["facts"]["clock"]


def test_a_batch_that_would_take_too_much_memory_is_not_run_and_the_table_says_so(monkeypatch):
    monkeypatch.setattr(memory, "tensor_peak", lambda job, device: 2**30)
    args = ("--lengths", "300", "--samples", 8, "--batch", 8, "--repeats", 1, *SMALL, "--memory", 4)
    shown = run("speed", "--weights", "untrained", "--contender", "dense", *args).stdout
    assert "not run: a batch would take some 8.0 GiB of the 4 allowed" in shown


def test_what_is_over_the_limit_is_measured_fewer_times_and_the_table_says_so():
    args = ("--lengths", "20", "--samples", 3, "--repeats", 3, *SMALL, "--limit", 1e-6)
    shown = run("speed", "--weights", "untrained", "--contender", "crvnn", *args).stdout
    assert "measured on 1 of 3 batches, 1 of 3 times" in shown


def test_hard_inference_is_timed_against_the_forward_pass_of_the_dense_engine():
    args = ("--work", "forward", "--lengths", "12", "--samples", 1, "--repeats", 1)
    found = answer("speed", *args, "--contender", "crvnn-hard", "--contender", "dense")
    assert [row["contender"] for row in found["entries"]] == ["crvnn-hard", "dense"]
    assert {row["weights"] for row in found["entries"]} == {"listops"}


QUICK = ("--lengths", "12", "--samples", 1, "--repeats", 1, "--threads", 1)


def test_an_encoder_of_a_third_party_is_timed_in_training_and_with_hard_inference(attention_run):
    given = ("--plugin", PLUGIN, "--weights", attention_run, *QUICK)
    (row,) = answer("speed", *given)["entries"]  # the weights' encoder, unless others are asked for
    assert (row["contender"], row["note"]) == ("attention", "")
    assert row["seconds"] > 0
    names = ("attention", "attention-hard", "crvnn")
    chosen = [part for name in names for part in ("--contender", name)]
    rows = answer("speed", *given, "--work", "forward", *chosen)["entries"]
    assert [(row["contender"], row["note"]) for row in rows] == [
        ("attention", ""),
        ("attention-hard", ""),
        ("crvnn", "untrained"),
    ]
    assert all(row["seconds"] > 0 for row in rows)


def test_any_installed_encoder_is_a_contender():
    found = answer("speed", "--weights", "untrained", "--contender", "balanced", *QUICK, *SMALL)
    assert [row["contender"] for row in found["entries"]] == ["balanced"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("speed", "--lengths", "long"), "lengths 'long': expected as 701-1000 or 1000"),
        (("speed", "--contender", "quickest"), "no contender is called 'quickest'"),
        (("speed", "--contender", "crvnn-hard"), "crvnn-hard is inference only"),
        (("speed", "--weights", "nowhere", "--samples", 1), "nowhere: there is no such run directory"),
        (("speed", "--device", "toaster"), "--device toaster cannot be used"),
        (("speed", "--weights", "untrained", "--preset", "papre"), "no preset is called 'papre'"),
        (("lengths", "--length", 2), "2 is not in the range"),
    ],
)
def test_a_mistake_gets_one_clear_message(args, message):
    error = run(*args, code=2).stderr
    assert message in error
    assert "Traceback" not in error
