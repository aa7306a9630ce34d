"""``crvnn list``."""

import json
import re

import pytest

from calling import run


def test_list_shows_every_component_and_where_it_comes_from(catalog):
    text = run("list").stdout
    for slot, offers in catalog.components.items():
        for name, offer in offers.items():
            assert re.search(
                rf"^{slot} +{name} +.*{re.escape(offer.component.summary)} +{offer.source}",
                text,
                re.MULTILINE,
            )
    for name in catalog.presets:
        assert re.search(rf"^preset +{name} ", text, re.MULTILINE)


@pytest.mark.parametrize("slot", ["cell", "observer"])
def test_list_takes_a_slot_in_singular_and_plural(slot, catalog):
    facts = json.loads(run("list", slot, "--json").stdout)
    assert facts == json.loads(run("list", f"{slot}s".upper(), "--json").stdout)
    assert [c["name"] for c in facts["components"]] == list(catalog.components[slot])
    assert {c["slot"] for c in facts["components"]} == {slot}
    assert facts["broken"] == []


@pytest.mark.parametrize("command", [["list"], ["list", "x"], ["check", "x"], ["new", "x"]], ids=" ".join)
def test_an_unknown_slot_is_an_error_that_knows_the_nearest(command):
    name, *rest = command
    result = run(name, "retreiver", *rest, code=2)
    assert result.stderr.startswith(
        "crvnn: no slot is called 'retreiver'. Did you mean 'retriever'?\nSlots: retriever,"
    )


def test_a_name_in_the_place_of_its_slot_is_told_the_way():
    said = run("list", "listops", code=2).stderr
    assert said.startswith(
        "crvnn: 'listops' is no slot, but a task and a spec and a model: 'crvnn list task listops', "
    )


def test_a_name_explains_parameters_contract_and_origin():
    text = run("list", "cells", "gated").stdout
    assert "cell gated: the paper's gated recursive cell" in text
    assert re.search(r"from crvnn \S+, built by crvnn_parts.cells.gated.GatedCell", text)
    assert re.search(r"^hidden +an integer, at least 0 +0 +hidden units between", text, re.MULTILINE)
    assert "crvnn fills in: width" in text
    assert "'crvnn check cell gated' runs it" in text
    assert "  - The parent depends on its left child and on its right child." in text


def test_it_says_when_there_are_no_parameters():
    assert "It has no parameters." in run("list", "halting", "never").stdout


def test_each_component_is_described_for_machines(catalog):
    for slot, offers in catalog.components.items():
        for name in offers:
            facts = json.loads(run("list", slot, name, "--json").stdout)
            assert (facts["slot"], facts["name"]) == (slot, name)
            assert all(p["text"] for p in facts["parameters"]), f"{slot} {name}: a parameter is not explained"
            assert facts["contract"]


@pytest.mark.parametrize("command", ["list", "check"])
def test_an_unknown_component_is_an_error_that_knows_the_nearest(command):
    result = run(command, "cell", "gatde", code=2)
    assert result.stderr.startswith(
        "crvnn: no cell is called 'gatde'. Did you mean 'gated'?\nInstalled: gated,"
    )


def test_presets_can_be_listed_by_themselves():
    listed = json.loads(run("list", "presets", "--json").stdout)["components"]
    assert {row["slot"] for row in listed} == {"preset"}
    assert {"paper", "reference", "simplified-2023"} <= {row["name"] for row in listed}


def test_specs_are_listed_with_their_data_and_duration(catalog):
    text = run("list", "specs").stdout
    for name, (spec, _) in catalog.specs.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]  # one line each
        assert re.search(
            rf"{re.escape(spec.summary)} +{re.escape(spec.data or 'none')} +{spec.duration}", line
        )
    facts = json.loads(run("list", "specs", "--json").stdout)["components"]
    assert [spec["name"] for spec in facts] == list(catalog.specs)
    assert {"name", "summary", "data", "duration", "path", "package"} <= set(facts[0])


def test_a_spec_is_copied_by_name(tmp_path):
    run("list", "spec", "from-file", "--copy", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"from-file.toml", "reviews.csv"}
    (tmp_path / "reviews.csv").write_text("mine")
    again = run("list", "spec", "from-file", "--copy", str(tmp_path), code=2).stderr
    assert "from-file.toml exists already; choose another directory" in again
    assert (tmp_path / "reviews.csv").read_text() == "mine"
    for mistake in (["specs"], ["cell", "gated"]):
        assert "--copy is for a spec" in run("list", *mistake, "--copy", str(tmp_path), code=2).stderr


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("preset", "paper", "[model.encoder]"),
        ("specs", "listops", 'preset = "paper"'),
        ("model", "listops", "# The ListOps model"),
    ],
)
def test_presets_specs_and_models_are_described(kind, name, expected):
    text = run("list", kind, name).stdout
    assert text.startswith(f"{kind.removesuffix('s')} {name}: ")
    assert expected in text
    facts = json.loads(run("list", kind, name, "--json").stdout)
    assert expected in facts["text"]


@pytest.mark.parametrize("kind", ["preset", "spec", "model"])
def test_an_unknown_preset_spec_or_model_is_an_error_that_knows_the_nearest(kind):
    name = {"preset": "papr", "spec": "listop", "model": "listop"}[kind]
    assert re.search(rf"no {kind} is called '{name}'. Did you mean", run("list", kind, name, code=2).stderr)
