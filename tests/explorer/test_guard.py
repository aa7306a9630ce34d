"""The hosts and origins that the explorer refuses."""

import json

import pytest

from crvnn_explorer import guard
from crvnn_explorer.guard import LOOPBACK, hosts_of
from exploring import asking, serving


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::2]:80", "192.168.1.7", ""]
)
def test_on_loopback_other_names_are_refused(ask, host):
    status, found = ask("/api/models", headers={"Host": host} if host else {"Host": " "})
    assert status == 421
    assert "does not answer to the name" in found["error"]
    assert "--allowed-host" in found["error"]


@pytest.mark.parametrize("host", ["localhost:80", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
def test_on_loopback_its_own_names_are_answered(ask, host):
    assert ask("/api/models", host=host)[0] == 200


def test_requests_of_other_origins_are_refused(ask, port, letters):
    question = {"model": letters, "texts": ["a"]}
    for origin in ("http://evil.example", "null", "", f"http://127.0.0.1:{port + 1}"):
        assert ask("/api/inspect", question, {"Origin": origin})[0] == 403
    assert ask("/api/inspect", question, {"Origin": f"http://127.0.0.1:{port}"})[0] == 200
    assert ask("/api/inspect", json.dumps(question), {"Content-Type": "text/plain"})[0] == 415


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_images_and_scripts_of_other_pages_cannot_ask_but_links_lead_to_the_page(ask, site):
    """Browsers send no Origin with them."""
    assert ask("/api/models", headers={"Sec-Fetch-Site": site})[0] == 403
    assert ask("/", headers={"Sec-Fetch-Site": site})[0] == 200
    assert ask("/api/models", headers={"Sec-Fetch-Site": "same-origin"})[0] == 200


def test_the_host_of_the_user_is_answered(monkeypatch):
    assert "models.example:8000" not in LOOPBACK
    assert "models.example:8000" in hosts_of("Models.Example", "127.0.0.1")
    assert "[fe80::1]:80" in hosts_of("fe80::1", "fe80::1%eth0")
    assert "proxy.example" in hosts_of("127.0.0.1", "127.0.0.1", ["Proxy.example"])
    assert "192.168.1.7" not in hosts_of("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize(
    "host", ["192.168.1.7:8000", "[fe80::1]:80", "thinker:80", "thinker.local", "localhost"]
)
def test_beyond_loopback_the_names_and_addresses_of_the_machine_are_answered(monkeypatch, host):
    monkeypatch.setattr(guard.socket, "gethostname", lambda: "Thinker")
    assert host in hosts_of("0.0.0.0", "0.0.0.0")


def test_beyond_loopback_other_names_are_refused_unless_allowed(explorer):
    """A name that a page elsewhere has pointed at this machine."""
    with serving(explorer, hosts_of("0.0.0.0", "0.0.0.0", ["machine.example"])) as port:
        ask = asking(port)
        assert ask("/", host="evil.example")[0] == 421
        assert ask("/", host="machine.example:8000")[0] == 200
        assert ask("/", host="10.1.2.3:8000")[0] == 200
