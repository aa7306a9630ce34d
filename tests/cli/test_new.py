"""``crvnn new``: where the package goes, and which names are refused."""

from calling import run


def test_new_makes_a_package_and_says_what_to_do_next(tmp_path):
    text = run("new", "cells", "my-cell", "--out", tmp_path / "somewhere").stdout
    assert f"pip install -e {tmp_path / 'somewhere'}\n  crvnn check cell my-cell" in text
    assert (tmp_path / "somewhere" / "my_cell" / "cell.py").is_file()


def test_new_puts_the_package_beside_where_you_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("new", "cell", "my-cell")
    assert (tmp_path / "my-cell" / "pyproject.toml").is_file()


def test_new_refuses_a_name_that_the_slot_already_has(tmp_path):
    text = run("new", "cell", "lstm", "--out", tmp_path / "lstm", code=2).stderr
    assert "there is a cell called 'lstm' already, from crvnn" in text
    assert not (tmp_path / "lstm").exists()
