"""Training only some of the weights."""

import pytest

from crvnn_core import SpecError
from crvnn_core.training.trainer import train
from small import variant, weights


def test_only_the_weights_that_a_spec_names_are_trained():
    assembly = variant(
        "training.trained=encoder.scorer", "training.objective=self-training", "training.steps=2"
    )
    before = {name: value.clone() for name, value in weights(assembly).items()}
    train(assembly)
    changed = {name for name, value in weights(assembly).items() if not value.equal(before[name])}
    assert changed
    assert all(name.startswith("encoder.scorer.") for name in changed)
    assert {name for name in before if name.startswith("encoder.scorer.")} == changed


def test_several_names_train_the_weights_of_each():
    trained = {name for name, value in _frozen_but("['encoder.cell', 'head']") if value.requires_grad}
    assert trained == {name for name, _ in _frozen_but("") if name.startswith(("encoder.cell.", "head."))}


def _frozen_but(names):
    return variant(f"training.trained={names}").model.named_parameters()


def test_by_default_all_weights_are_trained():
    assert all(parameter.requires_grad for parameter in variant().model.parameters())


@pytest.mark.parametrize("name", ["encoder.score", "encoder.scorr", "headd"])
def test_a_name_of_no_weights_is_an_error_with_the_nearest(name):
    with pytest.raises(SpecError) as raised:
        variant(f"training.trained={name}")
    message = str(raised.value)
    assert f"no weights are called '{name}'" in message
    assert f"Did you mean '{'head' if name == 'headd' else 'encoder.scorer'}'?" in message
    assert "There are " in message
