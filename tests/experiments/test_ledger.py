"""The ledger: rows survive kills, half-written ones are reported, and nothing is lost."""

import json
import random
import time

import pytest
from attrs import evolve

from crvnn_core import CrvnnError
from crvnn_experiments.ledger import Ledger
from tables import ENTRY, ended, forked, kill


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "results" / "ledger.jsonl")


def seeds(ledger):
    return [entry.seed for entry in Ledger(ledger.path).entries.values()]


def test_an_entry_is_a_line_of_json_and_is_read_again(ledger):
    ledger.append([ENTRY])
    (line,) = ledger.path.read_text().splitlines()
    assert json.loads(line)["figures"] == {"test": 0.5}
    assert Ledger(ledger.path).entries == {ENTRY.key: ENTRY}


def test_an_entry_is_there_once_however_often_it_is_added(ledger):
    ledger.append([ENTRY])
    Ledger(ledger.path).append([evolve(ENTRY, figures={"test": 0.9})])
    assert len(ledger.path.read_text().splitlines()) == 1


def test_a_half_written_row_is_reported_with_its_line_and_nothing_is_lost(ledger):
    ledger.append([ENTRY, evolve(ENTRY, seed=1)])
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole[:-40])  # the second row was cut short
    again = Ledger(ledger.path)
    (message,) = again.problems
    assert message.startswith(f"{ledger.path}:2: this row is not complete and is not counted")
    assert seeds(ledger) == [0]
    again.append([evolve(ENTRY, seed=2)])
    assert ledger.path.read_bytes().startswith(whole[:-40] + b"\n")
    assert seeds(ledger) == [0, 2]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("figures", 5, "'figures' must be <class 'dict'> (got 5"),
        ("figures", {"test": "x"}, "'figures' must be (<class 'int'>, <class 'float'>) (got 'x'"),
        ("figures", {"test": float("nan")}, "NaN is not a number"),
        ("hours", "x", "'hours' must be (<class 'int'>, <class 'float'>) (got 'x'"),
        ("seed", "0", "'seed' must be <class 'int'> (got '0'"),
        ("hardware", None, "'hardware' must be <class 'dict'> (got None"),
    ],
)
def test_a_row_with_something_else_in_it_is_reported_and_not_counted(ledger, key, value, expected):
    ledger.append([ENTRY])
    line = json.dumps({**json.loads(ledger.path.read_text()), key: value})
    with ledger.path.open("a") as file:
        file.write(line + '\n{"something": "else"}\n[1]\n')
    again = Ledger(ledger.path)
    assert list(again.entries) == [ENTRY.key]
    problem, *others = again.problems
    assert [other.split(":")[1] for other in others] == ["3", "4"]
    assert problem.startswith(f"{ledger.path}:2: this row is not of this kind and is not counted ({expected}")


def test_processes_that_append_at_once_lose_nothing(ledger):
    def append(first):
        return all(Ledger(ledger.path).append([evolve(ENTRY, seed=first + n)]) is None for n in range(5))

    processes = [forked(lambda first=first: append(first)) for first in (0, 5, 3)]
    assert [ended(process) for process in processes] == [0, 0, 0]
    assert sorted(seeds(ledger)) == list(range(10))
    assert len(ledger.path.read_text().splitlines()) == 10


def test_a_process_killed_while_it_appends_leaves_a_ledger_that_can_be_appended_to(ledger):
    generator = random.Random(3)

    def append():
        for seed in range(1000):
            Ledger(ledger.path).append([evolve(ENTRY, seed=seed)])

    for _ in range(3):
        process = forked(append)
        time.sleep(generator.uniform(0.01, 0.1))
        assert kill(process)
    ledger.append([evolve(ENTRY, seed=5000)])
    assert 5000 in seeds(ledger)


def test_a_ledger_that_cannot_be_written_is_named(ledger):
    ledger.path.parent.mkdir()
    ledger.path.mkdir()
    with pytest.raises(CrvnnError, match=r"ledger.jsonl cannot be (read|written)"):
        ledger.append([ENTRY])
