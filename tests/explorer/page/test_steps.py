"""Stepping through a recursion in the explorer's page, in a real browser."""

from xml.etree import ElementTree

import pytest

from crvnn_core.inference.inspection import inspect, neighbours
from explorer_page import TEXT, TOKENS, numbers, press, settled, told, type_in


def shown(inspected, step):
    """What the table should say."""
    return [
        pytest.approx([e, c, e * (1 - c)], abs=6e-4)
        for e, c in zip(inspected.exists[step], inspected.compose[step], strict=True)
    ]


def test_type_a_sequence_and_step_through_it(page, explorer):
    answer = inspect(explorer.runs["listops"], TEXT)
    (inspected,) = answer.sequences
    steps = len(inspected.compose)
    type_in(page, TEXT)
    assert page.inner_text("#pane-A .verdict strong") == answer.label
    assert page.locator("#pane-A .bars li").count() == 10
    assert page.inner_text("#pane-A .bars .best .name") == answer.label
    assert page.locator(".tree .label").all_text_contents() == TOKENS
    assert page.locator(".tree .node").count() == len(TOKENS) - 1
    press(page, "Home")
    for step in range(steps):
        assert page.inner_text("#where") == f"step {step + 1} of {steps}"
        assert numbers(page) == shown(inspected, step)
        made = {node.span for node in inspected.tree.nodes if node.step == step + 1}
        assert page.locator(".tree .node.now").count() == len(made)
        press(page, "ArrowRight")
    assert page.inner_text("#where") == "the end"
    assert page.locator(".tree .node.made").count() == len(TOKENS) - 1
    page.click("#back")
    assert page.inner_text("#where") == f"step {steps} of {steps}"
    page.locator("#scrub").fill("1")
    assert numbers(page) == shown(inspected, 1)
    page.locator(".steps .hit").nth(3).click()
    assert page.inner_text("#where") == f"step 4 of {steps}"
    with page.expect_response("**/api/inspect"):
        page.check("#hard-A")
    page.wait_for_selector("#pane-A[aria-busy=false]")
    page.locator("#scrub").fill("0")
    assert {c for _, c, _ in numbers(page)} == {0, 1}


def test_play_and_pause(page):
    type_in(page, TEXT)
    page.clock.install(time=0)
    page.clock.pause_at(60)
    press(page, "Space")
    assert page.get_attribute("#play", "aria-label") == "Pause"
    assert page.inner_text("#where").startswith("step 1 ")  # where nobody has chosen one
    page.clock.run_for(1000)
    told(page, "step 2 ", "#where")
    page.click("#play")
    assert page.get_attribute("#play", "aria-label") == "Play"
    page.clock.run_for(5000)
    assert page.inner_text("#where").startswith("step 2 ")
    press(page, "ArrowRight")
    press(page, "Space")
    assert page.inner_text("#where").startswith("step 3 ")


def test_hovering_over_a_token_shows_its_neighbours(page):
    type_in(page, TEXT)
    press(page, "Home")
    page.locator(".spot").nth(2).hover()
    page.wait_for_selector(".steps path.left")
    assert page.inner_text(".told") == "9: left of it 2 (1.00); right of it [MIN (1.00)"
    page.locator(".spot").nth(0).focus()
    told(page, "[MAX: left of it the beginning (1.00)", ".told")
    page.keyboard.press("Escape")
    assert page.locator(".steps path.left").count() == 0


def test_pinned_neighbours_stay_through_the_steps_and_in_the_picture(page, explorer, tmp_path):
    type_in(page, TEXT)
    press(page, "Home")
    page.locator(".spot").nth(4).click()
    page.mouse.move(0, 0)
    told(page, "4: left of it [MIN (1.00); right of it 7 (1.00)", ".told")
    for _ in range(2):
        press(page, "ArrowRight")
    trained = explorer.runs["listops"]
    left, _ = neighbours(trained, inspect(trained, TEXT).sequences[0].exists[2])
    nearest = max(range(len(TEXT.split())), key=lambda place: left[4][place])
    assert nearest != 3  # [MIN has been composed by then
    told(page, f"4: left of it {TEXT.split()[nearest]} ({left[4][nearest]:.2f})", ".told")
    with page.expect_download() as saved:
        page.click("[data-save=steps-svg]")
    saved.value.save_as(tmp_path / "steps.svg")
    weights = page.locator(".steps .weight").all_text_contents()
    texts = [
        each.text
        for each in ElementTree.parse(tmp_path / "steps.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert weights
    assert texts[1 : len(weights) + 1] == weights
    with page.expect_response("**/api/neighbours/**"):  # another variant's, of the same tokens
        page.select_option("select[data-slot=retriever]", "log-space")
    assert page.get_attribute(".spot >> nth=4", "aria-pressed") == "true"
    page.locator(".spot").nth(4).click()
    page.mouse.move(0, 0)
    assert page.locator(".steps path.left").count() == 0


def test_tokens_can_be_navigated_with_the_keyboard(page):
    page.select_option(
        "#run-A", "listops-self-training"
    )  # its tree is not the gold tree, which can be asked for
    type_in(page, TEXT)
    press(page, "Home")
    assert page.locator(".spot[tabindex='0']").count() == 1
    page.locator("#gold-A-0").focus()
    page.keyboard.press("Tab")
    told(page, "[MAX: left of it", ".told")
    page.keyboard.press("ArrowRight")
    told(page, "2: left of it [MAX (1.00); right of it 9 (1.00)", ".told")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#where").startswith("step 2 ")
    page.keyboard.press("End")
    told(page, "]: left of it", ".told")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert page.locator(".steps path.left").count() > 0
    page.keyboard.press("Escape")
    assert page.locator(".steps path.left").count() == 0


def test_the_tree_changes_while_the_text_is_edited(page, explorer):
    type_in(page, "[MAX 2 9 ]")
    page.click("#text-1")
    page.keyboard.press("End")
    for _ in range(2):
        page.keyboard.press("Backspace")
    page.keyboard.type(" 4 ]")
    settled(page, ["[MAX", "2", "9", "4", "]"])
    assert page.locator(".tree .label").all_text_contents() == ["[MAX", "2", "9", "4", "]"]
