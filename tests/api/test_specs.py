"""``crvnn.read_spec`` and ``crvnn.assemble``: dictionaries, files and names."""

from pathlib import Path

import pytest

import crvnn
from crvnn_core.spec import spec_dict


def test_a_dictionary_is_what_the_same_file_is(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('seed = 3\n[model]\nwidth = 32\n[model.cell]\nname = "gated"\nhidden = 64\n')
    tables = {"seed": 3, "model": {"width": 32, "cell": {"name": "gated", "hidden": 64}}}
    dotted = {"seed": 3, "model.width": 32, "model.cell": "gated", "model.cell.hidden": 64}
    backwards = dict(reversed(dotted.items()))
    read = crvnn.read_spec(path)
    assert read.model.cell.params["hidden"] == 64
    assert read == crvnn.read_spec(str(path)) == crvnn.read_spec(tables)
    assert read == crvnn.read_spec(dotted) == crvnn.read_spec(backwards)


def test_a_specs_own_tables_give_it_again():
    spec = crvnn.read_spec({"model": {"cell": "lstm"}, "training.epochs": 3})
    assert crvnn.read_spec(spec) is spec
    assert crvnn.read_spec(spec_dict(spec)) == spec
    assert crvnn.read_spec() == crvnn.read_spec({})  # the defaults


@pytest.mark.parametrize("base", [{"model.cell": "lstm", "seed": 5}, None])
def test_changes_lie_over_everything_else(base):
    spec = crvnn.read_spec(base, {"model.cell": "gru", "model": {"width": 8}})
    assert (spec.model.cell.name, spec.model.width) == ("gru", 8)
    changed = crvnn.read_spec(spec, {"model.width": 16})
    assert (changed.model.cell.name, changed.model.width, changed.seed) == ("gru", 16, spec.seed)


def test_a_spec_may_be_an_installed_one_or_extend_one_or_a_file(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('[model]\nwidth = 32\ncell = "lstm"\n')
    spec = crvnn.read_spec({"extends": str(path), "model.width": 8})
    assert (spec.model.cell.name, spec.model.width) == ("lstm", 8)
    assert crvnn.read_spec("listops-soft").task.name == "listops"
    assert crvnn.read_spec({"extends": "listops-soft", "model.width": 8}).model.width == 8
    with pytest.raises(crvnn.SpecError, match=r"no spec has this name\. Did you mean 'listops-soft'\?"):
        crvnn.read_spec("listops-sofft")


def test_paths_and_numbers_of_numpy_are_taken_for_texts_and_numbers():
    numpy = pytest.importorskip("numpy")
    given = {"model.width": numpy.int64(8), "model.input_dropout": numpy.float32(0.5)}
    spec = crvnn.read_spec({**given, "training.start": Path("runs") / "first"})
    assert (spec.model.width, spec.model.input_dropout) == (8, 0.5)
    assert spec.training.start == str(Path("runs/first").absolute())


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(crvnn.SpecError) as caught:
        crvnn.read_spec({"model": {"cell": "gruu", "width": "8"}, "trainign": {}}, {"model.decision": 3})
    assert [problem.where for problem in caught.value.problems] == [
        "spec [trainign]",
        "spec [model.width]",
        "changes [model.decision]",
        "spec [model.cell]",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({3: 4}, "keys are names, as in 'model.width', not 3"),
        ({"model..width": 4}, "not 'model..width'"),
        (3, "a spec is a dictionary, the path of a file or a name, not 3"),
    ],
)
def test_what_is_no_spec_is_refused(given, message):
    with pytest.raises(crvnn.CrvnnError, match=message):
        crvnn.read_spec(given)


def test_assemble_builds_what_a_dictionary_describes():
    model = crvnn.assemble({"task.max_tokens": 10, "model": {"width": 8, "encoder": "lstm"}}).model
    assert model.encoder.width == 8
