"""Colours: legible on their pages, and defined once."""

import re
from pathlib import Path

import pytest

from crvnn_core.display.palette import COLOURS, RUNS, css_variables, run_class

ROOT = Path(__file__).parents[2]
SHEETS = [
    ROOT / "plugins/crvnn_explorer/static/style.css",
    ROOT / "crvnn_core/display/templates/page.css",
]


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, two):
    """The contrast ratio of WCAG 2."""
    low, high = sorted(map(luminance, (one, two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_the_page(theme):
    colours = {name: pair[theme] for name, pair in COLOURS.items()}
    for name in ("ink", "muted", "c-text", "accent", "correct", "wrong", "e"):  # letters
        assert contrast(colours[name], colours["surface"]) >= 4.5, name
    for name in ("c", "differs", "share", *map(run_class, range(RUNS))):  # graphics
        assert contrast(colours[name], colours["surface"]) >= 3, name


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
def test_every_colour_that_a_page_uses_is_defined_and_none_of_the_palette_twice(sheet):
    text = sheet.read_text(encoding="utf-8")
    own = set(re.findall(r"(--[\w-]+):", text))
    shared = set(re.findall(r"(--[\w-]+):", css_variables()))
    by_scripts = {"--at", "--part"}
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= own | shared | by_scripts
    assert not own & shared
