"""``crvnn report``."""

import re
from pathlib import Path

from calling import run
from crvnn_core.inference.trained import load
from reporting import Outline
from small import PLUGIN


def test_the_command_writes_the_page_and_says_so(letters_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("report", letters_run, "--plugin", PLUGIN, "--examples", 10, "--trees", 2, "--split", "dev")
    assert re.match(r"report\.html: \d+ kB, ", result.stdout)
    text = Path("report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "10 of the 20 examples of dev." in text
    assert text.count('<article class="example">') == 2
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_leaves_nothing_behind(letters_run, tmp_path):
    (tmp_path / "file").write_text("")
    said = run(
        "report", letters_run, "--plugin", PLUGIN, "--out", tmp_path / "file" / "a.html", code=2
    ).stderr
    assert "cannot be written" in said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_split_or_a_setting_that_no_task_has_is_a_mistake(letters_run, tmp_path):
    out = tmp_path / "report.html"
    for option, value, said in (
        ("--split", "tset", "Did you mean 'test'?"),
        ("--set", "task.longets=3", "--set task.longets=3"),
        ("--set", "model.width=3", "--set model.width=3"),
    ):
        args = ("report", letters_run, option, value, "--out", out, "--plugin", PLUGIN)
        assert said in run(*args, code=2).stderr
        assert not out.exists()


def test_an_installed_model_is_reported_on_by_its_name(tmp_path):
    out = tmp_path / "listops.html"
    run("report", "listops-guided", "--examples", 30, "--trees", 3, "--out", out)
    outline = Outline(out.read_text(encoding="utf-8"))
    assert "99.95%" in outline.section("overview")
    assert "30 of the 2,000 examples of test." in outline.section("confusion")


def test_of_several_seeds_the_best_predicts_and_is_named(seeds_run, small_catalog, tmp_path):
    out = tmp_path / "report.html"
    best = load(seeds_run, small_catalog).directory.path.name
    assert best != "seed-3"  # or the first would do
    args = ("--examples", 4, "--trees", 1, "--split", "dev", "--out", out, "--plugin", PLUGIN)
    said = f"those of {seeds_run}/{best}, the best of 3 seeds on the development split."
    assert said in run("report", seeds_run, *args).stderr
    assert said in out.read_text(encoding="utf-8")
