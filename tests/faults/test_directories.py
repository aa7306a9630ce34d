"""Run directories that are deleted, read-only, no directories, or used by another process."""

import os
import shutil

import pytest

from disturbed import SETS, Training, until
from small import PLUGIN, options

not_as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.fixture
def interrupted(crvnn, tmp_path):
    """A run that was killed when it had a checkpoint."""
    work = Training()
    process = crvnn(*work.begin(tmp_path))
    assert until(lambda: (tmp_path / "a" / "checkpoints" / "best.safetensors").exists())
    process.end()
    return work


def refused(process, code=2):
    assert process.wait() == code, process.err
    return process.err


@pytest.fixture
def read_only():
    """Takes from a directory and all below the permission to be written, and gives it back in the end."""
    changed = []

    def change(directory):
        for path in [directory, *directory.rglob("*")]:
            changed.append((path, path.stat().st_mode))
            path.chmod(path.stat().st_mode & ~0o222)

    def restore():
        while changed:
            path, mode = changed.pop(0)
            path.chmod(mode)

    yield change, restore
    restore()


@not_as_root
@pytest.mark.slow
def test_a_run_that_became_read_only_is_resumed_when_it_can_be_written(
    interrupted, crvnn, tmp_path, read_only, goes_on, told
):
    change, restore = read_only
    change(tmp_path / "a")
    command = interrupted.go_on(tmp_path)
    told("a run directory that is read-only", refused(crvnn(*command)))
    restore()
    goes_on(interrupted)


@not_as_root
def test_a_run_is_not_begun_where_nothing_can_be_written(crvnn, tmp_path, read_only, told):
    change, _ = read_only
    (tmp_path / "closed").mkdir()
    change(tmp_path / "closed")
    process = crvnn("train", *options(*SETS), "--out", "closed/a")
    told("a new run in a read-only directory", refused(process))
    process = crvnn("data", "make", "listops", "--rows", 3, "--out", "closed/rows.tsv")
    told("data made into a read-only directory", refused(process))


def test_a_run_is_not_begun_where_a_file_is(crvnn, tmp_path, told):
    (tmp_path / "a").write_text("mine")
    told("a file in place of the run directory", refused(crvnn(*Training().begin(tmp_path))))
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.slow
def test_a_directory_that_is_deleted_during_training_is_one_message(crvnn, tmp_path, goes_on, told):
    work = Training()
    process = crvnn(*work.begin(tmp_path))
    assert until(lambda: (tmp_path / "a" / "metrics.jsonl").exists())
    os.rename(tmp_path / "a", tmp_path / "gone")  # at once, as seen by the process
    shutil.rmtree(tmp_path / "gone")
    told("a run directory deleted during training", refused(process))
    assert not (tmp_path / "a").exists()
    goes_on(work)


@pytest.mark.slow
@pytest.mark.parametrize("pair", range(5))
def test_of_two_trainings_in_one_directory_one_is_refused_and_the_other_undisturbed(
    pair, crvnn, tmp_path, undisturbed, told
):
    work, other = Training(), Training()
    other.sets = (*SETS, "seed=1")
    first, second = crvnn(*work.begin(tmp_path)), crvnn(*other.begin(tmp_path))
    codes = [first.wait(), second.wait()]
    assert sorted(codes) == [0, 2], first.err + second.err
    loser = first if codes[0] else second
    told("two trainings in one directory", loser.err)
    if codes[0] == 0:
        assert work.result(tmp_path) == undisturbed(work)[0]
    else:
        assert "seed = 1\n" in (tmp_path / "a" / "spec.toml").read_text()
        assert crvnn("predict", "--plugin", PLUGIN, "a", "a b").wait() == 0


@pytest.mark.slow
def test_a_run_is_not_resumed_while_it_is_trained(crvnn, tmp_path, undisturbed, told):
    work = Training()
    process = crvnn(*work.begin(tmp_path))
    assert until(lambda: (tmp_path / "a" / "metrics.jsonl").exists())
    told("a run resumed while it is trained", refused(crvnn(*work.go_on(tmp_path))))
    assert process.wait() == 0, process.err
    assert work.result(tmp_path) == undisturbed(work)[0]
