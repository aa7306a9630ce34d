"""Assembly: the modules, optimizer and observers that a spec describes."""

import math
import pickle

import attrs
import pytest
import torch
from torch import nn

from crvnn_core import Cell, Component, CrvnnError, Embedding, Encoder, Encoding, InputError, SpecError, Task
from crvnn_core.runs.directory import SavedVocabulary
from crvnn_core.spec import PartSpec, read_spec
from crvnn_core.spec.assembly import assemble
from small import differences, weights
from stub_plugins import with_components

SMALL = ["model.width=8", "model.scorer.transition=4"]


@pytest.mark.parametrize("preset", ["paper", "reference", "simplified-2023"])
def test_equal_specs_build_equal_weights_whatever_was_drawn_before(catalog, preset):
    first = weights(assemble(read_spec(catalog, preset=preset, sets=[*SMALL, "seed=3"]), catalog))
    torch.rand(17)
    again = weights(assemble(read_spec(catalog, preset=preset, sets=[*SMALL, "seed=3"]), catalog))
    assert differences(first, again) == []


def test_another_seed_builds_other_weights(catalog):
    one, two = (assemble(read_spec(catalog, sets=[*SMALL, f"seed={seed}"]), catalog) for seed in (0, 1))
    assert not torch.equal(one.model.embed.weight, two.model.embed.weight)
    assert not torch.equal(one.model.encoder.cell.expand.weight, two.model.encoder.cell.expand.weight)


def test_settings_reach_the_modules(catalog):
    sets = ["model.width=8", "model.embedding.size=5", "model.input_dropout=0.3", "model.cell.hidden=9"]
    assembly = assemble(read_spec(catalog, sets=[*sets, "task.held_out=30"]), catalog)
    assert assembly.model.embed.weight.shape == (len(assembly.task.vocabulary), 5)
    assert assembly.model.embed.unknown.shape == (5,)
    assert assembly.model.project.weight.shape == (8, 5)
    assert assembly.model.dropout.p == 0.3
    assert assembly.model.encoder.cell.expand.out_features == 9
    assert assembly.task.held_out == 30


@pytest.mark.parametrize(
    ("task", "head", "layers"),
    [
        ("listops", "task", [nn.Linear]),
        ("listops", "elu", [nn.Linear, nn.ELU, nn.Linear]),
        ("logic", "task", [nn.Linear, nn.GELU, nn.Linear]),
        ("logic", "relu", [nn.Linear, nn.ReLU, nn.Linear]),
        ("logic", "linear", [nn.Linear]),
    ],
)
def test_the_head_is_the_tasks_own_unless_the_spec_names_one(catalog, task, head, layers):
    sets = ["model.width=8", f"task={task}", f"model.head={head}", "model.output_dropout=0.3"]
    assembly = assemble(read_spec(catalog, sets=sets), catalog)
    found = assembly.model.head.layers
    assert [type(layer) for layer in found if not isinstance(layer, nn.Dropout)] == layers
    assert {layer.p for layer in found if isinstance(layer, nn.Dropout)} == {0.3}
    assert found[1].in_features == (8 if task == "listops" else 32)
    assert found[-1].out_features == len(assembly.task.classes)


def test_without_a_projection_token_vectors_go_to_the_encoder(catalog):
    sets = [*SMALL, "model.projection=false"]
    assembly = assemble(read_spec(catalog, sets=sets), catalog)
    assert list(assembly.model.project.parameters()) == []
    assert assembly.model.probabilities([["[MAX", "1", "2", "]"]]).shape == (1, 10)
    with pytest.raises(SpecError, match=r"vectors of size 5.*width is 8; set model.projection = true"):
        assemble(read_spec(catalog, sets=[*sets, "model.width=8", "model.embedding.size=5"]), catalog)


def test_linear_layers_begin_with_glorot_weights_or_with_torchs(catalog):
    glorot, torchs = (
        assemble(read_spec(catalog, sets=["model.width=32", f"model.initialisation={kind}"]), catalog).model
        for kind in ("components", "torch")
    )
    for model, bound in ((glorot, math.sqrt(6 / (64 + 128))), (torchs, math.sqrt(1 / 64))):
        layer = model.encoder.cell.expand  # 64 -> 128
        assert 0.98 * bound < layer.weight.abs().max() <= bound
    assert not glorot.encoder.cell.expand.bias.any()
    assert torchs.encoder.cell.expand.bias.all()
    assert torch.equal(glorot.encoder.start, torchs.encoder.start)
    assert torch.equal(glorot.head.layers[1].weight, torchs.head.layers[1].weight)


def test_an_encoder_gets_only_the_slots_it_asks_for(catalog):
    parts = {"retriever", "scorer", "decision", "cell", "halting"}
    for encoder, taken in (("crvnn", parts), ("balanced", {"cell"})):
        assembly = assemble(read_spec(catalog, parts={"encoder": encoder}, sets=["model.width=8"]), catalog)
        assert set(assembly.offers) == {"task", "embedding", "encoder", *taken}
        assert {part for part in parts if hasattr(assembly.model.encoder, part)} == taken


def test_the_optimizer_has_the_models_parameters(catalog):
    spec = read_spec(
        catalog, sets=[*SMALL, "training.optimizer=adamw", "training.optimizer.learning_rate=0.5"]
    )
    assembly = assemble(spec, catalog)
    (group,) = assembly.optimizer().param_groups
    assert group["lr"] == 0.5
    assert {id(p) for p in group["params"]} == {id(p) for p in assembly.model.parameters()}


