"""Debian's Chromium for tests of pages; where it or Playwright is missing, such a test is skipped and says why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

import pytest

#: Where a system keeps it.
NAMES = ("chromium", "chromium-browser", "google-chrome")


def why_not() -> str:
    """Why no page can be opened here; empty if one can."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed: pip install -e '.[dev]' does that"
    if not any(map(shutil.which, NAMES)):
        return "there is no Chromium: 'apt install chromium' installs it"
    return ""


@contextmanager
def chromium() -> Iterator:
    """A browser, for several pages."""
    if reason := why_not():
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(url="", *, browser=None, width=1280, height=900, dark=False, allowed=(), **options) -> Iterator:
    """A page of a browser, gone to ``url`` if one is given.

    At the end there must have been no error on the console or in the page, and no request to another host than this
    machine's.

    :param browser: of ``chromium``; without it the page has one of its own.
    :param allowed: texts of console errors that a test provokes.
    :param options: of Playwright's ``new_context``.
    """
    faults: list[str] = []

    def note(message):
        if message.type in ("error", "warning") and not any(text in message.text for text in allowed):
            faults.append(f"console: {message.text}")

    def check(request):
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1":
            faults.append(f"request to {request.url}")

    with nullcontext(browser) if browser is not None else chromium() as used:
        context = used.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options
        )
        try:
            context.set_default_timeout(15_000)
            page = context.new_page()
            page.on("console", note)
            page.on("pageerror", lambda error: faults.append(f"page: {error}"))
            page.on("request", check)
            if url:
                page.goto(url)
            yield page
        finally:
            context.close()
    assert not faults, "\n".join(faults)
