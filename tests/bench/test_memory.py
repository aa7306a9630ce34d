"""Peak memory, in this process and in fresh ones."""

import pytest
import torch
from attrs import evolve

from bench_cli import SMALL, answer
from crvnn_bench import memory
from crvnn_bench.memory import measure_here, measure_peak, tensor_peak
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import Range, Workload
from crvnn_core import CrvnnError


def test_what_tensors_take_is_counted_to_the_byte_where_most_are_alive():
    def job():
        first = torch.ones(2**18)  # 1 MiB
        second = first + first
        del first
        return second + second

    assert tensor_peak(job) == 2 * 2**20


def test_whether_a_batch_fits_is_judged_by_tensors_not_by_the_resident_set(monkeypatch):
    # As if all of the process had been paged in just now.
    monkeypatch.setattr(memory, "_peak", lambda job, device: 2**40)
    setup, load = Setup(width=8, threads=1), Workload(lengths=Range(9, 9), batch=2, samples=2)
    assert measure_here(setup, "crvnn", evolve(load, memory=2**30)).note == ""
    assert "allowed (--memory)" in measure_here(setup, "crvnn", evolve(load, memory=2**10)).note


def test_a_process_that_fails_is_quoted():
    with pytest.raises(CrvnnError, match=r"memory of crvnn failed:[^$]*there is no such run directory"):
        measure_peak(Setup(weights="no/such/run"), "crvnn", Workload(lengths=Range(9, 9)))


def test_the_dense_engine_takes_more_memory_in_a_process_of_its_own():
    args = ("--lengths", 1000, "--samples", 1, "--repeats", 1, *SMALL)
    ours, theirs = answer("speed", "--weights", "untrained", "--peaks", *args)["entries"]
    assert (ours["contender"], theirs["contender"]) == ("crvnn", "dense")
    assert theirs["bytes"] > 2 * ours["bytes"] > 0
    assert theirs["tensors"] > 2 * ours["tensors"] > 0
    assert theirs["larger"] == pytest.approx(theirs["tensors"] / ours["tensors"])