def test_the_observers_are_built_in_order(catalog):
    spec = read_spec(catalog, sets=SMALL)
    parts = (PartSpec("jsonl", {"path": "m.jsonl"}), PartSpec("progress", {"lines": 3}))
    spec = attrs.evolve(spec, training=attrs.evolve(spec.training, observers=parts))
    lines, progress = assemble(spec, catalog).observers
    assert str(lines.path) == "m.jsonl"
    assert progress.lines == 3


def test_the_notes_name_the_package_of_every_component(catalog):
    class Mine(Cell):
        def leaf(self, inputs):
            return inputs

        def forward(self, left, right):
            return left + right

    (note,) = assemble(read_spec(catalog, sets=SMALL), catalog).notes()
    assert str(catalog.find("cell", "gated").source) in note
    assert f"torch {torch.__version__}" in note
    mixed = with_components(cell=[Component("adding", Mine)])
    (note,) = assemble(read_spec(mixed, parts={"cell": "adding"}, sets=SMALL), mixed).notes()
    assert "components from Mine (in memory), crvnn " in note


def test_parameters_named_like_other_slots_are_an_encoders_own():
    class Named(Encoder):
        def __init__(self, width: int, task: str = "nli", encoder: str = "inner") -> None:
            super().__init__(width)
            self.names = (task, encoder)

        def forward(self, inputs, mask, *, trace=False):
            return Encoding(inputs.sum(1), inputs.new_zeros(len(inputs)), mask.sum(1))

    catalog = with_components(encoder=[Component("named", Named)])
    spec = read_spec(catalog, parts={"encoder": "named"}, sets=["model.encoder.task=sst"])
    assert assemble(spec, catalog).model.encoder.names == ("sst", "inner")


def test_building_the_optimizer_does_not_change_the_weights(catalog):
    def greedy(params: object) -> torch.optim.Optimizer:
        torch.rand(7)
        return torch.optim.SGD(params, lr=0.1)

    mine = with_components(optimizer=[Component("greedy", greedy)])
    one = assemble(read_spec(catalog, sets=SMALL), catalog)
    two = assemble(read_spec(mine, sets=[*SMALL, "training.optimizer=greedy"]), mine)
    assert differences(weights(one), weights(two)) == []


def test_a_spec_can_be_pickled_whatever_is_installed():
    catalog = with_components(cell=[Component("local", lambda width: None)])
    spec = read_spec(catalog, sets=SMALL)
    assert pickle.loads(pickle.dumps(spec)) == spec


class Fixed(Embedding):
    """Has vectors of two digits and of a word that no expression has, and is not trained."""

    trainable = False

    def table(self, tokens, width):
        return ["1", "2", "seven"], torch.arange(9.0).reshape(3, 3)


def test_an_embedding_says_which_tokens_there_are_and_whether_they_are_trained():
    catalog = with_components(embedding=[Component("fixed", Fixed)])
    assembly = assemble(read_spec(catalog, parts={"embedding": "fixed"}, sets=SMALL), catalog)
    model = assembly.model
    assert model.vocabulary.tokens == ("1", "2", "seven")
    assert model.embed.weight.tolist() == torch.arange(9.0).reshape(3, 3).tolist()
    assert model.project.weight.shape == (8, 3)
    trained = {id(p) for group in assembly.optimizer().param_groups for p in group["params"]}
    assert id(model.embed.weight) not in trained
    assert id(model.embed.unknown) in trained
    assert len(trained) == len(list(model.parameters())) - 1
    assert assembly.offers["embedding"].component.name == "fixed"


class Unread(Task):
    """Its data is missing."""

    @property
    def vocabulary(self):
        if "words" in self.__dict__:
            return self.words
        raise InputError("train.txt: there is no such file")

    @vocabulary.setter
    def vocabulary(self, words):
        self.words = words

    def examples(self, split, seed):
        raise InputError("train.txt: there is no such file")


def test_a_task_that_fails_to_give_its_vocabulary_is_named():
    catalog = with_components(task=[Component("unread", Unread)])
    with pytest.raises(
        CrvnnError, match=r"task 'unread' \(Mine\): train\.txt: there is no such file"
    ) as caught:
        assemble(read_spec(catalog, parts={"task": "unread"}, sets=SMALL), catalog)
    assert "embedding" not in str(caught.value)  # which is not to blame


def test_a_saved_model_has_its_own_tokens_and_classes():
    catalog = with_components(task=[Component("unread", Unread)], embedding=[Component("fixed", Fixed)])
    spec = read_spec(catalog, parts={"task": "unread", "embedding": "fixed"}, sets=SMALL)
    assembly = assemble(spec, catalog, SavedVocabulary(("x", "y"), ("no", "yes", "maybe"), 7))
    assert (assembly.task.vocabulary, assembly.task.classes) == (("x", "y"), ("no", "yes", "maybe"))
    assert assembly.model.vocabulary.tokens == ("x", "y")
    assert assembly.model.embed.weight.shape == (2, 7)
    assert not assembly.model.embed.weight.requires_grad
    assert assembly.model.probabilities([["x", "z"]]).shape == (1, 3)
