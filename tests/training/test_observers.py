"""The log of a run: one JSON object a line, no step twice, nothing torn."""

import json

import pytest

from crvnn_core import CrvnnError
from crvnn_core.training.observers import JsonLines

METRICS = {"loss": 1.5, "accuracy": 0.5}


def train(path, last, step=0, directory=None):
    observer = JsonLines(str(path))
    observer.started(last, {"parameters": 3, "step": step, "directory": directory})
    for number in range(step + 1, last + 1):
        observer.stepped(number, METRICS)
    observer.finished({})


def records(path):
    assert path.read_bytes().endswith(b"\n")
    return [json.loads(line) for line in path.read_text().splitlines()]


def steps(path):
    return [record["step"] for record in records(path)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_each_event_is_one_json_object_that_says_its_step_and_kind(tmp_path):
    path = tmp_path / "deep" / "metrics.jsonl"
    observer = JsonLines(str(path))
    observer.started(9, {})
    observer.noted("hello")
    observer.stepped(1, METRICS)
    observer.evaluated(1, {"accuracy": 0.25})
    observer.noted("memory ran out")
    observer.finished({})
    assert records(path) == [
        {"step": 0, "kind": "note", "message": "hello"},
        {"step": 1, "kind": "train", **METRICS},
        {"step": 1, "kind": "dev", "accuracy": 0.25},
        {"step": 1, "kind": "note", "message": "memory ran out"},
    ]


def test_a_step_is_in_the_file_as_soon_as_it_is_done(path):
    observer = JsonLines(str(path))
    observer.started(2, {})
    observer.stepped(1, METRICS)
    assert steps(path) == [1]
    observer.finished({})


def test_numbers_that_json_does_not_know_are_null(path):
    observer = JsonLines(str(path))
    observer.started(1, {})
    observer.stepped(1, {"loss": float("nan"), "norm": float("inf"), "accuracy": 0.0})
    observer.finished({})
    assert records(path) == [{"step": 1, "kind": "train", "loss": None, "norm": None, "accuracy": 0.0}]


def test_a_second_run_is_added_to_the_first(path):
    train(path, 2)
    train(path, 1)
    assert steps(path) == [1, 2, 1]


def test_a_resumed_run_drops_what_was_written_beyond_its_checkpoint(path):
    train(path, 7)
    with path.open("a") as file:
        file.write('{"step": 7, "kind": "dev"}\n{"step": 5, "kind": "note"}\n{"step": 8, "kind": "note"}\n')
    train(path, 6, step=5)
    assert [(record["step"], record["kind"]) for record in records(path)] == [
        *((step, "train") for step in (1, 2, 3, 4, 5)),
        (5, "note"),
        (6, "train"),
    ]


@pytest.mark.parametrize("torn", ['{"step": 3, "kind": "tra', '{"step": 3, "kind": "train"}', "{"])
@pytest.mark.parametrize("step", [0, 2])
def test_a_torn_last_line_is_dropped(path, torn, step):
    train(path, 2)
    with path.open("a") as file:
        file.write(torn)
    train(path, step + 1, step=step)
    assert steps(path) == [1, 2, step + 1]


def test_a_run_that_begins_anew_in_its_own_directory_leaves_nothing_of_its_first_attempt(tmp_path):
    path = tmp_path / "run" / "metrics.jsonl"
    train(path, 3, directory=str(tmp_path / "run"))
    train(path, 1, directory=str(tmp_path / "run"))  # killed before its first checkpoint
    assert steps(path) == [1]


def test_a_file_elsewhere_is_added_to_even_when_the_run_has_a_directory(tmp_path, path):
    for _ in range(2):
        train(path, 1, directory=str(tmp_path / "run"))
    assert steps(path) == [1, 1]


def test_lines_that_are_no_records_are_left_alone(path):
    path.write_text('notes of mine\n[1, 2]\n{"steps": 9}\n{"step": "nine"}\n{"step": 9}\nno end of line')
    observer = JsonLines(str(path))
    observer.started(9, {"step": 3})
    observer.finished({})
    assert path.read_text() == 'notes of mine\n[1, 2]\n{"steps": 9}\n{"step": "nine"}\nno end of line'


def test_a_full_disk_is_one_clear_message():
    observer = JsonLines("/dev/full")
    observer.started(1, {})
    with pytest.raises(CrvnnError, match=r"/dev/full cannot be written: .*No space left on device"):
        observer.stepped(1, METRICS)
    observer.finished({})


def test_a_place_where_no_file_can_be_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(CrvnnError, match=r"taken/metrics\.jsonl cannot be written"):
        JsonLines(str(tmp_path / "taken" / "metrics.jsonl")).started(1, {})
