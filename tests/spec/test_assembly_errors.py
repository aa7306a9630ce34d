"""Assembly that fails: which component, package and line of the spec the error names."""

import attrs
import pytest
from torch import nn

from crvnn_core import Cell, Component, CrvnnError, Embedding, InputError, PluginError, SpecError
from crvnn_core.spec import PartSpec, read_spec
from crvnn_core.spec.assembly import assemble
from stub_plugins import with_components

SMALL = ["model.width=8", "model.scorer.transition=4"]


def raises(error):
    def build(width: int = 0) -> Cell:
        raise error

    return build


class Even(Cell):
    """A cell that says in its own words what it needs."""

    def __init__(self, width: int, parts: int = 2) -> None:
        super().__init__(width)
        if parts % 2:
            raise ValueError(f"parts must be even, not {parts}")

    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        return left


EVEN = {"cell": [Component("even", Even)]}


def test_a_value_that_a_component_refuses_is_reported_in_its_own_words_with_its_package_and_place(tmp_path):
    catalog = with_components(**EVEN)
    path = tmp_path / "my.toml"
    path.write_text('[model.cell]\nname = "even"\nparts = 3\n')
    refused = "cell 'even' (Mine): parts must be even, not 3"
    sets = ["model.cell=even", "model.cell.parts=3"]
    for where, spec in (
        ("--set model.cell.parts=3", read_spec(catalog, sets=sets)),
        (f"{path}:3 ", read_spec(catalog, path)),
    ):
        with pytest.raises(CrvnnError) as caught:
            assemble(spec, catalog)
        assert str(caught.value).startswith(where)
        assert refused in str(caught.value)


def embedding(error):
    class Failing(Embedding):
        def table(self, tokens, width):
            raise error

    return Failing


LOST = KeyError("lost")


@pytest.mark.parametrize(
    ("slot", "build", "kind", "message"),
    [
        *(
            (
                slot,
                raises(LOST),
                PluginError,
                rf"{slot} 'mine' \(Mine\): could not be built: KeyError: 'lost' \(\S+",
            )
            for slot in ("cell", "optimizer")
        ),
        (
            "cell",
            lambda width: nn.Linear(1, 1),
            PluginError,
            r"'mine' \(Mine\): built a Linear, which is no Cell",
        ),
        (
            "embedding",
            embedding(LOST),
            PluginError,
            r"'mine' \(Mine\) could not make vectors: KeyError: 'lost' \(",
        ),
        (
            "embedding",
            embedding(InputError("v.txt:3: no")),
            CrvnnError,
            r"embedding 'mine' \(Mine\): v\.txt:3: no",
        ),
        ("task", raises(InputError("bring your own data")), InputError, r"^bring your own data$"),
    ],
)
def test_a_component_that_fails_is_named_with_its_package_and_line(slot, build, kind, message):
    catalog = with_components(**{slot: [Component("mine", build)]})
    with pytest.raises(kind, match=message) as caught:
        assemble(read_spec(catalog, parts={slot: "mine"}, sets=SMALL), catalog)
    assert "KeyError" not in message or "spec/test_assembly_errors.py:" in str(caught.value)


def test_every_part_that_refuses_its_settings_is_named_at_once():
    catalog = with_components(**EVEN)
    sets = ["model.cell.parts=3", "task.max_tokens=3", "model.cell=even"]
    with pytest.raises(SpecError) as caught:
        assemble(read_spec(catalog, sets=sets), catalog)
    assert [problem.where for problem in caught.value.problems] == [f"--set {sets[i]}" for i in (1, 0)]


def test_a_spec_made_in_python_names_the_component_that_refuses(catalog):
    spec = read_spec(catalog, sets=SMALL)
    for part, message in (
        (PartSpec("windowed", {"k": 0}), r"retriever 'windowed' \(crvnn \S+\): k must be at least 1"),
        (
            PartSpec("windowed", {"kk": 0}),
            r"retriever 'windowed' \(crvnn \S+\): could not be built: TypeError",
        ),
        (
            attrs.evolve(spec.model.retriever, name="windowed", params={"k": 0}),
            r"retriever 'windowed' .* k must be",
        ),
    ):
        changed = attrs.evolve(spec, model=attrs.evolve(spec.model, retriever=part))
        with pytest.raises(CrvnnError, match=message):
            assemble(changed, catalog)


def refusing(params: object, speed: float = 1.0) -> None:
    raise ValueError(f"speed must be low, not {speed}")


def test_an_objective_that_does_not_fit_the_encoder_is_reported_beside_the_other_problems():
    catalog = with_components(optimizer=[Component("fast", refusing)])
    sets = [
        "model.width=8",
        "model.encoder=lstm",
        "training.objective=self-training",
        "training.optimizer=fast",
    ]
    with pytest.raises(SpecError) as caught:
        assemble(read_spec(catalog, sets=sets), catalog)
    optimizer, objective = caught.value.problems
    assert "speed must be low" in str(optimizer)
    assert objective.where == "--set training.objective=self-training"
    assert "cannot compose along given trees" in objective.what
    assert "The objective 'labels' trains every encoder." in objective.what
