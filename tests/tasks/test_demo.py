"""``crvnn demo``: the first command of a new user."""

import pytest

from calling import run
from files import contents


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a demo of three steps prints, and where it wrote."""
    out = tmp_path_factory.mktemp("demo") / "runs" / "demo"
    return run("demo", "--steps", 3, "--out", out).stdout, out


def test_it_ends_with_right_answers_a_tree_and_a_page(shown):
    text, out = shown
    asked = text[text.index("3. Asking the model that comes with the package") :]
    assert asked.count("correct") == 4
    assert "wrong" not in asked
    assert "┴" in asked
    assert (out / "report.html").stat().st_size > 10_000
    assert f"{out / 'report.html'}: " in text


def test_its_run_can_be_used(shown):
    _, out = shown
    assert "9" in run("predict", out, "[MAX 2 9 4 ]").stdout


def test_it_works_twice(shown):
    text, out = shown
    again = run("demo", "--steps", 3, "--out", out).stdout
    assert again == text


def test_another_run_in_its_place_is_refused_and_kept(tmp_path):
    quick = [f"--set={key}" for key in ("task.max_tokens=5", "task.rows=64", "model.width=8")]
    run(
        "train", *quick, "--set", "training.epochs=0", "--set", "training.steps=1", "--out", tmp_path / "mine"
    )
    before = contents(tmp_path / "mine")
    assert "holds a run already" in run("demo", "--out", tmp_path / "mine", code=2).stderr
    assert contents(tmp_path / "mine") == before
