"""The explorer's page, opened in a browser."""

import pytest

import small
from browser import chromium, opened
from crvnn_core.training.trainer import train
from crvnn_explorer.models import Explorer
from exploring import serving
from small import Averaging


@pytest.fixture(scope="session")
def explorer(letters_run, pairs_run, eager_run, tmp_path_factory):
    flat = tmp_path_factory.mktemp("flat") / "run"
    train(small.variant("training.steps=2", encoder=Averaging), flat)
    runs = ["listops", "listops-self-training", str(letters_run), str(pairs_run), str(eager_run), str(flat)]
    return Explorer.load(runs, small.catalog_with(encoder=Averaging))


@pytest.fixture(scope="module")
def address(explorer):
    with serving(explorer) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(address, browser):
    with opened(address, browser=browser) as page:
        page.wait_for_selector("#pane-A .verdict")
        yield page
