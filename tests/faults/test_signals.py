"""SIGINT and SIGTERM: the command ends in order, says so, leaves no temporary file, and goes on to the same bits."""

import signal

import pytest

from disturbed import DataMaking, Downloading, Reproducing, Seeds, Sweeping, Training, until

FAULTS = {
    Training: "SIGINT or SIGTERM while training",
    Seeds: "SIGINT or SIGTERM while training several seeds",
    DataMaking: "SIGINT while making data",
    Downloading: "SIGINT while downloading",
    Sweeping: "SIGINT or SIGTERM while sweeping",
    Reproducing: "SIGINT or SIGTERM while reproducing",
}
#: A file that is there once the command is at work.
SIGNS = {
    Training: "a/metrics.jsonl",
    Seeds: "a/seed-0/metrics.jsonl",
    DataMaking: ".rows.tsv.gz.*",
    Downloading: "data/*.part",
    Sweeping: "study/trials/*/metrics.jsonl",
    Reproducing: "out/laptop/*/*/*/metrics.jsonl",
}
CASES = [
    pytest.param(kind, number, marks=() if kind is DataMaking else pytest.mark.slow)
    for kind in FAULTS
    for number in (signal.SIGINT, signal.SIGTERM)
]


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_work_that_is_interrupted_ends_in_order_and_goes_on(
    kind, number, crvnn, tmp_path, request, goes_on, told
):
    work = kind(request.getfixturevalue("site").address) if kind is Downloading else kind()
    work.prepare(tmp_path)
    process = crvnn(*work.begin(tmp_path))
    assert until(lambda: any(tmp_path.glob(SIGNS[kind])))
    process.send(number)
    code, fault = process.wait(), FAULTS[kind]
    if number == signal.SIGTERM and fault.startswith("SIGINT while"):
        fault = fault.replace("SIGINT", "SIGTERM")
        assert code == 143, process.err
    else:
        assert code == 130, process.err
    told(fault, process.err)
    left = [p.name for p in tmp_path.rglob(".*")]
    kept = [name for name in left if name.endswith(".lock")] if kind in (Sweeping, Reproducing) else []
    assert left == kept
    goes_on(work)
