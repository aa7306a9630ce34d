"""The explorer's page, opened in a browser."""

import pytest

import small
from browser import chromium, opened
from crvnn_explorer.models import Explorer
from exploring import serving
from small import Averaging


@pytest.fixture(scope="session")
def explorer(letters_run, pairs_run, eager_run, flat_run):
    runs = ["listops", "listops-self-training", *map(str, (letters_run, pairs_run, eager_run, flat_run))]
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
    """The page, with the prediction for its first text."""
    with opened(address, browser=browser) as page:
        page.wait_for_selector("#pane-A .verdict")
        yield page
