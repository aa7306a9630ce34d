"""What the explorer's page shows first: a telling step, whether the prediction is correct, everything in sight."""

import json
from urllib.parse import quote

import pytest

from browser import opened
from crvnn_core.display.palette import COLOURS
from crvnn_core.inference.inspection import inspect, read_gold
from explorer_page import TEXT, TOKENS, settled, told, type_in

DESKTOP, PHONE = {"width": 1366, "height": 850}, {"width": 390, "height": 844}
LONGER = "[SM 5 [MAX 2 9 [MIN 4 7 ] 0 ] 3 ]"


def address_of(address, **view):
    """A link to a view of the first run."""
    return f"{address}#{quote(json.dumps({'texts': [TEXT], 'panes': [{'model': 'listops'}], **view}))}"


def test_the_page_opens_at_a_step_at_which_the_tree_is_partly_made(page):
    type_in(page, LONGER)
    assert page.inner_text("#where").startswith("step ")
    for when in ("made", "now", "later"):
        assert page.locator(f".tree .node.{when}").count() > 0


def test_a_link_keeps_its_step_and_without_one_opens_at_the_telling_step(page, address, explorer):
    steps = len(inspect(explorer.runs["listops"], TEXT).sequences[0].compose)
    for view, where in [
        ({"frame": 0}, f"step 1 of {steps}"),
        ({"frame": steps - 1}, f"step {steps} of {steps}"),
        ({"frame": None}, "the end"),
        ({}, f"step 2 of {steps}"),
    ]:
        page.goto("about:blank")
        page.goto(address_of(address, **view))
        settled(page, TOKENS)
        assert page.inner_text("#where") == where


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_player_is_docked_and_covers_nothing(address, browser, size):
    with opened(address, browser=browser, **size) as page:
        page.wait_for_selector("#pane-A .verdict")
        type_in(page, TEXT)
        view, player, steps = (page.locator(each).bounding_box() for each in ("#view", "#player", ".steps"))
        assert view["y"] + view["height"] == pytest.approx(player["y"], abs=0.5)
        assert player["y"] + player["height"] == pytest.approx(size["height"], abs=0.5)
        assert (player["x"], player["width"]) == (0, size["width"])
        if size is DESKTOP:  # tree and steps are in sight at once
            assert steps["y"] + steps["height"] <= player["y"]
        last = page.locator(".legend summary")
        last.scroll_into_view_if_needed()
        box = last.bounding_box()
        assert box["y"] + box["height"] <= player["y"]


def test_on_a_phone_two_variants_are_tabs(address, browser):
    with opened(address, browser=browser, has_touch=True, is_mobile=True, **PHONE) as page:
        page.wait_for_selector("#pane-A .verdict")
        assert page.locator("#tabs").is_hidden()
        type_in(page, TEXT)
        page.tap("#compare")
        settled(page, TOKENS, "B")
        assert page.locator("#pane-A").is_visible()
        assert page.locator("#pane-B").is_hidden()
        assert page.get_attribute("#tab-A", "aria-selected") == "true"
        width = page.get_attribute("#pane-A .tree", "width")
        page.tap("#tab-B")
        assert page.locator("#pane-A").is_hidden()
        # as wide as the other, though it was hidden when its answer came
        assert page.get_attribute("#pane-B .tree", "width") == width
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.locator("#pane-B .spot").nth(2).tap()
        told(page, "9: left of it", "#pane-B .told")
        page.locator("#tab-B").press("ArrowLeft")
        assert page.locator("#pane-A").is_visible()
        assert page.evaluate("document.activeElement.id") == "tab-A"
        page.set_viewport_size(DESKTOP)
        assert page.locator("#pane-A").is_visible()
        assert page.locator("#pane-B").is_visible()
        assert page.locator("#tabs").is_hidden()


def test_a_prediction_is_said_to_be_correct_or_wrong_where_the_task_can_tell(page, letters_run):
    type_in(page, TEXT)
    assert "predicted 9" in " ".join(page.inner_text(".verdict").split())
    assert "✓ correct" in page.inner_text(".verdict")

    def mislabel(route):
        answer = route.fetch().json()
        route.fulfill(json={**answer, "gold": {**answer["gold"], "label": "3"}})

    page.route("**/api/inspect", mislabel)
    type_in(page, "[MAX 2 8 ]")
    assert "✗ wrong, true label 3" in page.inner_text(".verdict")
    page.unroute("**/api/inspect")
    page.select_option("#run-A", str(letters_run))
    type_in(page, "a b c")
    assert "correct" not in page.inner_text(".verdict")
    assert "wrong" not in page.inner_text(".verdict")
    assert page.locator(".agreement").count() == 0


def test_the_gold_tree_is_drawn_where_the_tree_is_another(page, address, explorer):
    page.select_option("#run-A", "listops-self-training")
    type_in(page, TEXT)
    trained = explorer.runs["listops-self-training"]
    (sentence,), (inspected,) = read_gold(trained, TEXT).sentences, inspect(trained, TEXT).sequences
    missing = sentence.gold.spans() - inspected.tree.spans()
    assert page.inner_text(".agreement").startswith("Gold constituents: ")
    assert page.locator(".tree .gold").count() == 0
    page.check("#gold-A-0")
    assert page.locator(".tree .gold .node").count() == len(TOKENS) - 1
    assert page.locator(".tree .gold .node.other").count() == len(missing) > 0
    kept = page.url
    page.goto("about:blank")
    page.goto(kept)
    settled(page, TOKENS)
    assert page.is_checked("#gold-A-0")
    page.select_option("#run-A", "listops")
    told(page, "This is the gold tree", "#pane-A .agreement")
    assert page.locator(".tree .gold").count() == 0


def test_the_page_has_the_colours_of_the_palette(page):
    type_in(page, TEXT)
    page.click("#compare")
    settled(page, TOKENS, "B")
    for dark in (False, True):
        page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        for place, name, what in [
            ("body", "ground", "backgroundColor"),
            ("#pane-A .row.e", "e", "fill"),
            ("#pane-A .rest", "e", "fill"),
            ("#pane-A .going", "c", "fill"),
            ("#pane-A .badge", "run-0", "backgroundColor"),
            ("#pane-B .badge", "run-1", "backgroundColor"),
        ]:
            shown = page.locator(place).first.evaluate(f"each => getComputedStyle(each).{what}")
            colour = COLOURS[name][dark]
            assert shown == f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})", place


def test_conflicts_are_marked_in_the_tree_and_told_above_it(page, eager_run):
    type_in(page, TEXT)
    assert page.locator(".node.conflict, .cross, .conflicts").count() == 0
    page.select_option("#run-A", str(eager_run))
    type_in(page, "a b c d")
    told(page, "2 conflicts: 'a' (token 1, step 1), 'b' (token 2, step 1).")
    assert page.locator("#pane-A .node.conflict").count() == page.locator("#pane-A .cross").count() == 2
    said = page.locator("#pane-A .node.conflict title").last.text_content()
    assert said.endswith("; conflict in step 1: a b is lost")
