"""What tests of ``crvnn bench`` share."""

import pytest

import attention_encoder
from crvnn_bench.contenders import Contenders
from crvnn_bench.setup import Setup
from crvnn_core import create_plugin_manager, read_catalog
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.training.trainer import train


@pytest.fixture
def contenders(catalog):
    """Small untrained contenders."""
    return Contenders(Setup(width=16), catalog)


@pytest.fixture(scope="session")
def attention_catalog():
    """Everything that is installed, and a third party's encoder."""
    return read_catalog(create_plugin_manager(attention_encoder))


@pytest.fixture(scope="session")
def attention_run(attention_catalog, tmp_path_factory):
    """A run directory of a third party's encoder, trained on ListOps for a moment."""
    sets = ["task=listops", "task.rows=8", "task.held_out=4", "task.max_tokens=20", "model.encoder=attention"]
    sets += ["model.width=8", "training.steps=2", "training.batch=4", "training.observers=[]"]
    sets += ["training.threads=1", "training.accelerator=cpu"]
    path = tmp_path_factory.mktemp("attention") / "run"
    train(assemble(read_spec(attention_catalog, sets=sets), attention_catalog), path)
    return path
