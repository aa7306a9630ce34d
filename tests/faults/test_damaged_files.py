"""Files of a run that are cut short, changed, swapped, empty or gone: noticed, or without effect on any answer."""

import random
import shutil

import pytest
from click.testing import CliRunner

from crvnn_core.cli import main
from crvnn_core.training.trainer import train
from disturbed import assert_told, lasting
from files import contents
from small import PLUGIN, variant
from training_runs import stopped_after

SETS = ("training.steps=9", "training.evaluate_every=3", "training.save_every=2")
#: What is read back: a change of it is noticed, or changes nothing.
READ = (
    "spec.toml",
    "vocabulary.json",
    "weights.safetensors",
    "checkpoints/last.safetensors",
)
#: Records for people, which neither answers nor weights depend on.
RECORDS = ("environment.json", "metrics.jsonl", "results.json")
#: What an interrupted run does not have yet.
UNFINISHED = ("weights.safetensors", "results.json")
#: What a run that goes on must end with.
COMPARED = ("results.json", *READ[2:])


def truncated(path, other, generator):
    path.write_bytes(path.read_bytes()[: int(generator.uniform(0.05, 0.95) * path.stat().st_size)])


def bit_flipped(path, other, generator):
    content = bytearray(path.read_bytes())
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(7)
    path.write_bytes(content)


def swapped(path, other, generator):
    shutil.copyfile(other, path)


def emptied(path, other, generator):
    path.write_bytes(b"")


def deleted(path, other, generator):
    path.unlink()


DAMAGES = (truncated, bit_flipped, swapped, emptied, deleted)
SHORT = [
    ("spec.toml", bit_flipped),
    ("weights.safetensors", swapped),
    ("checkpoints/last.safetensors", truncated),
]
CASES = [
    pytest.param(
        name,
        damage,
        id=f"{damage.__name__}-{name}",
        marks=() if (name, damage) in SHORT else pytest.mark.slow,
    )
    for name in (*READ, *RECORDS)
    for damage in DAMAGES
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run, the same one interrupted, and a finished one of another model."""
    place = tmp_path_factory.mktemp("runs")
    train(variant(*SETS), place / "finished")
    stopped_after(6, place / "interrupted", *SETS)
    train(variant(*SETS, "model.width=12", "task.rows=24", "seed=5"), place / "other")
    return place


def call(*args):
    result = CliRunner().invoke(main, [str(arg) for arg in args], prog_name="crvnn")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 2), result.output
    return result


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_an_answer_is_the_same_or_the_damaged_file_is_named(name, damage, runs, tmp_path):
    run = tmp_path / "a"
    shutil.copytree(runs / "finished", run)
    expected = call("predict", "--plugin", PLUGIN, "--json", run, "a b", "c d e").stdout
    damage(run / name, runs / "other" / name, random.Random(f"{name} {damage.__name__}"))
    result = call("predict", "--plugin", PLUGIN, "--json", run, "a b", "c d e")
    if result.exit_code == 0:
        assert name in ("spec.toml", *RECORDS, *READ[3:])
        assert result.stdout == expected
    else:
        assert str(run) in result.stderr
        assert name not in READ[3:]


@pytest.mark.parametrize(("name", "damage"), [case for case in CASES if case.values[0] not in UNFINISHED])
def test_a_run_ends_the_same_or_the_damaged_file_is_named_and_nothing_lost(name, damage, runs, tmp_path):
    run = tmp_path / "a"
    shutil.copytree(runs / "interrupted", run)
    before = contents(run)
    damage(run / name, runs / "other" / name, random.Random(f"{name} {damage.__name__}"))
    damaged = contents(run)
    result = call("train", "--plugin", PLUGIN, "--resume", run)
    if result.exit_code:
        assert_told(f"{name}, {damage.__name__.replace('_', '-')}", result.stderr.replace(str(run), "a"))
        assert contents(run) == damaged
        for path, content in before.items():  # put back
            path.write_bytes(content)
        assert call("train", "--plugin", PLUGIN, "--resume", run).exit_code == 0
    assert [lasting(run / each) for each in COMPARED] == [
        lasting(runs / "finished" / each) for each in COMPARED
    ]
