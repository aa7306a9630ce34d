"""'easy-first-encoder' is installed, and keeps every promise of an encoder."""

import pytest
import torch
from easy_first_encoder.encoder import EasyFirst

from crvnn_core import create_plugin_manager, read_catalog
from crvnn_core.testing import CHECKS
from crvnn_core.testing.parts import BracketingCell
from crvnn_core.trees import trees_of


@pytest.fixture(scope="session")
def component():
    return read_catalog(create_plugin_manager()).find("encoder", "easy-first-encoder").component


def test_it_is_installed(component):
    assert component.name == "easy-first-encoder"


@pytest.mark.parametrize("check", CHECKS["encoder"], ids=lambda check: check.__name__)
def test_it_keeps_its_promises(component, check):
    check(component)


@pytest.mark.parametrize("seed", range(4))
def test_hard_inference_composes_along_the_tree_that_it_shows(seed):
    torch.manual_seed(seed)
    tokens = tuple("abcdef")
    cell = BracketingCell(1, tokens)
    inputs = torch.arange(6.0).view(1, 6, 1)
    encoding = EasyFirst(1, cell)(inputs, torch.ones(1, 6, dtype=torch.bool), trace=True, hard=True)
    (tree,) = trees_of(encoding, [tokens])
    assert str(tree) == cell.name(encoding.vector[0])
