"""Takes docs/images/explorer-*.png and report-*.png with Chromium. ``make screenshots`` calls this."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
CRVNN = Path(sys.executable).parent / "crvnn"
TEXT = "[MAX 2 9 [MIN 4 7 ] 0 ]"
LONGER = "[SM 5 [MAX 2 9 [MIN 4 7 ] 0 ] 3 ]"
DESKTOP, TALL, PHONE = (1366, 850), (1366, 1240), (390, 844)


def main() -> None:
    """Take every picture."""
    with browser() as chromium:
        explorer_pictures(chromium)
        report_pictures(chromium)


def explorer_pictures(chromium: Browser) -> None:
    """The explorer with one model, with two, in the dark and on a phone."""
    with exploring("listops", "listops-self-training") as address:
        one_model(chromium, address)
        two_models(chromium, address, "explorer-compare")
        two_models(chromium, address, "explorer-dark", color_scheme="dark")
        one_on_a_phone(chromium, address)
        two_on_a_phone(chromium, address)


def report_pictures(chromium: Browser) -> None:
    """A report on two models: its beginning, its trees in the dark, and its trees on a phone."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.html")
        options = ["--text", TEXT, "--out", str(report)]
        subprocess.run([CRVNN, "report", "listops", "listops-self-training", *options], check=True)
        keep(opened(chromium, report.as_uri(), TALL), "report-desktop")
        page = opened(chromium, report.as_uri(), TALL, color_scheme="dark")
        scroll(page, "#examples h2")
        keep(page, "report-trees")
        page = opened(chromium, report.as_uri(), PHONE, is_mobile=True, device_scale_factor=2)
        scroll(page, "#examples h3")
        keep(page, "report-phone")


@contextmanager
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("There is no Chromium: 'apt install chromium' installs it.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def exploring(*runs: str) -> Iterator[str]:
    """The address of an explorer that is up until the end of the block."""
    command = [CRVNN, "explore", *runs, "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            sys.exit("The explorer did not start.")
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def opened(chromium: Browser, address: str, size: tuple[int, int], **options: Any) -> Page:
    """A page in a window of its own."""
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    page = context.new_page()
    page.goto(address)
    return page


def ask(page: Page, text: str) -> None:
    """Type a text and wait for the answer."""
    page.wait_for_selector("#pane-A .verdict")
    with page.expect_response("**/api/inspect"):
        page.fill("#text-1", text)
    page.wait_for_selector("#pane-A[aria-busy=false]")


def one_model(chromium: Browser, address: str) -> None:
    """In the middle of its recursion, with the neighbours of a token."""
    page = opened(chromium, address, DESKTOP)
    ask(page, LONGER)
    page.locator(".spot").nth(6).hover()
    page.wait_for_selector(".steps path.left")
    keep(page, "explorer-desktop")


def two_models(chromium: Browser, address: str, name: str, **options: Any) -> None:
    """Side by side; the second with the gold tree, which it does not build."""
    page = opened(chromium, address, TALL, **options)
    ask(page, TEXT)
    page.click("#compare")
    page.check("#gold-B-0")
    page.mouse.move(0, 0)
    keep(page, name)


def one_on_a_phone(chromium: Browser, address: str) -> None:
    """The picture itself, which lies below the text."""
    page = on_a_phone(chromium, address)
    page.evaluate("() => document.querySelector('.pane').scrollIntoView()")
    keep(page, "explorer-phone")


def two_on_a_phone(chromium: Browser, address: str) -> None:
    """The second of two variants, which are tabs."""
    page = on_a_phone(chromium, address)
    page.tap("#compare")
    page.wait_for_selector("#difference:not([hidden])")
    page.tap("#tab-B")
    keep(page, "explorer-phone-tabs")


def on_a_phone(chromium: Browser, address: str) -> Page:
    """The page on a phone, with a text."""
    page = opened(chromium, address, PHONE, is_mobile=True, has_touch=True, device_scale_factor=2)
    ask(page, TEXT)
    return page


def scroll(page: Page, selector: str) -> None:
    """Bring an element to the top, below the page's own bar."""
    page.evaluate(
        "selector => window.scrollBy(0, document.querySelector(selector).getBoundingClientRect().top - 64)",
        selector,
    )


def keep(page: Page, name: str) -> None:
    """Save what the window shows, when everything has come to rest."""
    page.evaluate("() => document.activeElement.blur()")
    page.wait_for_timeout(600)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=str(path))
    page.context.close()
    print(f"wrote {path.relative_to(IMAGES.parent.parent)} ({path.stat().st_size // 1024} kB)")


if __name__ == "__main__":
    main()
