"""``crvnn.CRvNN``: parts by name, with settings, or as objects."""

import copy
import pickle

import pytest
import torch

import crvnn
from crvnn_core import Component, Recursion
from crvnn_core.inference.trained import load
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_parts.cells.recurrent import GRUCell

INPUTS = torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(1))
MASK = torch.arange(7) < torch.tensor([[7], [4]])


def test_it_is_a_module_that_gives_a_vector_for_each_sequence():
    encoder = crvnn.CRvNN(16, cell="gru", retriever="log-space", decision="sigmoid")
    encoding = encoder(INPUTS, MASK, trace=True)
    assert isinstance(encoder, torch.nn.Module)
    assert encoding.vector.shape == (2, 16)
    assert encoding.trace.exists.shape[1:] == (2, 7)
    encoding.vector.sum().backward()
    assert all(p.grad is not None for name, p in encoder.named_parameters() if name.startswith("cell"))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_an_integer_mask_of_zeros_and_ones_is_a_mask_and_without_one_every_position_is_a_token(dtype):
    encoder, mask = crvnn.CRvNN(16).eval(), torch.tensor([[1, 1, 1], [1, 1, 0]])
    assert torch.equal(encoder(INPUTS).vector, encoder(INPUTS, torch.ones(2, 7, dtype=torch.bool)).vector)
    inputs = torch.randn(2, 3, 16)
    assert torch.equal(encoder(inputs, mask.to(dtype)).vector, encoder(inputs, mask.bool()).vector)
    assert torch.equal(encoder(inputs, mask.tolist()).vector, encoder(inputs, mask.bool()).vector)
    with pytest.raises(
        crvnn.InputError, match="an integer mask is 1 at tokens and 0 at padding; it has other values"
    ):
        encoder(inputs, 2 * mask.to(dtype))
    with pytest.raises(
        crvnn.InputError, match=r"and a bool mask \[batch, tokens\]; got .* torch.float32 \[2, 3\]"
    ):
        encoder(inputs, mask.float())


@pytest.mark.parametrize("kind", [{}, {"hard": True}, {"levels": torch.zeros(2, 3, dtype=torch.long)}])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_inputs_of_another_type_than_the_weights_are_one_clear_error(dtype, kind):
    encoder, inputs = crvnn.CRvNN(16), torch.ones(2, 3, 16, dtype=dtype)
    with pytest.raises(crvnn.InputError) as caught:
        encoder(inputs, **kind)
    assert str(caught.value) == (
        f"the inputs are {dtype} and the encoder's weights torch.float32; convert one: inputs.to(torch.float32), or "
        f"encoder.to({dtype})"
    )
    with pytest.raises(crvnn.InputError, match=r"inputs of floating-point numbers, not of torch\.int64"):
        encoder(inputs.long(), **kind)


@pytest.mark.parametrize("preset", ["paper", "simplified-2023", "reference"])
def test_in_double_precision_it_encodes_and_learns(preset):
    encoder, mask = crvnn.CRvNN(16, preset=preset).double(), torch.tensor([[1, 1, 1], [1, 1, 0]])
    inputs = torch.randn(2, 3, 16, dtype=torch.float64)
    assert encoder(inputs, mask, hard=True).vector.dtype == torch.float64
    for kind in ({}, {"trace": True}, {"levels": torch.tensor([[2, 1, 0], [1, 0, 0]])}):
        encoder.zero_grad()
        encoder(inputs, mask, **kind).vector.sum().backward()
        gradients = [parameter.grad for parameter in encoder.cell.parameters()]
        assert {gradient.dtype for gradient in gradients if gradient is not None} == {torch.float64}


def test_it_is_the_encoder_that_a_spec_describes(catalog):
    spec = read_spec(catalog, parts={"cell": "lstm"}, preset="reference", sets=["model.width=16"])
    assembled = assemble(spec, catalog).model.encoder.eval()
    ours = crvnn.CRvNN(16, cell="lstm", preset="reference").eval()
    ours.load_state_dict(assembled.state_dict())
    assert torch.equal(ours(INPUTS, MASK).vector, assembled(INPUTS, MASK).vector)
    assert (ours.extra_steps, ours.penalise) == (1, "unhalted")


