"""Run directories that are deleted, read-only, no directories, or used by another process."""

import os
import shutil

import pytest

from disturbed import SETS, TRAINING, assert_told, left_by, train, until
from small import PLUGIN

not_as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def refused(process, code=2):
    assert process.wait() == code, process.err
    return process.err


@pytest.fixture
def read_only():
    """Takes from a directory and all below the permission to be written, or gives it back, which the end does too."""
    changed = []

    def change(directory, bits=0o555):
        changed.append(directory)
        for path in [directory, *directory.rglob("*")]:
            path.chmod(bits if path.is_dir() else bits & 0o666)

    yield change
    for directory in changed:
        change(directory, 0o755)


@not_as_root
@pytest.mark.slow
def test_a_run_that_became_read_only_is_resumed_when_it_can_be_written(crvnn, tmp_path, read_only, goes_on):
    process = crvnn(*TRAINING.command)
    assert until((tmp_path / "a" / "checkpoints" / "last.safetensors").exists)
    process.end()
    read_only(tmp_path / "a")
    assert_told("a run directory that is read-only", refused(crvnn(*TRAINING.resumption(tmp_path))))
    read_only(tmp_path / "a", 0o755)
    goes_on("training")


@not_as_root
def test_a_run_is_not_begun_where_nothing_can_be_written(crvnn, tmp_path, read_only):
    (tmp_path / "closed").mkdir()
    read_only(tmp_path / "closed")
    process = crvnn(*train(*SETS)[:-1], "closed/a")
    assert_told("a new run in a read-only directory", refused(process))
    process = crvnn("data", "make", "listops", "--rows", 3, "--out", "closed/rows.tsv")
    assert_told("data made into a read-only directory", refused(process))


def test_a_run_is_not_begun_where_a_file_is(crvnn, tmp_path):
    (tmp_path / "a").write_text("mine")
    assert_told("a file in place of the run directory", refused(crvnn(*TRAINING.command)))
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.slow
def test_a_directory_that_is_deleted_during_training_is_one_message(crvnn, tmp_path, goes_on):
    process = crvnn(*TRAINING.command)
    assert until((tmp_path / "a" / "metrics.jsonl").exists)
    os.rename(tmp_path / "a", tmp_path / "gone")  # at once, as seen by the process
    shutil.rmtree(tmp_path / "gone")
    assert_told("a run directory deleted during training", refused(process))
    assert not (tmp_path / "a").exists()
    goes_on("training")


@pytest.mark.slow
def test_of_two_trainings_in_one_directory_one_is_refused_and_the_other_undisturbed(
    crvnn, tmp_path, undisturbed
):
    first, second = crvnn(*TRAINING.command), crvnn(*train(*SETS, "seed=1"))
    codes = [first.wait(), second.wait()]
    assert sorted(codes) == [0, 2], first.err + second.err
    assert_told("two trainings in one directory", (first if codes[0] else second).err)
    if codes[0] == 0:
        assert left_by(tmp_path) == undisturbed("training")[0]
    else:
        assert "seed = 1\n" in (tmp_path / "a" / "spec.toml").read_text()
        assert crvnn("predict", "--plugin", PLUGIN, "a", "a b").wait() == 0


@pytest.mark.slow
def test_a_run_is_not_resumed_while_it_is_trained(crvnn, tmp_path, undisturbed):
    process = crvnn(*TRAINING.command)
    assert until((tmp_path / "a" / "metrics.jsonl").exists)
    assert_told("a run resumed while it is trained", refused(crvnn(*TRAINING.resumption(tmp_path))))
    assert process.wait() == 0, process.err
    assert left_by(tmp_path) == undisturbed("training")[0]
