"""Writing a resolved spec: tables, text and files that read back equal."""

import tomllib

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_core.spec import PartSpec, read_spec, spec_dict, spec_text, write_spec


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    width=st.integers(1, 10**6),
    dropout=st.floats(0, 1),
    rate=st.floats(0, 1e10, exclude_min=True, allow_subnormal=False),
    cell=st.sampled_from(["gated", "lstm", "gru", "rnn"]),
    preset=st.sampled_from(["paper", "reference", "simplified-2023"]),
    path=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_a_written_spec_reads_back_equal(
    catalog, tmp_path_factory, seed, width, dropout, rate, cell, preset, path
):
    sets = [f"seed={seed}", f"model.width={width}", f"model.input_dropout={dropout!r}"]
    sets.append(f"training.optimizer.learning_rate={rate!r}")
    spec = read_spec(catalog, preset=preset, parts={"cell": cell}, sets=sets)
    observed = PartSpec("jsonl", {"path": path})
    spec = _with_observer(spec, observed)
    target = tmp_path_factory.mktemp("written") / "spec.toml"
    write_spec(spec, target, ["a note", "another"])
    assert read_spec(catalog, target) == spec
    assert target.read_text(encoding="utf-8").startswith("# resolved by crvnn\n# a note\n# another\n")


def _with_observer(spec, part):
    return attrs.evolve(spec, training=attrs.evolve(spec.training, observers=(part,)))


def test_a_written_spec_does_not_depend_on_presets(catalog, tmp_path):
    spec = read_spec(catalog, preset="reference")
    write_spec(spec, tmp_path / "spec.toml")
    assert read_spec(catalog, tmp_path / "spec.toml", preset="simplified-2023") == spec


@pytest.mark.parametrize("preset", ["paper", "reference", "simplified-2023"])
def test_the_tables_of_a_spec_are_what_reading_its_text_gives(catalog, preset):
    spec = _with_observer(
        read_spec(catalog, preset=preset),
        PartSpec("progress", {"lines": 10, "title": None, "styles": ("a", {"b": (1, 2), "c": None})}),
    )
    tables = spec_dict(spec)
    assert tables == tomllib.loads(spec_text(spec))
    assert tables["training"]["observers"] == [
        {"name": "progress", "lines": 10, "styles": ["a", {"b": [1, 2]}]}
    ]


def test_changing_the_tables_of_a_spec_does_not_change_the_spec(catalog):
    spec = read_spec(catalog)
    tables = spec_dict(spec)
    tables["model"]["cell"]["hidden"] = 7
    tables.pop("training")
    assert spec == read_spec(catalog)