def test_it_takes_the_weights_of_a_trained_encoder(catalog):
    trained = load("listops-guided", catalog)
    weights = trained.model.encoder.state_dict()
    parts = {slot: getattr(trained.spec.model, slot) for slot in ("scorer", "decision", "cell")}
    tables = {slot: {"name": part.name, **part.params} for slot, part in parts.items()}
    crvnn.CRvNN(trained.spec.model.width, **tables).load_state_dict(weights)


def test_settings_of_a_part_are_given_with_its_name_or_without():
    named = crvnn.CRvNN(16, cell={"name": "gated", "hidden": 24})
    changed = crvnn.CRvNN(16, cell={"hidden": 24}, max_steps=3, halt_penalty=0.5)
    assert named.cell.expand.out_features == changed.cell.expand.out_features == 24
    assert (changed.max_steps, changed.halt_penalty) == (3, 0.5)


@pytest.mark.parametrize("part", [GRUCell(16), GRUCell, Component("mine", GRUCell)])
def test_a_part_may_be_a_module_or_what_builds_it(part):
    encoder = crvnn.CRvNN(16, cell=part)
    assert encoder.cell is part or not isinstance(part, torch.nn.Module)
    assert isinstance(encoder.cell, GRUCell)
    assert encoder(INPUTS, MASK).vector.shape == (2, 16)


def test_random_numbers_are_torchs_own():
    torch.manual_seed(3)
    one = crvnn.CRvNN(8).state_dict()
    two = crvnn.CRvNN(8).state_dict()
    torch.manual_seed(3)
    again = crvnn.CRvNN(8).state_dict()
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["cell.expand.weight"], two["cell.expand.weight"])


def test_it_is_copied_pickled_moved_and_switched_like_any_module():
    encoder = crvnn.CRvNN(16, decision="gumbel-sigmoid")
    for twin in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert isinstance(twin, Recursion)
        twin.eval()
        assert encoder.training
        assert torch.equal(twin(INPUTS, MASK).vector, encoder.eval()(INPUTS, MASK).vector)
        encoder.train()
    assert encoder.to(torch.float64)(INPUTS.double(), MASK).vector.dtype == torch.float64
    assert encoder.to("meta").start.is_meta


def test_all_mistakes_are_reported_at_once_as_in_a_spec():
    with pytest.raises(crvnn.SpecError) as caught:
        crvnn.CRvNN(-4, cell="gruu", retriever={"name": "adhoc", "smal": 3}, dorp=0.1)
    said = str(caught.value)
    assert "crvnn.CRvNN [width]: must be at least 1, not -4" in said
    assert "crvnn.CRvNN [cell]: no cell is called 'gruu'. Did you mean 'gru'?" in said
    assert "crvnn.CRvNN [retriever.smal]: retriever 'adhoc' has no parameter 'smal'." in said
    assert "crvnn.CRvNN [dorp]: there is no argument 'dorp'. Did you mean 'drop'?" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cell": 3}, r"\[cell\]: a cell is given by its name, .* got 3"),
        ({"cell": torch.nn.Linear(2, 2)}, r"as a Cell, or as a class or component .* got Linear"),
        ({"cell": GRUCell(8)}, r"\[cell\]: its width is 8, and the encoder's is 16"),
        ({"preset": "papr"}, r"\[preset\]: no preset is called 'papr'. Did you mean 'paper'?"),
        (
            {"cel": "gru"},
            r"\[cel\]: there is no argument 'cel'. Did you mean 'cell'\?\n.*There are width, retriever",
        ),
        ({"presett": "paper"}, r"Did you mean 'preset'\?"),
        ({"drop": 3.0}, r"\[drop\]: must be at least 0 and below 1, not 3\.0"),
    ],
)
def test_a_mistake_is_named_by_its_argument(arguments, message):
    with pytest.raises(crvnn.CrvnnError, match=message):
        crvnn.CRvNN(16, **arguments)
