"""What modules of the explorer's page compute, called in a real browser."""

import pytest

from browser import opened


@pytest.fixture(scope="module")
def page(address, browser):
    with opened(address, browser=browser) as page:
        yield page


def test_a_probability_below_one_is_never_shown_as_100_percent(page):
    shown = {
        1: "100 %",
        0.9997: "99.97 %",
        0.99999: "99.999 %",
        0.995: "99.5 %",
        0.42: "42 %",
        0.004: "0.4 %",
    }
    percents = "async all => { const { percent } = await import('/static/dom.js'); return all.map(percent); }"
    assert page.evaluate(percents, list(shown)) == list(shown.values())


TELLING = """async (steps) => {
  const { tellingFrame } = await import("/static/compare.js");
  return tellingFrame(steps.map(([exists, compose]) => ({ exists, compose })));
}"""


@pytest.mark.parametrize(
    ("composed", "frame"),
    [
        ([6, 2, 1, 1], 1),  # most is composed at first, but before it nothing is made
        ([1, 1, 4, 2, 1], 2),
        ([0, 0, 0, 5], 3),
        ([2], 0),
        ([], 0),
    ],
)
def test_the_telling_step_is_the_first_by_which_half_of_the_composition_is_done(page, composed, frame):
    compose = [[1.0] * count + [0.0] * (9 - count) for count in composed]
    exists = [[1.0] * 9] * (len(composed) + 1)
    assert page.evaluate(TELLING, [[exists, compose]]) == frame


PARTING = """async ([one, two]) => {
  const { compare } = await import("/static/compare.js");
  const sequence = ([exists, compose]) => ({ tokens: exists[0].map(String), exists, compose, tree: null });
  return compare({ sequences: [sequence(one)] }, { sequences: [sequence(two)] }).parting;
}"""


def test_two_recursions_part_at_the_largest_difference_of_the_first_frame_that_differs(page):
    one = ([[1, 1, 1], [0.1, 1, 1]], [[0.9, 0, 0]])
    sooner = ([[1, 1, 1], [0.1, 0.9, 0.5]], [[0.9, 0.1, 0.5]])
    at_the_end = ([[1, 1, 1], [0.1, 0.9, 1]], [[0.9, 0.02, 0]])
    assert page.evaluate(PARTING, [one, one]) is None
    assert page.evaluate(PARTING, [one, sooner]) == {
        "frame": 0, "place": 2, "gap": 0.5, "row": "compose", "index": 0,
    }  # fmt: skip
    found = page.evaluate(PARTING, [one, at_the_end])
    assert (found["frame"], found["place"], found["row"]) == (1, 1, "exists")
