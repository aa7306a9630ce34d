"""A clock that jumps, and one that stands still."""

import os

import pytest

from disturbed import Reproducing, Sweeping, Training

YEAR = 365 * 86_400.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Training, Sweeping, Reproducing])
@pytest.mark.parametrize("seconds", [YEAR, -YEAR])
def test_work_under_a_clock_that_jumps_ends_as_ever(kind, seconds, crvnn, tmp_path, undisturbed, told):
    work = kind()
    work.prepare(tmp_path)
    fault = {"kind": "jump_clock", "seconds": seconds, "every": 3}
    process = crvnn(*work.begin(tmp_path), fault=fault)
    assert process.wait() == work.code, process.err
    assert "Traceback" not in process.err
    assert work.result(tmp_path) == undisturbed(work)[0]
    told.survived("a clock that jumps by a year, or stands still", "the same bits")


@pytest.mark.slow
@pytest.mark.parametrize("when", [1.0, 4e9])
def test_a_run_whose_files_are_of_another_age_goes_on(when, crvnn, tmp_path, goes_on, told):
    work = Training()
    fault = {"kind": "die_at_change", "number": 40, "under": "a"}
    assert crvnn(*work.begin(tmp_path), fault=fault).wait() == 137
    for path in tmp_path.rglob("*"):
        os.utime(path, (when, when))
    goes_on(work)
    told.survived("files from 1970 or from the future", "the same bits")
