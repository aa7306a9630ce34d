"""Every section has a module, a template and its place on the page."""

import re
from importlib.resources import files

from crvnn_report.sections import SECTIONS


def test_what_differs_is_shown_and_marked_in_the_whole(both):
    outline, _ = both
    assert "model.cellgatedlstm" in outline.section("differences")
    assert "6 more settings, which only some of them have" in outline.section("differences")
    marked = [element[2] for element in outline.all("tr", **{"class": "marked"})]
    assert "model.cellgatedlstm" in marked
    assert not any("model.width" in each for each in marked)
    assert "model.width" in outline.section("spec")
    assert "torch" in outline.section("spec")


def test_curves_groups_and_depth_are_drawn_for_both(both):
    outline, text = both
    titles = [element[2] for element in outline.all("title")]
    for wanted in ("Loss during training", "Accuracy, % during training", "Accuracy, % by group of test"):
        assert wanted in titles
    assert any("development at step 10: " in title for title in titles)
    assert len(re.findall(r"Depth of the recursion against length", text)) == 2
    assert len(re.findall(r"<title>Confusion matrix of ", text)) == 2


def test_modules_templates_and_the_list_of_sections_agree():
    package = files("crvnn_report")
    names = sorted(section.name for section in SECTIONS)
    modules = {path.name for path in package.joinpath("sections").iterdir() if path.name.endswith(".py")}
    templates = {path.name for path in package.joinpath("templates/sections").iterdir()}
    assert sorted(modules - {"__init__.py"}) == [f"{name}.py" for name in names]
    assert sorted(templates - {"section.html.jinja"}) == [f"{name}.html.jinja" for name in names]
