"""The authors' weights give the same vectors in the ``reference`` preset."""

import pytest
import torch

from crvnn_core import CrvnnError, assemble, load_published_weights, read_spec
from published_encoder import PublishedEncoder

WIDTH, HIDDEN = 12, 20


def reference(catalog, *sets):
    spec = read_spec(
        catalog, preset="reference", sets=[f"model.width={WIDTH}", f"model.cell.hidden={HIDDEN}", *sets]
    )
    return assemble(spec, catalog).model.encoder.eval()


def published(seed=0, scale=1.0, **options):
    torch.manual_seed(seed)
    encoder = PublishedEncoder(WIDTH, HIDDEN, **options)
    with torch.no_grad():  # sharper scores, so that sequences halt at different times
        encoder.scorer.weight.mul_(scale)
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return encoder


@pytest.mark.parametrize("scale", [1.0, 8.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_authors_weights_give_the_same_vectors_penalties_and_steps(catalog, seed, scale):
    theirs, ours = published(seed, scale), reference(catalog)
    load_published_weights(ours, theirs.state_dict())
    lengths = torch.tensor([60, 1, 2, 5, 18, 12])
    inputs, mask = torch.randn(6, 60, WIDTH), torch.arange(60) < lengths.unsqueeze(1)
    encoding = ours(inputs, mask)
    for row, n in enumerate(lengths.tolist()):
        vector, penalty, steps = theirs(inputs[row, :n])
        torch.testing.assert_close(encoding.vector[row], vector, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(encoding.penalty[row], 0.01 * penalty, atol=1e-6, rtol=1e-5)
        assert encoding.steps[row] == steps


def test_the_inference_version_uses_the_exact_gelu(catalog):
    theirs = published(exact_gelu=True)
    ours = reference(catalog, "model.cell.activation='gelu'", "model.scorer.activation='gelu'")
    load_published_weights(ours, theirs.state_dict())
    inputs = torch.randn(1, 9, WIDTH)
    vector = ours(inputs, torch.ones(1, 9, dtype=torch.bool)).vector[0]
    torch.testing.assert_close(vector, theirs(inputs[0])[0], atol=1e-5, rtol=1e-5)


def test_their_wrapped_names_are_understood(catalog):
    theirs, ours = published(), reference(catalog)
    layers = ("conv_layer", "scorer", "initial_transform_layer", "wcell1", "wcell2")
    wrapped = {
        ".linear.".join(name.split(".")) if name.startswith(layers) else name: tensor
        for name, tensor in theirs.state_dict().items()
    }
    assert "wcell1.linear.weight" in wrapped
    load_published_weights(ours, wrapped)
    assert torch.equal(ours.cell.expand.weight, theirs.wcell1.weight)


def test_wrong_weights_are_refused_together_and_change_nothing(catalog):
    state, ours = published().state_dict(), reference(catalog)
    before = {name: p.clone() for name, p in ours.named_parameters()}
    del state["END"]
    state["decoder.weight"] = torch.zeros(3)
    state["LN.bias"] = torch.zeros(WIDTH + 1)
    with pytest.raises(CrvnnError) as caught:
        load_published_weights(ours, state)
    message = str(caught.value)
    assert "missing: END" in message
    assert "not a tensor of the published encoder: decoder.weight" in message
    assert f"misshapen: LN.bias is [{WIDTH + 1}], but this encoder needs [{WIDTH}]" in message
    assert all(torch.equal(before[name], p) for name, p in ours.named_parameters())


@pytest.mark.parametrize("change", ["model.cell.shared_norm=false", "model.scorer.transition=0"])
def test_an_encoder_of_another_shape_is_refused(catalog, change):
    with pytest.raises(CrvnnError, match='preset = "reference"'):
        load_published_weights(reference(catalog, change), published().state_dict())
