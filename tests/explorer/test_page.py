"""The explorer's page, in a real browser."""

import re
from xml.etree import ElementTree

import pytest

import small
from browser import chromium, opened, why_not
from crvnn_core import train
from crvnn_core.inference.inspection import inspect, neighbours
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_explorer.models import MOST_TOKENS, Explorer
from exploring import serving
from small import Averaging

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

TEXT = "[MAX 2 9 [MIN 4 7 ] 0 ]"
TOKENS = TEXT.split()
EVIL = "<img src=x onerror=document.title='owned'> </script> a"


@pytest.fixture(scope="module")
def explorer(letters_run, pairs_run, tmp_path_factory):
    flat = tmp_path_factory.mktemp("flat") / "run"
    train(small.variant("training.steps=2", encoder=Averaging), flat)
    runs = ["listops", "listops-guided", str(letters_run), str(pairs_run), str(flat)]
    return Explorer.load(runs, small.catalog_with(encoder=Averaging))


@pytest.fixture(scope="module")
def address(explorer):
    with serving(explorer) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(address, browser):
    with opened(address, browser=browser) as page:
        page.wait_for_selector("#pane-A .verdict")
        yield page


def type_in(page, text, pane="A", field="#text-1"):
    """Type a text, and wait until the model has answered."""
    page.fill(field, text)
    settled(page, text.split(), pane)


def settled(page, tokens, pane="A", sequence=0):
    """Wait until these tokens are what a pane shows, and its model is not busy."""
    page.wait_for_function(
        """([pane, sequence, tokens]) => {
          const figure = document.querySelectorAll(`#pane-${pane} .sequence`)[sequence];
          const shown = figure && [...figure.querySelectorAll("tbody th")].map((each) => each.textContent);
          const busy = document.querySelector(`#pane-${pane}`)?.getAttribute("aria-busy") === "true";
          return !busy && JSON.stringify(shown) === JSON.stringify(tokens);
        }""",
        arg=[pane, sequence, list(tokens)],
    )


def press(page, key):
    """Press a key where nothing is focused."""
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press(key)


def told(page, words, where="#pane-A"):
    """Wait until these words are to be read."""
    page.wait_for_function(
        "([where, words]) => document.querySelector(where)?.textContent.includes(words)", arg=[where, words]
    )


def numbers(page, pane="A", sequence=0):
    """The table of a step: e before, c and e after of each token."""
    rows = page.locator(f"#pane-{pane} .sequence").nth(sequence).locator("tbody tr")
    return rows.evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(1).map(cell => Number(cell.textContent)))"
    )


def differing(one, two, frame):
    """How many tokens two recursions treat differently in a frame; after its last step one stays as it is."""

    def row(inspected):
        last = len(inspected.compose)
        return inspected.exists[min(frame, last)], inspected.compose[frame] if frame < last else [0.0] * len(
            TOKENS
        )

    pairs = [zip(x, y, strict=True) for x, y in zip(row(one), row(two), strict=True)]
    return sum(any(abs(x - y) > 0.05 for x, y in both) for both in zip(*pairs, strict=True))


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
    assert page.inner_text("#where") == "the end"
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


@pytest.mark.parametrize(
    ("chance", "shown"),
    [
        (1, "100 %"),
        (0.9997, "99.97 %"),
        (0.99999, "99.999 %"),
        (0.995, "99.5 %"),
        (0.42, "42 %"),
        (0.004, "0.4 %"),
    ],
)
def test_what_is_not_certain_is_never_called_100_percent(page, chance, shown):
    assert page.evaluate("async x => (await import('/static/dom.js')).percent(x)", chance) == shown


def test_play_and_pause(page):
    type_in(page, TEXT)
    page.clock.install()
    press(page, "Space")
    assert page.get_attribute("#play", "aria-label") == "Pause"
    page.clock.run_for(1000)
    told(page, "step 2 ", "#where")
    page.click("#play")
    assert page.get_attribute("#play", "aria-label") == "Play"
    before = page.inner_text("#where")
    page.clock.run_for(5000)
    assert page.inner_text("#where") == before


