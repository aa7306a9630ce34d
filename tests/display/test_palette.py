"""Colours: legible on their pages, distinguishable without seeing red, green or blue, and defined once."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from crvnn_core.display.palette import COLOURS, RUNS, css_variables, run_class

ROOT = Path(__file__).parents[1]
SHEETS = [
    ROOT / "plugins/crvnn_explorer/static/style.css",
    ROOT / "plugins/crvnn_report/templates/page.css",
]
#: What the receptors that are left make of linear RGB (Machado, Oliveira and Fernandes, 2009).
VISION = {
    "usual": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.412, 0.358, 0.180], [0.213, 0.715, 0.072], [0.019, 0.119, 0.950]])
THEMES = {"light": 0, "dark": 1}


def linear(colour):
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one, two):
    """The contrast ratio of WCAG 2."""
    low, high = sorted(TO_XYZ[1] @ linear(each) for each in (one, two))
    return (high + 0.05) / (low + 0.05)


def lab(rgb):
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least_distance(one, two):
    """How far apart two colours are in CIELAB, to those who tell them apart worst."""
    return min(
        np.linalg.norm(lab(np.array(vision) @ linear(one)) - lab(np.array(vision) @ linear(two)))
        for vision in VISION.values()
    )


def test_red_and_green_of_equal_lightness_are_found_to_be_alike():
    assert least_distance("#b04a3a", "#6f7a1e") < 12 < least_distance("#000000", "#ffffff")


@pytest.mark.parametrize("theme", THEMES)
def test_colours_can_be_told_apart_by_colour_blind_people(theme):
    colours = {name: pair[THEMES[theme]] for name, pair in COLOURS.items()}
    runs = [colours[run_class(number)] for number in range(RUNS)]
    assert least_distance(colours["e"], colours["c"]) > 50
    assert min(least_distance(*pair) for pair in combinations(runs[:4], 2)) > 20
    assert min(least_distance(*pair) for pair in combinations(runs, 2)) > 10
    assert not {colours["e"], colours["c"]} & set(runs)


@pytest.mark.parametrize("theme", THEMES)
def test_colours_stand_out_from_the_page(theme):
    colours = {name: pair[THEMES[theme]] for name, pair in COLOURS.items()}
    for name in ("ink", "muted", "c-text", "accent", "correct", "wrong", "e"):  # letters
        assert contrast(colours[name], colours["surface"]) >= 4.5, name
    for name in ("c", "differs", "share", *map(run_class, range(RUNS))):  # graphics
        assert contrast(colours[name], colours["surface"]) >= 3, name


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.parts[-3])
def test_every_colour_that_a_page_uses_is_defined_and_none_of_the_palette_twice(sheet):
    text = sheet.read_text(encoding="utf-8")
    own = set(re.findall(r"(--[\w-]+):", text))
    shared = set(re.findall(r"(--[\w-]+):", css_variables()))
    by_scripts = {"--at", "--part"}
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= own | shared | by_scripts
    assert not own & shared
