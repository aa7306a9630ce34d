"""The report in a browser: from disk, without a network, at every width, in light and dark."""

import pytest

from browser import chromium, opened
from reporting import page_of

TEXT = "a b c d e f a b c d e f a b c d"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(small_catalog, letters_run, tmp_path_factory):
    """A page on disk."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of(small_catalog, letters_run, texts=[TEXT]), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_from_disk_without_a_network_and_fits(address, browser, width):
    with opened(browser=browser, width=width, offline=True) as shown:
        requests = []
        shown.on("request", lambda request: requests.append(request.url))
        shown.goto(address)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert requests == [address]
        stop = "0" if width < 640 else "-1"  # of the tab key, where the tree has to be scrolled
        shown.locator(".tree").first.and_(shown.locator(f"[tabindex='{stop}']")).wait_for()
        for dark in (False, True):
            shown.emulate_media(color_scheme="dark" if dark else "light")
            colour = shown.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, colour[4:-1].split(","))) < 380) == dark
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
        shown.locator("#examples .matrix g").first.hover()
        assert shown.locator("#tip").inner_text() == "a, step start: e = 1.000"
        shown.locator("h1").hover()
        assert shown.locator("#tip").is_hidden()


def test_everything_is_there_without_scripts(address, browser):
    with opened(address, browser=browser, offline=True, java_script_enabled=False) as shown:
        assert shown.locator("#examples svg.crvnn-tree").first.is_visible()
        assert shown.locator("#learning svg.chart").count() == 4


def test_on_paper_everything_is_open_and_nothing_is_cut_off(address, browser):
    with opened(address, browser=browser, width=700, dark=True, offline=True) as shown:
        shown.evaluate("dispatchEvent(new Event('beforeprint'))")
        shown.emulate_media(media="print", color_scheme="light")
        assert shown.locator("details:not([open])").count() == 0
        assert shown.locator("nav").is_hidden()
        assert shown.evaluate("document.documentElement.scrollWidth") <= 700
        shown.evaluate("dispatchEvent(new Event('afterprint'))")
        assert shown.locator("details:not([open])").count() > 0
        assert len(shown.pdf()) > 10_000


def test_on_a_phone_the_answers_of_two_models_are_tabs(
    small_catalog, letters_run, variant_run, browser, tmp_path
):
    path = tmp_path / "report.html"
    path.write_text(page_of(small_catalog, letters_run, variant_run, texts=[TEXT]), encoding="utf-8")
    with opened(path.as_uri(), browser=browser, width=390, height=844, offline=True) as shown:
        first, second = (shown.locator("#examples .columns").first.locator(".column").nth(i) for i in (0, 1))
        assert (first.is_visible(), second.is_visible()) == (True, False)
        shown.locator("#examples [role=tab]").nth(1).click()
        assert (first.is_visible(), second.is_visible()) == (False, True)
        assert shown.evaluate("document.documentElement.scrollWidth") <= 390
        shown.set_viewport_size({"width": 1366, "height": 850})
        assert first.is_visible()
        assert second.is_visible()
        assert shown.locator("#examples .tabs").first.is_hidden()
        shown.emulate_media(media="print")
        assert first.is_visible()