def test_who_is_left_of_whom_is_shown_on_pointing_at_a_token(page):
    type_in(page, TEXT)
    press(page, "Home")
    page.locator(".spot").nth(2).hover()
    page.wait_for_selector(".steps path.left")
    assert page.inner_text(".told") == "9: left of it 2 (1.00); right of it [MIN (1.00)"
    page.locator(".spot").nth(0).focus()
    told(page, "[MAX: left of it the beginning (1.00)", ".told")
    page.keyboard.press("Escape")
    assert page.locator(".steps path.left").count() == 0


def test_neighbours_that_are_kept_stay_through_the_steps_and_in_the_picture(page, explorer, tmp_path):
    type_in(page, TEXT)
    press(page, "Home")
    page.locator(".spot").nth(4).click()
    page.mouse.move(0, 0)
    told(page, "4: left of it [MIN (1.00); right of it 7 (1.00)", ".told")
    for _ in range(2):
        press(page, "ArrowRight")
    trained = explorer.runs["listops"]
    left, _ = neighbours(trained, inspect(trained, TEXT).sequences[0].exists[2])
    assert left[4][3] < 0.99
    told(page, f"4: left of it [MIN ({left[4][3]:.2f})", ".told")
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
    with page.expect_response("**/api/neighbours"):  # another variant's, of the same tokens
        page.select_option("select[data-slot=retriever]", "log-space")
    assert page.get_attribute(".spot >> nth=4", "aria-pressed") == "true"
    page.locator(".spot").nth(4).click()
    page.mouse.move(0, 0)
    assert page.locator(".steps path.left").count() == 0


def test_tokens_can_be_walked_with_the_keyboard(page):
    type_in(page, TEXT)
    press(page, "Home")
    assert page.locator(".spot[tabindex='0']").count() == 1
    page.locator(".scroll").focus()
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


PARTING = """async ([one, two]) => {
  const { compare } = await import("/static/compare.js");
  const sequence = ([exists, compose]) => ({ tokens: exists[0].map(String), exists, compose, tree: null });
  return compare({ sequences: [sequence(one)] }, { sequences: [sequence(two)] }).parting;
}"""


def test_exchanged_part_where_they_first_differ_and_there_the_most(page):
    one = ([[1, 1, 1], [0.1, 1, 1]], [[0.9, 0, 0]])
    sooner = ([[1, 1, 1], [0.1, 0.9, 0.5]], [[0.9, 0.1, 0.5]])
    at_the_end = ([[1, 1, 1], [0.1, 0.9, 1]], [[0.9, 0.02, 0]])
    assert page.evaluate(PARTING, [one, one]) is None
    assert page.evaluate(PARTING, [one, sooner]) == {
        "frame": 0, "place": 2, "gap": 0.5, "row": "compose", "index": 0,
    }  # fmt: skip
    found = page.evaluate(PARTING, [one, at_the_end])
    assert (found["frame"], found["place"], found["row"]) == (1, 1, "exists")


def test_the_tree_changes_while_the_text_is_edited(page, explorer):
    type_in(page, "[MAX 2 9 ]")
    page.click("#text-1")
    page.keyboard.press("End")
    for _ in range(2):
        page.keyboard.press("Backspace")
    page.keyboard.type(" 4 ]")
    settled(page, ["[MAX", "2", "9", "4", "]"])
    assert page.locator(".tree .label").all_text_contents() == ["[MAX", "2", "9", "4", "]"]


def test_two_exchanged_side_by_side_show_where_they_part(page, explorer):
    type_in(page, TEXT)
    page.click("#compare")
    settled(page, TOKENS, "B")
    page.wait_for_selector("#difference:not([hidden])")
    assert page.inner_text("#compare") == "Back to one"  # which can be read while it is pointed at
    colours = "each => [getComputedStyle(each).color, getComputedStyle(each).backgroundColor]"
    assert len(set(page.locator("#compare").evaluate(colours))) == 2
    one, two = (inspect(explorer.runs[name], TEXT) for name in ("listops", "listops-guided"))
    a, b = one.sequences[0], two.sequences[0]
    shared = len(a.tree.spans() & b.tree.spans())
    text = page.inner_text("#difference")
    assert f"The trees share {shared} of {len(TOKENS) - 1} nodes" in text
    first = next(frame for frame in range(len(a.exists)) if differing(a, b, frame))
    assert f"They part in step {first + 1}" in text
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


