"""The explorer's server: its pages and answers, and the hosts and origins that it refuses."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from crvnn_core.inference.inspection import inspect
from crvnn_explorer import server
from crvnn_explorer.models import MOST_TOKENS
from crvnn_explorer.request import Query
from crvnn_explorer.server import STATIC
from exploring import asking


def test_the_page_and_its_files_are_served_and_may_load_nothing_else(ask):
    status, page = ask("/")
    assert status == 200
    assert "crvnn" in page
    policy = ask.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for file in STATIC.iterdir():
        assert ask(f"/static/{file.name}")[0] == 200
    for path in ("../server.py", "%2e%2e/server.py", "..%2fserver.py", "%2fetc%2fpasswd", ""):
        assert ask(f"/static/{path}")[0] == 404


def test_no_file_of_the_page_names_another_host_or_makes_markup_of_text():
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in text.replace("// ", ""), f"{file.name} names an address"
        for risky in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ):
            assert risky not in text, f"{file.name} uses {risky}"


def test_models_and_what_can_be_changed_are_described(ask, explorer, letters):
    status, found = ask("/api/models")
    assert status == 200
    assert found["limit"] == MOST_TOKENS
    assert [model["name"] for model in found["models"]] == list(explorer.runs)
    first = found["models"][0]
    assert (first["arity"], first["classes"], first["hard"]) == (1, ["no", "yes"], True)
    assert first["parts"]["decision"]["name"] == explorer.runs[letters].spec.model.decision.name
    tempered = next(part for part in found["parts"]["decision"] if part["name"] == "tempered")
    end = next(setting for setting in tempered["settings"] if setting["name"] == "end")
    assert end == {
        "name": "end", "kind": "number", "default": 0.5, "min": 0, "open": ["min"],
        "text": "final temperature: at the end of training, and afterwards.",
    }  # fmt: skip
    live = {
        part["name"]: [setting["name"] for setting in part["settings"]] for part in found["parts"]["decision"]
    }
    assert (live["tempered"], live["gumbel-sigmoid"]) == (
        ["end", "modulation"],
        ["temperature", "modulation"],
    )
    assert live["mine"] == ["warmth"]
    modulation = next(setting for setting in tempered["settings"] if setting["kind"] == "choice")
    assert modulation["choices"] == ["none", "paper", "bounded"]
    assert [setting["name"] for setting in first["encoder"]["settings"]][:1] == ["max_steps"]


def test_controls_get_the_ranges_of_settings(explorer):
    parts = explorer.description["parts"]
    settings = {
        (part["name"], setting["name"]): setting
        for offered in parts.values()
        for part in offered
        for setting in part["settings"]
    }
    limits = {
        key: {end: found[end] for end in ("min", "max", "open") if end in found}
        for key, found in settings.items()
    }
    assert limits["threshold", "epsilon"] == {"min": 0, "max": 1, "open": ["max"]}
    assert limits["fixed-depth", "depth"] == {"min": 1}


def test_an_answer_is_that_of_inspect(ask, explorer, letters):
    status, found = ask("/api/inspect", {"model": letters, "texts": ["c d x a"]})
    assert status == 200
    gold = found.pop("gold")
    assert found == json.loads(json.dumps(inspect(explorer.runs[letters], "c d x a").plain()))
    assert gold == {"label": None, "trees": [None], "agreement": [""]}
    assert found["sequences"][0]["unknown"] == [False, False, True, False]


def test_components_settings_and_hard_inference_change_the_answer(ask, letters):
    question = {"model": letters, "texts": ["c d e f a b"]}
    answers = [
        ask("/api/inspect", {**question, **change})[1]
        for change in (
            {},
            {"parts": {"retriever": "log-space"}},
            {"parts": {"decision": "tempered"}, "settings": {"decision": {"end": 0.1}}},
            {"settings": {"encoder": {"max_steps": 1}}},
            {"hard": True},
        )
    ]
    assert len({json.dumps(answer["probabilities"]) for answer in answers}) == 5
    assert len(answers[3]["sequences"][0]["compose"]) == 1
    assert set(answers[4]["sequences"][0]["compose"][0]) <= {0.0, 1.0}


def test_neighbours_are_listed_with_their_weights(ask, letters):
    status, found = ask("/api/neighbours/0/0", {"model": letters, "texts": ["c d e f"]})
    assert status == 200
    assert found["left"] == [[], [[0, 1.0]], [[1, 1.0]], [[2, 1.0]]]
    assert found["right"] == [[[1, 1.0]], [[2, 1.0]], [[3, 1.0]], []]


def test_examples_have_their_label_and_can_be_inspected(ask, letters):
    seen = set()
    for number in range(3):
        status, found = ask(f"/api/example/{number}?model={letters}")
        assert status == 200
        assert found["label"] == ("yes" if "a" in found["texts"][0].split() else "no")
        assert ask("/api/inspect", {"model": letters, "texts": found["texts"]})[0] == 200
        seen.add(found["texts"][0])
    assert len(seen) > 1


def test_a_bug_is_reported_in_the_page_and_its_traceback_in_the_terminal(ask, letters, capfd):
    status, found = ask("/api/inspect", {"model": letters, "texts": ["a b"], "parts": {"decision": "mine"}})
    assert status == 500
    assert "its terminal shows the traceback" in found["error"]
    assert "this is a bug" in capfd.readouterr().err
    assert ask("/api/inspect", {"model": letters, "texts": ["a b"]})[0] == 200


def test_small_requests_are_answered_while_ten_heavy_ones_wait(ask, port, letters, gate):
    def heavy(number):
        question = {"model": letters, "texts": [f"{'c ' * 39}{number}"], "parts": {"halting": "mine"}}
        return asking(port)("/api/inspect", question)

    with ThreadPoolExecutor(10) as pool:
        answers = [pool.submit(heavy, number) for number in range(10)]
        for number in range(5):
            assert ask("/api/inspect", {"model": letters, "texts": [f"a b {'c ' * number}"]})[0] == 200
        assert not any(answer.done() for answer in answers)
        gate.set()
        for number, answer in enumerate(answers):
            assert answer.result()[1]["sequences"][0]["tokens"] == [*["c"] * 39, str(number)]


def test_a_plug_in_that_exits_ends_one_request_alone(ask, letters, capfd):
    question = {"model": letters, "texts": ["a b"], "parts": {"halting": "mine"}}
    status, _ = ask("/api/inspect", {**question, "settings": {"halting": {"leave": True}}})
    assert status == 500
    assert "SystemExit" in capfd.readouterr().err
    assert ask("/api/inspect", {"model": letters, "texts": ["a b"]})[0] == 200


def test_caches_of_models_and_answers_are_bounded(explorer, letters):
    for number in range(20):
        settings = {"halting": {"epsilon": number / 100}}
        explorer.inspect(Query.read({"model": letters, "texts": ["a b"], "settings": settings}))
    for cache in (explorer._exchanged, explorer._inspected):
        assert cache.cache_info().currsize == cache.cache_info().maxsize == 12


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "192.168.1.7", ""]
)
def test_on_loopback_other_names_are_refused(ask, host):
    """A name that a page elsewhere has pointed at this machine."""
    assert ask("/api/models", headers={"Host": host or " "})[0] == 400


@pytest.mark.parametrize("host", ["localhost:80", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
def test_on_loopback_its_own_names_are_answered(ask, host):
    assert ask("/api/models", host=host)[0] == 200


def test_names_that_the_user_gives_are_answered_and_on_all_addresses_all_without_any():
    assert "models.example" in server.hosts_of("models.example", "127.0.0.1")
    assert "proxy.example" in server.hosts_of("127.0.0.1", "127.0.0.1", ["proxy.example"])
    assert "[fe80::1]" in server.hosts_of("fe80::1", "fe80::1%eth0")
    assert server.hosts_of("0.0.0.0", "0.0.0.0") == ["*"]
    assert "*" not in server.hosts_of("0.0.0.0", "0.0.0.0", ["machine.example"])


def test_requests_of_other_origins_are_refused(ask, port, letters):
    question = {"model": letters, "texts": ["a"]}
    for origin in ("http://evil.example", "null", "", f"http://127.0.0.1:{port + 1}"):
        assert ask("/api/inspect", question, {"Origin": origin})[0] == 403
    assert ask("/api/inspect", question, {"Origin": f"http://127.0.0.1:{port}"})[0] == 200


def test_a_request_that_is_too_long_is_refused(ask, letters):
    status, answer = ask("/api/inspect", {"model": letters, "texts": ["a " * server.MOST_BYTES]})
    assert status == 413
    assert answer["error"] == "the text is too long: at most 64 kB are read"


def test_a_long_text_is_not_waited_for_without_end(ask, letters, gate, monkeypatch):
    monkeypatch.setattr(server, "MOST_SECONDS", 0.2)
    question = {"model": letters, "texts": ["c " * 40], "parts": {"halting": "mine"}}
    status, answer = ask("/api/inspect", question)
    assert status == 503
    assert "try again later" in answer["error"]
    gate.set()
    assert ask("/api/inspect", {"model": letters, "texts": ["a b"]})[0] == 200
