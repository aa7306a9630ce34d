"""An explorer of small runs, served, and requests to it."""

import http.client
import json

import pytest

import small
from crvnn_core import Decision, train
from crvnn_explorer.models import Explorer
from exploring import serving
from small import Averaging


class Broken(Decision):
    """Fails when it is used.

    :param warmth: may change after training.
    :param noise: matters in training alone.
    """

    live_settings = ("warmth",)

    def __init__(self, warmth: float = 1.0, noise: float = 0.0) -> None:
        super().__init__()

    def forward(self, scores, near, eligible, exists):
        raise RuntimeError("this is a bug")


@pytest.fixture(scope="session")
def explorer(letters_run, pairs_run, tmp_path_factory):
    flat = tmp_path_factory.mktemp("flat") / "run"
    train(small.variant("training.steps=2", encoder=Averaging), flat)
    catalog = small.catalog_with(encoder=Averaging, decision=Broken)
    return Explorer.load([str(letters_run), str(pairs_run), str(flat)], catalog)


@pytest.fixture(scope="module")
def port(explorer):
    with serving(explorer) as port:
        yield port


@pytest.fixture
def ask(port):
    """Send a request; returns the status and the body of the response."""

    def send(path, body=None, headers=(), host=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        sent = {"Host": host or f"127.0.0.1:{port}", **dict(headers)}
        if isinstance(body, dict):
            body = json.dumps(body)
        if body is not None:
            sent = {"Content-Type": "application/json", **sent}
        connection.request("GET" if body is None else "POST", path, body, sent)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        send.headers = response.headers
        kind = response.headers.get("content-type", "")
        return response.status, json.loads(content) if "json" in kind else content.decode()

    return send


@pytest.fixture
def letters(letters_run):
    return str(letters_run)