def test_the_same_run_under_another_retriever_and_a_temperature_turned_live(page, explorer, catalog):
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
    with page.expect_response("**/api/inspect") as caught:
        slider.fill(str(slider.evaluate("each => Number(each.min) + 0.5")))
    answer = caught.value.json()
    asked = caught.value.request.post_data_json
    temperature = asked["settings"]["decision"]["end"]
    assert temperature < 0.1
    assert float(page.get_by_label("end", exact=True).input_value()) == temperature
    assert float(slider.get_attribute("aria-valuetext")) == temperature
    parts = {"retriever": "log-space", "decision": "tempered"}
    changed = exchange_parts(explorer.runs["listops"], catalog, parts, [f"model.decision.end={temperature}"])
    assert answer["sequences"][0]["compose"] == inspect(changed, TEXT).plain()["sequences"][0]["compose"]
    assert "3 changed" in page.inner_text("#pane-B details.parts > summary")
    told(page, "They part in step", "#difference")


def test_hard_decisions_are_zero_or_one(page):
    type_in(page, TEXT)
    press(page, "Home")
    with page.expect_response("**/api/inspect"):
        page.check("#hard-A")
    page.wait_for_selector("#pane-A[aria-busy=false]")
    assert {c for _, c, _ in numbers(page)} == {0, 1}


def test_pictures_can_be_saved_and_stand_alone(page, tmp_path):
    type_in(page, TEXT)
    press(page, "Home")  # the bars need not have come to rest
    for kind in ("tree", "steps"):
        with page.expect_download() as saved:
            page.click(f"[data-save={kind}-svg]")
        path = tmp_path / saved.value.suggested_filename
        saved.value.save_as(path)
        assert path.name == f"crvnn-{kind}-A.svg"
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.find("{http://www.w3.org/2000/svg}desc").text
        texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        assert [text for text in texts if text in TOKENS][: len(TOKENS)] == TOKENS or kind == "steps"
        assert set(TOKENS) <= set(texts)
        written = path.read_text(encoding="utf-8")
        assert "var(" not in written, "a colour of the page's that the file does not have"
        assert not re.search(r"href|url\(|class=|<style|<script", written)
        with page.expect_download() as saved:
            page.click(f"[data-save={kind}-png]")
        saved.value.save_as(tmp_path / "picture.png")
        content = (tmp_path / "picture.png").read_bytes()
        assert content.startswith(b"\x89PNG")
        width = int(root.get("width"))
        assert int.from_bytes(content[16:20], "big") == 2 * width


def test_html_is_shown_and_never_run(page, letters_run, tmp_path):
    type_in(page, TEXT)
    page.select_option("#run-A", str(letters_run))
    type_in(page, EVIL)
    assert page.title() == "crvnn explorer"
    assert page.locator("main img, main script").count() == 0
    assert page.locator(".tree title").all_text_contents()[-len(EVIL.split()) :] == [
        f"{token} (unknown to the model)" if token != "a" else "a" for token in EVIL.split()
    ]
    assert page.locator(".note .unknown").all_text_contents() == EVIL.split()[:-1]
    assert page.get_attribute(".spot >> nth=0", "aria-label").startswith(
        "Token 1, <img, unknown to the model: exists"
    )
    with page.expect_download() as saved:
        page.click("[data-save=tree-svg]")
    saved.value.save_as(tmp_path / "tree.svg")
    ElementTree.parse(tmp_path / "tree.svg")
    assert "<img" not in (tmp_path / "tree.svg").read_text(encoding="utf-8")


