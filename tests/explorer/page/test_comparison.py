"""Two models side by side in the explorer's page, and what its modules compute, in a real browser."""

import pytest

from browser import opened
from crvnn_core.inference.inspection import inspect
from crvnn_core.inference.part_exchange import exchange_parts
from explorer_page import TEXT, TOKENS, settled, told, type_in


def differing(one, two, frame):
    """How many tokens two recursions treat differently in a frame; after its last step one stays as it is."""

    def row(inspected):
        last = len(inspected.compose)
        return inspected.exists[min(frame, last)], inspected.compose[frame] if frame < last else [0.0] * len(
            TOKENS
        )

    pairs = [zip(x, y, strict=True) for x, y in zip(row(one), row(two), strict=True)]
    return sum(any(abs(x - y) > 0.05 for x, y in both) for both in zip(*pairs, strict=True))


def test_two_models_side_by_side_show_where_they_part(page, explorer):
    type_in(page, TEXT)
    page.click("#compare")
    settled(page, TOKENS, "B")
    page.wait_for_selector("#difference:not([hidden])")
    assert page.inner_text("#compare") == "Back to one"  # which can be read while it is pointed at
    colours = "each => [getComputedStyle(each).color, getComputedStyle(each).backgroundColor]"
    assert len(set(page.locator("#compare").evaluate(colours))) == 2
    one, two = (inspect(explorer.runs[name], TEXT) for name in ("listops", "listops-self-training"))
    a, b = one.sequences[0], two.sequences[0]
    shared = len(a.tree.spans() & b.tree.spans())
    text = page.inner_text("#difference")
    assert f"The trees share {shared} of {len(TOKENS) - 1} nodes" in text
    first = next(frame for frame in range(len(a.exists)) if differing(a, b, frame))
    assert f"They diverge in step {first + 1}" in text
    page.click("#parting")
    assert page.inner_text("#where").startswith(f"step {first + 1} of")
    assert page.locator("#tick").is_visible()
    assert page.locator("#pane-A .steps .spot.differs").count() > 0
    for pane, inspected in zip("AB", (a, b), strict=True):
        marked = sum(differing(a, b, frame) for frame in range(len(inspected.exists)))
        assert int(page.get_attribute(f"#pane-{pane} .steps path.differs", "data-cells")) == marked > 0
    assert page.locator("#pane-B .tree .node.other").count() == len(TOKENS) - 1 - shared
    page.click("#compare")
    assert page.locator("#pane-B").count() == 0
    assert page.locator(".differs").count() == 0


def test_the_same_run_with_another_retriever_and_temperature(page, explorer, catalog):
    page.select_option("#run-A", "listops")
    type_in(page, TEXT)
    page.click("#compare")
    page.select_option("#run-B", "listops")
    settled(page, TOKENS, "B")
    told(page, "The trees are the same", "#difference")
    page.click("#pane-B details.parts > summary")
    page.select_option("#pane-B select[data-slot=retriever]", "log-space")
    page.select_option("#pane-B select[data-slot=decision]", "tempered")
    slider = page.get_by_label("end, as a slider")
    with page.expect_response(
        lambda each: (
            each.url.endswith("/api/inspect") and "decision" in each.request.post_data_json["settings"]
        )
    ) as caught:
        slider.fill(str(slider.evaluate("each => Number(each.min) + 0.5")))
    answer = caught.value.json()
    asked = caught.value.request.post_data_json
    temperature = asked["settings"]["decision"]["end"]
    assert temperature < 0.1
    assert float(page.get_by_label("end", exact=True).input_value()) == temperature
    assert float(slider.get_attribute("aria-valuetext")) == temperature
    assert page.get_by_label("end", exact=True).get_attribute("min") == "0"  # the range of the setting
    parts = {"retriever": "log-space", "decision": "tempered"}
    changed = exchange_parts(explorer.runs["listops"], catalog, parts, [f"model.decision.end={temperature}"])
    assert answer["sequences"][0]["compose"] == inspect(changed, TEXT).plain()["sequences"][0]["compose"]
    assert "3 changed" in page.inner_text("#pane-B details.parts > summary")
    told(page, "They diverge in step", "#difference")


@pytest.fixture(scope="module")
def scripts(address, browser):
    """A page whose modules are called."""
    with opened(address, browser=browser) as page:
        yield page


def test_a_probability_below_one_is_never_shown_as_100_percent(scripts):
    shown = {
        1: "100 %",
        0.9997: "99.97 %",
        0.99999: "99.999 %",
        0.995: "99.5 %",
        0.42: "42 %",
        0.004: "0.4 %",
    }
    percents = "async all => { const { percent } = await import('/static/dom.js'); return all.map(percent); }"
    assert scripts.evaluate(percents, list(shown)) == list(shown.values())


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
def test_the_telling_step_is_the_first_by_which_half_of_the_composition_is_done(scripts, composed, frame):
    compose = [[1.0] * count + [0.0] * (9 - count) for count in composed]
    exists = [[1.0] * 9] * (len(composed) + 1)
    assert scripts.evaluate(TELLING, [[exists, compose]]) == frame


PARTING = """async ([one, two]) => {
  const { compare } = await import("/static/compare.js");
  const sequence = ([exists, compose]) => ({ tokens: exists[0].map(String), exists, compose, tree: null });
  return compare({ sequences: [sequence(one)] }, { sequences: [sequence(two)] }).parting;
}"""


def test_two_recursions_part_at_the_largest_difference_of_the_first_frame_that_differs(scripts):
    one = ([[1, 1, 1], [0.1, 1, 1]], [[0.9, 0, 0]])
    sooner = ([[1, 1, 1], [0.1, 0.9, 0.5]], [[0.9, 0.1, 0.5]])
    at_the_end = ([[1, 1, 1], [0.1, 0.9, 1]], [[0.9, 0.02, 0]])
    assert scripts.evaluate(PARTING, [one, one]) is None
    assert scripts.evaluate(PARTING, [one, sooner]) == {
        "frame": 0, "place": 2, "gap": 0.5, "row": "compose", "index": 0,
    }  # fmt: skip
    found = scripts.evaluate(PARTING, [one, at_the_end])
    assert (found["frame"], found["place"], found["row"]) == (1, 1, "exists")
