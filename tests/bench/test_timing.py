"""Interleaved timing, with a clock that only jobs move."""

import gc

import pytest

from crvnn_bench import timing


class Clock:
    """Goes on only when a job takes its time."""

    def __init__(self):
        self.now = 0.0
        self.order = []

    def __call__(self):
        return self.now

    def job(self, name, seconds):
        def work():
            self.now += seconds
            self.order.append(name)
            return name

        return work


@pytest.mark.parametrize(
    ("names", "order"), [("abc", "abc bca" + " bca cab" + " cab abc"), ("ab", "ab ba" + " ba ab" + " ab ba")]
)
def test_contenders_take_turns_and_each_turn_and_repeat_begins_with_another(names, order):
    clock = Clock()
    jobs = {name: [clock.job(name, 1), clock.job(name, 1)] for name in names}
    timing.interleave(jobs, 3, clock=clock)
    assert "".join(clock.order) == order.replace(" ", "")


def test_times_are_kept_by_repeat_and_job():
    clock = Clock()
    timed = timing.interleave({"a": [clock.job("a", 1), clock.job("a", 2)]}, 3, clock=clock)["a"]
    assert timed.seconds == [[1, 2]] * 3
    assert timed.totals() == [3, 3, 3]
    assert timed.results == ["a", "a"]
    assert not timed.cut


def test_a_slow_contender_is_measured_fewer_times_and_compared_on_what_it_did():
    clock = Clock()
    jobs = {
        "quick": [clock.job("quick", seconds) for seconds in (1, 2, 3)],
        "slow": [clock.job("slow", seconds) for seconds in (10, 20, 30)],
    }
    timed = timing.interleave(jobs, 3, limit=25, clock=clock)
    assert timed["slow"].cut
    assert timed["slow"].seconds == [[10, 20]]
    assert len(timed["quick"].seconds) == 3
    assert not timed["quick"].cut
    assert timing.ratio(timed["slow"], timed["quick"]) == 10


def test_a_repeat_that_was_cut_short_is_not_mixed_with_whole_ones():
    clock = Clock()
    slower = iter([1, 1, 50, 1])
    jobs = {"a": [lambda: clock.job("a", next(slower))(), lambda: clock.job("a", next(slower))()]}
    timed = timing.interleave(jobs, 2, limit=10, clock=clock)["a"]
    assert timed.seconds == [[1, 1]]
    assert timed.cut


def test_no_garbage_is_collected_during_a_measurement():
    found = []
    timing.interleave({"a": [lambda: found.append(gc.isenabled())]}, 1)
    assert found == [False]
    assert gc.isenabled()


def test_spread_is_the_median_between_quartiles():
    timed = timing.Timed(seconds=[[seconds, seconds] for seconds in (5, 1, 2, 4, 3)])
    assert timed.quartiles() == {"low": 2, "seconds": 3, "high": 4}
    assert set(timing.Timed(seconds=[[7]]).quartiles().values()) == {7}
    assert set(timing.Timed().quartiles().values()) == {None}


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(power):
    sizes = [1000, 2000, 8000, 32000]
    assert timing.exponent(sizes, [3e-4 * size**power for size in sizes]) == pytest.approx(power)


def test_one_size_has_no_exponent():
    assert timing.exponent([1000], [1.0]) is None
    assert timing.exponent([1000, 1000], [1.0, 1.1]) is None