def test_a_view_can_be_loaded_again_from_its_address(page, address):
    type_in(page, TEXT)
    page.click("#compare")
    settled(page, TOKENS, "B")
    page.check("#hard-B")
    press(page, "Home")
    press(page, "ArrowRight")
    before = numbers(page), page.inner_text("#where"), page.input_value("#text-1")
    kept = page.url
    page.goto("about:blank")
    page.goto(kept)
    settled(page, TOKENS, "A")
    settled(page, TOKENS, "B")
    page.wait_for_selector("#difference:not([hidden])")
    assert (numbers(page), page.inner_text("#where"), page.input_value("#text-1")) == before
    assert page.is_checked("#hard-B")
    page.goto("about:blank")
    page.goto(address + "#%7Bnonsense")  # is as good as none
    page.wait_for_selector("#pane-A .verdict")


def test_a_pair_has_two_texts_and_two_trees(page, pairs_run):
    page.select_option("#run-A", str(pairs_run))
    page.wait_for_selector("#text-2")
    page.fill("#text-1", "a b")
    page.fill("#text-2", "c d e")
    settled(page, ["a", "b"])
    settled(page, ["c", "d", "e"], sequence=1)
    assert page.locator("svg.tree").count() == 2


def test_an_encoder_without_steps_says_so(page, explorer):
    page.select_option("#run-A", list(explorer.runs)[-1])
    page.fill("#text-1", "a b")
    told(page, "shows no tree and no steps")
    assert page.locator("#pane-A .verdict strong").inner_text() in ("no", "yes")
    assert page.locator("#player").is_hidden()
    assert page.locator("#hard-A").is_hidden()


def test_what_cannot_be_answered_is_told_and_the_last_picture_stays(address, browser, letters_run):
    with opened(address, browser=browser, allowed=["400 (Bad Request)"]) as page:
        page.wait_for_selector("#pane-A .verdict")
        page.select_option("#run-A", str(letters_run))
        type_in(page, "a b c")
        for text, message in [
            ("", "Type a text"),
            (
                "a " * (MOST_TOKENS + 1),
                f"has {MOST_TOKENS + 1} tokens; the explorer takes up to {MOST_TOKENS}",
            ),
        ]:
            page.fill("#text-1", text)
            told(page, message, "#pane-A .error")
            assert page.locator("#pane-A .error").is_visible()
            assert page.inner_text("#count") == f"Up to {MOST_TOKENS} tokens."
            assert page.locator(".tree .label").all_text_contents() == ["a", "b", "c"]
        type_in(page, "a")
        assert page.locator("#pane-A .error").is_hidden()
        assert page.inner_text("#count") == f"1 token, of {MOST_TOKENS} at most."


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_everything_without_scrolling_sideways(address, browser, dark):
    with opened(
        address, browser=browser, width=390, height=844, dark=dark, has_touch=True, is_mobile=True
    ) as page:
        page.wait_for_selector("#pane-A .verdict")
        type_in(page, TEXT)
        page.tap("#compare")
        settled(page, TOKENS, "B")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.locator("#pane-A .spot").nth(2).tap()
        told(page, "9: left of it", "#pane-A .told")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (light == "rgb(15, 20, 26)") == dark


def test_the_longest_text_that_is_taken_is_drawn(page, letters_run):
    page.select_option("#run-A", str(letters_run))
    type_in(page, " ".join("abcdef"[i % 6] for i in range(MOST_TOKENS)))
    assert page.locator(".tree .node").count() == MOST_TOKENS - 1


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("console.error('oh')", "console: oh"),
        ("throw new Error('ah')", "page: ah"),
        ("new Image().src = 'http://elsewhere.invalid/x.png'", "request to http://elsewhere.invalid/x.png"),
    ],
)
def test_whatever_goes_wrong_in_a_page_fails_its_test(browser, script, fault):
    with pytest.raises(AssertionError, match=re.escape(fault)):
        _run(browser, script)


def _run(browser, script):
    with opened(browser=browser) as page:
        page.set_content(f"<script>setTimeout(() => {{ {script} }})</script>")
        page.wait_for_timeout(200)
