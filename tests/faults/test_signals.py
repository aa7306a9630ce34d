"""SIGINT and SIGTERM: the command ends in order, says so, leaves no temporary file, and goes on to the same bits."""

import signal

import pytest

from disturbed import MESSAGES, WORKS, assert_told, until

CASES = [
    pytest.param(name, number, marks=() if name == "making data" else pytest.mark.slow)
    for name in WORKS
    if name != "saving"
    for number in (signal.SIGINT, signal.SIGTERM)
]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_work_that_is_interrupted_ends_in_order_and_goes_on(name, number, crvnn, tmp_path, goes_on):
    work, both = WORKS[name], f"SIGINT or SIGTERM while {name}"
    work.prepare(tmp_path)
    process = crvnn(*work.command)
    assert until(lambda: any(tmp_path.glob(work.sign)))
    process.send(number)
    code = process.wait()
    if both in MESSAGES:
        assert code == 130, process.err
        assert_told(both, process.err)
    else:
        assert code == 128 + number, process.err
        assert_told(f"{number.name} while {name}", process.err)
    left = [path.name for path in tmp_path.rglob(".*")]
    assert not left or (name in ("sweeping", "reproducing") and all(each.endswith(".lock") for each in left))
    goes_on(name)
