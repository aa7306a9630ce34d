"""``crvnn demo``: the first command of a new user."""

import pytest

from calling import run
from files import contents


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a demo of one step a stage prints, and where it wrote."""
    out = tmp_path_factory.mktemp("demo") / "runs" / "demo"
    return run("demo", "--steps", 1, "--out", out).stdout, out


def test_it_ends_with_right_answers_a_tree_and_a_page(shown):
    text, out = shown
    asked = text[text.index("3. Asking the model that comes with the package") :]
    assert asked.count("correct") == 4
    assert "wrong" not in asked
    assert "┴" in asked
    assert (out / "report.html").stat().st_size > 10_000
    assert f"{out / 'report.html'}: " in text


def test_its_run_can_be_used_and_it_works_twice(shown):
    text, out = shown
    assert "9" in run("predict", out, "[MAX 2 9 4 ]").stdout
    assert run("demo", "--steps", 1, "--out", out).stdout == text


def test_another_run_in_its_place_is_refused_and_kept(tmp_path):
    (tmp_path / "spec.toml").write_text('[task]\nname = "listops"\n')
    before = contents(tmp_path)
    assert "holds a run already" in run("demo", "--out", tmp_path, code=2).stderr
    assert contents(tmp_path) == before
