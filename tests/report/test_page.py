"""The page: one file that needs nothing else, whatever is in the data."""

import base64
import hashlib
import re
import shutil

import pytest

import small
from crvnn_core import Example
from crvnn_core.training.trainer import train
from reporting import Outline, page_of, report
from small import Letters

EVIL = '<img src=x onerror="alert(1)">'
QUOTES = '"\'onload=\'alert(4)\'"onload="alert(4)"'


def test_the_page_has_every_section(both):
    outline, _ = both
    parts = ["overview", "differences", "learning", "groups", "depth", "confusion", "examples", "spec"]
    assert [element[1]["id"] for element in outline.all("section")] == parts
    assert [element[1]["href"] for element in outline.all("a")] == [f"#{part}" for part in parts[1:]]


def test_the_page_needs_nothing_else(both):
    outline, text = both
    assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)\w", text)
    assert not re.search(r"@import|url\(", text)
    assert not [
        e for e in outline.found if e[0] in ("link", "img", "iframe", "object", "embed") or "src" in e[1]
    ]
    (script,) = outline.all("script")
    digest = base64.b64encode(hashlib.sha256(script[2].encode()).digest()).decode()
    (policy,) = outline.all("meta", **{"http-equiv": "Content-Security-Policy"})
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert policy[1]["content"] == allowed


def test_every_picture_says_what_it_shows(both):
    outline, text = both
    pictures = outline.all("svg")
    assert len(pictures) > 20
    assert all(element[1].get("role") == "img" for element in pictures)
    starts = re.findall(r"<svg[^>]*>\s*<title>([^<]+)</title>\s*<desc>([^<]+)</desc>", text)
    assert len(starts) == len(pictures)


def test_every_table_has_a_caption_and_its_heads_a_scope(both):
    outline, _ = both
    assert len(outline.all("table")) == len(outline.all("caption")) > 3
    assert all(element[1].get("scope") in ("row", "col") for element in outline.all("th"))


def test_one_run_needs_no_differences(small_catalog, letters_run):
    outline = report(small_catalog, letters_run)
    assert not outline.all("section", id="differences")
    assert f"{letters_run.name} on letters" in outline.all("h1")[0][2]


def test_seeds_of_one_variant_are_shown_together(small_catalog, letters_run, tmp_path):
    for seed in (0, 1):
        shutil.copytree(letters_run, tmp_path / f"group/seed-{seed}")
        spec = tmp_path / f"group/seed-{seed}/spec.toml"
        spec.write_text(spec.read_text().replace("seed = 0\n", f"seed = {seed}\n", 1))
    shutil.copy(letters_run / "spec.toml", tmp_path / "group/seeds.toml")
    outline = report(small_catalog, tmp_path / "group")
    assert outline.all("article", **{"class": "card run-0"})[0][2].startswith("group")
    assert "± 0.0" in outline.section("overview")
    assert "2 runs" in outline.all("h1")[0][2]
    assert "Of several seeds, the first is used." in outline.section("depth")


class Evil(Letters):
    """Letters, and markup for tokens and classes."""

    vocabulary = ("a", "b", "c", "d", "e", "f", EVIL)
    classes = ("</svg><script>alert(2)</script>", "&amp; yes")

    def examples(self, split, seed):
        for example in super().examples(split, seed):
            yield Example(((EVIL, QUOTES, "</title>", "\u202e\x00", *example.sequences[0]),), example.label)

    def tokenize(self, text):  # one token has spaces itself
        return tuple(EVIL if part == "EVIL" else part for part in text.replace(EVIL, "EVIL").split(" "))


@pytest.fixture(scope="session")
def evil_page(tmp_path_factory):
    """A page about a run whose tokens, classes and name are markup."""
    path = tmp_path_factory.mktemp("evil") / "<script>alert(3)<"
    train(small.variant("task=mine", "training.steps=4", "training.evaluate_every=2", task=Evil), path)
    catalog = small.catalog_with(task=Evil)
    return page_of(catalog, path, texts=[f"a {EVIL} <!-- b"])


def test_markup_in_tokens_classes_and_names_is_shown_and_never_run(evil_page):
    outline = Outline(evil_page)
    assert len(outline.all("script")) == 1
    assert outline.all("img") == []
    assert not [e for e in outline.found if any(name.startswith("on") for name in e[1])]
    assert f"{EVIL} {QUOTES} </title> " in outline.section("examples")  # from the data
    assert f"a {EVIL} <!-- b" in outline.section("examples")  # from the user
    assert "</svg><script>alert(2)</script>" in outline.section("confusion")
    assert "<script>alert(3)<" in outline.all("h1")[0][2]


def test_invisible_characters_are_replaced(evil_page):
    assert "\u202e" not in evil_page
    assert "\x00" not in evil_page


def test_quotes_in_tokens_do_not_end_an_attribute(evil_page):
    attributes = [element[1] for element in Outline(evil_page).found]
    assert QUOTES in [each["data-token"] for each in attributes if "data-token" in each]
    assert not [each for each in attributes if "onload" in each]
