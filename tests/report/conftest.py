"""Runs and pages that the tests of reports share."""

import pytest

import small
from crvnn_core.training.trainer import train
from reporting import Outline, page_of


@pytest.fixture(scope="session")
def variant_run(tmp_path_factory):
    """A run that differs in its cell."""
    path = tmp_path_factory.mktemp("variant") / "lstm"
    train(small.variant("model.cell=lstm", "training.steps=12", "training.evaluate_every=4"), path)
    return path


@pytest.fixture(scope="session")
def both(small_catalog, letters_run, variant_run):
    """A page about two variants, and its text."""
    text = page_of(small_catalog, letters_run, variant_run, texts=["a b zz"])
    return Outline(text), text
