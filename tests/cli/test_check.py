"""``crvnn check``: a line for each promise, and exit code 1 if one is broken; ``crvnn new``: a package to check."""

import json
import re

from calling import run
from crvnn_core.testing import CHECKS


def test_check_prints_a_line_a_promise():
    text = run("check", "halting", "threshold").stdout
    assert "kept    The answer is one bool for each sequence." in text
    number = len(CHECKS["halting"])
    assert re.search(rf"halting threshold \(crvnn \S+\): {number} of {number} promises kept\n$", text)
    assert "BROKEN" not in text


def test_check_prints_json_for_machines():
    said = json.loads(run("check", "halting", "never", "--json").stdout)
    outcomes = said["results"]
    assert (said["slot"], said["name"], said["package"].split()[0]) == ("halting", "never", "crvnn")
    assert len(outcomes) == len(CHECKS["halting"])
    assert all(outcome["kept"] and outcome["reason"] == "" for outcome in outcomes)


def test_check_takes_parameters():
    assert "kept" in run("check", "halting", "fixed-depth", "--set", "depth=2").stdout
    text = run("check", "halting", "fixed-depth", "--set", "depht=2", "--set", "depth=deep", code=2).stderr
    assert "--set depht=2: halting 'fixed-depth' has no parameter 'depht'. Did you mean 'depth'?" in text
    assert "--set depth=deep: must be an integer, not 'deep'" in text


def test_check_says_which_promise_is_broken_and_exits_with_1(plugin_file):
    text = run("--plugin", plugin_file, "check", "cell", "forgetful", code=1).stdout
    assert "BROKEN  The parent depends on its left child and on its right child." in text
    assert "        the parent does not depend on its right child" in text
    assert "kept    In evaluation the same input gives the same bits on every call." in text
    assert re.search(rf"cell forgetful \(.+\.py\): \d+ of {len(CHECKS['cell'])} promises kept", text)


def test_check_tells_refused_settings_from_broken_promises():
    text = run("check", "encoder", "lstm", "--set", "dropout=0.5", code=2).stderr
    assert re.search(r"encoder 'lstm' \(crvnn \S+\) refuses these settings: dropout is applied between", text)
    text = run("check", "cell", "gated", "--set", "hidden=-1", code=2).stderr
    assert text == "crvnn: --set hidden=-1: must be at least 0, not -1\n"


def test_check_reports_a_component_that_cannot_be_built_at_all(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(
        "from crvnn_core import Component, hookimpl\n"
        "def build(width: int, x: int = 1):\n    raise RuntimeError('no luck')\n"
        "@hookimpl\ndef crvnn_cells():\n    return [Component('odd', build)]\n"
    )
    text = run("check", "cell", "odd", "--set", "x=2", "--plugin", path, code=1).stdout
    assert "RuntimeError: no luck" in text


def test_a_setting_is_spelt_as_in_a_spec_or_by_its_name_alone():
    for key in ("model.halting.depth", "depth"):
        assert "kept" in run("check", "halting", "fixed-depth", "--set", f"{key}=2").stdout
        wrong = run("check", "halting", "fixed-depth", "--set", f"{key}=0", code=2).stderr
        assert wrong == f"crvnn: --set {key}=0: must be at least 1, not 0\n"
    text = run("check", "halting", "fixed-depth", "--set", "model.cell.hidden=2", code=2).stderr
    assert "only settings of the halting can be set here, as model.halting.depth" in text


def test_new_makes_a_package_beside_where_you_are_or_elsewhere_and_says_what_to_do_next(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run("new", "cell", "my-cell")
    assert (tmp_path / "my-cell" / "pyproject.toml").is_file()
    text = run("new", "cells", "my-cell", "--out", tmp_path / "somewhere").stdout
    assert f"pip install -e {tmp_path / 'somewhere'}\n  crvnn check cell my-cell" in text
    assert (tmp_path / "somewhere" / "my_cell" / "cell.py").is_file()


def test_new_refuses_a_name_that_the_slot_already_has(tmp_path):
    text = run("new", "cell", "lstm", "--out", tmp_path / "lstm", code=2).stderr
    assert "there is a cell called 'lstm' already, from crvnn" in text
    assert not (tmp_path / "lstm").exists()
