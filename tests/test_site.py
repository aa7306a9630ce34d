"""The documentation as a site: all pages are in its navigation, links lead somewhere, nothing is loaded from afar."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import crvnn
import crvnn_core
from browser import opened

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NEEDED = ("mkdocs", "material", "mkdocstrings")
#: Attributes whose addresses a browser loads, rather than follows.
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("source", "srcset"), ("iframe", "src")}


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("site_pages", DOCS / "site" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(nav):
    """The files of a navigation."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from [below] if isinstance(below, str) else leaves(below)


def test_every_page_is_in_the_navigation_once(pages):
    found = list(leaves(pages.navigation()))
    written = [path.relative_to(DOCS) for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}")]
    expected = {path.with_suffix(".md").as_posix() for path in written}
    community = {pages.COMMUNITY[path.name] for path in ROOT.glob("*.md") if path.name in pages.COMMUNITY}
    api = {name for name in found if name.startswith("api/")}
    assert len(api) >= len(pages.API)
    assert len(set(found)) == len(found)
    assert set(found) == expected | community | api


def test_every_public_name_is_on_a_page_of_the_api_reference(pages):
    for package in (crvnn, crvnn_core):
        assert list(pages.public_names(package.__name__)) == package.__all__
    assert {pages.page_of(home) for home in pages.public_names("crvnn_core").values()} == set(pages.API)
    assert pages.page_of(pages.public_names("crvnn")["CRvNN"]) == "crvnn"


def test_a_notebook_becomes_a_page_with_its_outputs(pages, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "1 + 1",
            "outputs": [
                {"output_type": "stream", "text": ["a < b\n"]},
                {
                    "output_type": "execute_result",
                    "data": {"text/html": "<p>x</p>\n\n<p>y</p>", "text/plain": "x"},
                },
                {"output_type": "display_data", "data": {"image/png": "AAAA\n"}},
            ],
        },
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(pages.json.dumps({"cells": cells}), encoding="utf-8")
    assert list(pages.notebook(path)) == [
        "# Title\ntext",
        "```python\n1 + 1\n```",
        '<div class="output"><pre>a &lt; b\n</pre></div>',
        '<div class="output"><p>x</p>\n<p>y</p></div>',
        '<div class="output"><img alt="" src="data:image/png;base64,AAAA"></div>',
    ]  # fmt: skip


def test_the_citation_names_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


class Links(HTMLParser):
    """The addresses of a page that are loaded, those that are followed, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.followed, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif (tag, name) in LOADED and value:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.followed.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as ``make docs-site`` does."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: pip install -e '.[docs]' does that")
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", target],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return target


def test_every_link_of_the_site_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    found = {
        path: Links(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if path.name != "404.html"
    }
    assert len(found) > 50
    faults = []
    for page, links in found.items():
        for address in links.loaded + links.followed:
            parts = urlsplit(address)
            if parts.scheme in ("data", "mailto") or (parts.scheme and address in links.followed):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            known = target in found and (
                not parts.fragment or unquote(parts.fragment) in found[target].anchors
            )
            if parts.scheme or not (known or (target not in found and target.is_file())):
                faults.append(f"{page.relative_to(site)}: {address}")
    assert faults == []


def test_the_api_reference_shows_what_attrs_classes_are_made_of(site):
    text = re.sub(r"<[^>]+>", "", (site / "api" / "training.html").read_text(encoding="utf-8"))
    assert re.search(r"Outcome\(\s*step: int,\s*best_step: int,", text)
    assert "Why it ended before its last step, if it did" in text


@pytest.mark.parametrize(("width", "dark"), [(1366, False), (390, True)])
def test_the_site_opens_from_disk_and_can_be_searched(site, width, dark):
    with opened((site / "index.html").as_uri(), width=width, dark=dark, offline=True) as page:
        assert page.title() == "crvnn"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("s")
        page.keyboard.type("halting")
        page.wait_for_selector(".md-search-result__link >> text=Write a halting")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", light)[:3])) < 380) == dark
