"""Training that starts from the weights of another run."""

import pytest
import torch

from crvnn_core import CrvnnError
from crvnn_core.training.trainer import train
from small import Letters, variant, weights
from training_runs import trained


def test_training_may_start_from_the_weights_of_another_run(tmp_path):
    first = trained(out=tmp_path / "first")
    slow = ("training.optimizer.learning_rate=1e-7", "training.steps=7")  # the optimizer looks ahead after 5
    second = variant(f"training.start={tmp_path / 'first'}", "seed=9", *slow)
    fresh = weights(second)
    train(second, evaluate_splits=[])
    torch.testing.assert_close(weights(second), weights(first), atol=1e-4, rtol=0)
    assert max((fresh[name] - tensor).abs().max() for name, tensor in weights(first).items()) > 0.5


def test_weights_of_another_vocabulary_are_refused_as_a_start(tmp_path):
    class Strange(Letters):
        vocabulary = tuple("abcdeg")

    trained(out=tmp_path / "first")
    with pytest.raises(CrvnnError, match=r"\[training\.start\]: the vocabulary of .*first is another"):
        train(variant(f"training.start={tmp_path / 'first'}", task=Strange))


def test_weights_of_another_shape_are_refused_as_a_start(tmp_path):
    trained(out=tmp_path / "first")
    with pytest.raises(CrvnnError, match=r"do not fit the model:\n .*misshapen: \S+ is \[") as caught:
        train(variant(f"training.start={tmp_path / 'first'}", "model.width=9"))
    assert str(tmp_path / "first" / "weights.safetensors") in str(caught.value)


def test_a_start_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(CrvnnError, match=r"\[training\.start\]: .*nowhere: there is no such directory"):
        train(variant(f"training.start={tmp_path / 'nowhere'}"))


def test_a_resumed_run_no_longer_needs_its_start(tmp_path):
    trained(out=tmp_path / "first")
    sets = (f"training.start={tmp_path / 'first'}", "training.steps=3")
    trained(*sets, out=tmp_path / "second")
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    assert train(variant(*sets, "training.steps=5"), tmp_path / "second", resume=True).step == 5
