"""Two models side by side in the explorer's page, in a real browser."""

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
