"""The explorer's page as a document: saved pictures, addresses, errors, small screens, in a real browser."""

import re
from xml.etree import ElementTree

import pytest

from browser import opened
from crvnn_explorer.models import MOST_TOKENS
from explorer_page import TEXT, TOKENS, numbers, press, settled, told, type_in

EVIL = "<img src=x onerror=document.title='owned'> </script> a"


def test_saved_pictures_are_self_contained(page, tmp_path):
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


def test_html_is_shown_and_never_executed(page, letters_run, tmp_path):
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


def test_an_error_is_shown_and_the_last_picture_stays(address, browser, letters_run):
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


def test_the_longest_text_that_is_accepted_is_drawn(page, letters_run):
    page.select_option("#run-A", str(letters_run))
    type_in(page, " ".join("abcdef"[i % 6] for i in range(MOST_TOKENS)))
    assert page.locator(".tree .node").count() == MOST_TOKENS - 1


def test_errors_and_foreign_requests_of_a_page_fail_its_test(browser):
    scripts = {
        "console.error('oh')": "console: oh",
        "throw new Error('ah')": "page: ah",
        "new Image().src = 'http://elsewhere.invalid/x.png'": "request to http://elsewhere.invalid/x.png",
    }
    content = "".join(f"<script>setTimeout(() => {{ {script} }})</script>" for script in scripts)
    with pytest.raises(AssertionError) as failed:
        _open(browser, content)
    assert all(fault in str(failed.value) for fault in scripts.values())


def _open(browser, content):
    with opened(browser=browser) as page:
        page.set_content(content)
        page.wait_for_timeout(200)
