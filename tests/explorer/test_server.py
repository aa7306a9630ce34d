"""The explorer's server: what it answers, and what it refuses."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import quote

import pytest
from click.testing import CliRunner

import small
from crvnn_core import Decision, load, train
from crvnn_core.cli import main
from crvnn_core.inference.inspection import inspect
from crvnn_explorer import command, server
from crvnn_explorer.models import MOST_TOKENS, Explorer
from crvnn_explorer.request import Query
from crvnn_explorer.server import MOST_BYTES, STATIC
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


@pytest.fixture(scope="module")
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
    """Send a request; the status and what was answered."""

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


def test_the_page_and_its_files_are_served_and_may_load_nothing_else(ask):
    status, page = ask("/")
    assert status == 200
    assert "crvnn" in page
    policy = ask.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for file in STATIC.iterdir():
        assert ask(f"/static/{file.name}")[0] == 200
    for path in (
        "../server.py",
        "%2e%2e/server.py",
        "..%2fserver.py",
        "%2fetc%2fpasswd",
        "..%5cserver.py",
        "",
    ):
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
        "name": "end", "kind": "number", "default": 0.5,
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
    assert modulation["choices"] == ["none", "paper", "reference"]
    assert [setting["name"] for setting in first["encoder"]["settings"]][:1] == ["max_steps"]


def test_an_answer_is_what_the_inspection_says(ask, explorer, letters):
    status, found = ask("/api/inspect", {"model": letters, "texts": ["c d x a"]})
    assert status == 200
    assert found == json.loads(json.dumps(inspect(explorer.runs[letters], "c d x a").plain()))
    assert found["sequences"][0]["unknown"] == [False, False, True, False]


def test_parts_settings_and_hardness_change_the_answer(ask, letters):
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


def test_pairs_take_two_texts(ask, pairs_run):
    status, found = ask("/api/inspect", {"model": str(pairs_run), "texts": ["a b", "c d e"]})
    assert status == 200
    assert [len(sequence["tokens"]) for sequence in found["sequences"]] == [2, 3]


def test_an_encoder_without_steps_is_only_asked(ask, explorer):
    flat = list(explorer.runs)[2]
    described = ask("/api/models")[1]["models"][2]
    assert not described["hard"]
    assert list(described["parts"]) == ["encoder"]
    status, found = ask("/api/inspect", {"model": flat, "texts": ["a b"]})
    assert status == 200
    assert found["sequences"][0]["tree"] is None
    assert found["sequences"][0]["exists"] == []


def test_neighbours_are_listed_with_their_weights(ask, letters):
    question = {"model": letters, "texts": ["c d e f"], "sequence": 0, "step": 0}
    status, found = ask("/api/neighbours", question)
    assert status == 200
    assert found["left"] == [[], [[0, 1.0]], [[1, 1.0]], [[2, 1.0]]]
    assert found["right"] == [[[1, 1.0]], [[2, 1.0]], [[3, 1.0]], []]


def test_examples_come_with_their_label_and_can_be_asked(ask, letters):
    seen = set()
    for number in range(3):
        status, found = ask(f"/api/example?model={letters}&number={number}")
        assert status == 200
        assert found["label"] == ("yes" if "a" in found["texts"][0].split() else "no")
        assert ask("/api/inspect", {"model": letters, "texts": found["texts"]})[0] == 200
        seen.add(found["texts"][0])
    assert len(seen) > 1


BAD = {
    "an empty text": ({"texts": [" "]}, "the text is empty: type something"),
    "no text": ({"texts": []}, "asks for one text, not for 0"),
    "two texts for one": ({"texts": ["a", "b"]}, "asks for one text, not for 2"),
    "too many tokens": ({"texts": ["a " * (MOST_TOKENS + 1)]}, "has 201 tokens; the explorer takes up to 200"),
    "texts that are no list": ({"texts": "a"}, '"texts" must be a list'),
    "texts of numbers": ({"texts": [1]}, '"texts" must be a list of texts'),
    "an unknown run": ({"model": "lettres"}, "no run 'lettres' is explored here"),
    "no run": ({"model": None}, '"model" must be a name'),
    "an unknown part": ({"parts": {"decision": "sigmoit"}}, "Did you mean 'sigmoid'"),
    "a part with weights": ({"parts": {"cell": "lstm"}}, "'cell' cannot be exchanged"),
    "parts that are no table": ({"parts": ["sigmoid"]}, '"parts" must be a table'),
    "a part that is no name": ({"parts": {"decision": 3}}, "the name of a component"),
    "an unknown setting": ({"settings": {"decision": {"warmth": 1}}}, "no parameter 'warmth'"),
    "a value out of range": ({"settings": {"halting": {"epsilon": 2}}}, "epsilon must be at least 0 and below 1"),
    "a value of the wrong kind": ({"settings": {"encoder": {"max_steps": 1.5}}}, "must be a whole number"),
    "none of the choices": ({"settings": {"decision": {"form": "😀"}}}, "'reference', not '😀'"),
    "endless steps": ({"settings": {"encoder": {"extra_steps": 10**9}}}, "may be 1,000,000,001 steps"),
    "a list for a value": ({"settings": {"encoder": {"max_steps": [1]}}}, "encoder.max_steps must be a number"),
    "settings that are no table": ({"settings": {"encoder": 3}}, '"encoder" must be a table'),
    "a setting of the task": ({"settings": {"task": {"rows": 3}}}, "cannot change under trained weights"),
    "hard that is no truth value": ({"hard": "yes"}, '"hard" true or false'),
    "an unknown key": ({"colour": 1}, "nothing is called 'colour' here"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_refused_and_told(ask, letters, name):
    change, message = BAD[name]
    status, found = ask("/api/inspect", {"model": letters, "texts": ["a b"], **change})
    assert status == 400
    assert message in found["error"]
    assert "Traceback" not in found["error"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[1]",
        '"a"',
        '{"texts": NaN}',
        "[" * 5000,
        b"\xff\xfe",
        '{"model": "\\ud800", "texts": ["a"]}',
    ],
)
def test_what_is_no_json_is_refused(ask, body):
    status, found = ask("/api/inspect", body)
    assert status == 400
    assert "JSON" in found["error"]


def test_half_of_a_pair_is_named(ask, pairs_run):
    status, found = ask("/api/inspect", {"model": str(pairs_run), "texts": ["a", ""]})
    assert status == 400
    assert found["error"].startswith("the second text is empty")


def test_hard_decisions_of_an_encoder_that_makes_none_are_refused(ask, explorer):
    status, found = ask("/api/inspect", {"model": list(explorer.runs)[2], "texts": ["a"], "hard": True})
    assert status == 400
    assert "offers no hard inference" in found["error"]


@pytest.mark.parametrize(
    ("sequence", "step"), [(1, 0), (-1, 0), (0, 99), (0, -1), (0, True), ("a", 0), (0, None)]
)
def test_steps_that_there_are_not_are_refused(ask, letters, sequence, step):
    question = {"model": letters, "texts": ["a b"], "sequence": sequence, "step": step}
    assert ask("/api/neighbours", question)[0] == 400


def test_a_body_that_is_too_long_is_refused_before_it_is_read_to_the_end(ask, letters):
    status, found = ask("/api/inspect", {"model": letters, "texts": ["a" * (MOST_BYTES + 1)]})
    assert status == 413
    assert "at most 64 kB" in found["error"]


def test_a_body_that_does_not_come_is_not_waited_for(port, monkeypatch):
    monkeypatch.setattr(server, "MOST_SECONDS", 0.1)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        headers = f"Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: 100"
        client.sendall(f"POST /api/inspect HTTP/1.1\r\n{headers}\r\n\r\n{{".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 12, "²"])
def test_the_number_of_an_example_must_be_one(ask, letters, number):
    assert ask(f"/api/example?model={letters}&number={quote(number)}")[0] == 400


def test_a_bug_is_told_in_the_page_and_shown_in_the_terminal(ask, letters, capfd):
    status, found = ask("/api/inspect", {"model": letters, "texts": ["a b"], "parts": {"decision": "mine"}})
    assert status == 500
    assert "its terminal shows the traceback" in found["error"]
    assert "this is a bug" in capfd.readouterr().err
    assert ask("/api/inspect", {"model": letters, "texts": ["a b"]})[0] == 200


def test_html_in_a_text_comes_back_as_text(ask, letters):
    evil = "<img src=x onerror=alert(1)>"
    status, found = ask("/api/inspect", {"model": letters, "texts": [evil]})
    assert status == 200
    assert found["sequences"][0]["tokens"] == evil.split()
    assert all(found["sequences"][0]["unknown"])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::2]:80", ""]
)
def test_on_loopback_other_names_are_refused(ask, host):
    status, found = ask("/api/models", headers={"Host": host} if host else {"Host": " "})
    assert status == 421
    assert "does not answer to the name" in found["error"]


@pytest.mark.parametrize("host", ["localhost:80", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
def test_on_loopback_its_own_names_are_answered(ask, host):
    assert ask("/api/models", host=host)[0] == 200


def test_pages_of_other_origins_may_not_ask(ask, port, letters):
    question = {"model": letters, "texts": ["a"]}
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}"):
        assert ask("/api/inspect", question, {"Origin": origin})[0] == 403
    assert ask("/api/inspect", question, {"Origin": f"http://127.0.0.1:{port}"})[0] == 200
    assert ask("/api/inspect", json.dumps(question), {"Content-Type": "text/plain"})[0] == 415


def test_beyond_loopback_any_name_is_answered(explorer):
    with serving(explorer, names=None) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/", headers={"Host": "machine.example"})
        assert connection.getresponse().status == 200
        connection.close()


def test_many_questions_at_once_get_their_own_answers(ask, letters):
    texts = [" ".join("abcdef"[: i % 6 + 1]) for i in range(12)]
    found = {}

    def one(number):
        found[number] = ask("/api/inspect", {"model": letters, "texts": [texts[number]]})[1]

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, text in enumerate(texts):
        assert found[number]["sequences"][0]["tokens"] == text.split()


def test_exchanged_models_and_answers_are_kept_but_not_for_ever(explorer, letters):
    for number in range(40):
        settings = {"halting": {"epsilon": number / 100}}
        explorer.inspect(Query.read({"model": letters, "texts": ["a b"], "settings": settings}))
    assert len(explorer._exchanged) == len(explorer._inspections) == 24


def run(*args):
    return CliRunner().invoke(main, list(map(str, args)))


def test_a_port_in_use_is_told_with_the_nearest_that_is_free():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        result = run("explore", "listops", "--port", number, "--no-open")
    assert result.exit_code == 2
    assert f"port {number} cannot be used" in result.output
    proposed = int(result.output.rsplit("--port ", 1)[1])
    with command.listening("127.0.0.1", proposed):
        pass


def test_answers_are_not_held_back_by_the_network():
    """asyncio sets TCP_NODELAY, without which every answer waits for 40 ms, on sockets that are said to be TCP."""
    with command.listening("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:80/"),
        ("::1", "http://[::1]:80/"),
        ("0.0.0.0", "http://127.0.0.1:80/"),
        ("machine.example", "http://machine.example:80/"),
    ],
)
def test_the_address_that_is_told_can_be_opened_here(host, address):
    assert command.page_address(host, 80) == address


def test_a_bad_run_is_told_before_the_server_starts():
    result = run("explore", "lisstops", "--port", 0, "--no-open")
    assert result.exit_code == 2
    assert "there is no such run directory" in result.output


def test_an_address_that_is_none_is_told():
    result = run("explore", "listops", "--host", "no.such.host.invalid", "--no-open")
    assert result.exit_code == 2
    assert "--host no.such.host.invalid: there is no such address" in result.output


def test_without_the_extra_the_command_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    result = run("explore", "listops", "--no-open")
    assert result.exit_code == 2
    assert "pip install 'crvnn[explore]'" in result.output


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    """In a process of its own, as a user runs it."""
    process = small.begin("explore", "listops", "--port", "0", "--no-open", cwd=tmp_path)
    try:
        line = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/api/models")
        assert json.loads(connection.getresponse().read())["models"][0]["name"] == "listops"
        connection.close()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in errors
    assert process.returncode == 0


def test_help_needs_neither_torch_nor_the_extra():
    code = (
        "import sys\nsys.modules.update(torch=None, starlette=None, uvicorn=None)\n"
        "from crvnn_core.cli import main\nmain(['explore', '--help'], prog_name='crvnn')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--port" in done.stdout


def test_a_loaded_run_answers_as_ever(letters_run, explorer, small_catalog):
    """Exploring leaves nothing behind in the models."""
    fresh = load(letters_run, small_catalog).predict(["c d a"])[0]
    assert explorer.runs[str(letters_run)].predict(["c d a"])[0].probabilities == fresh.probabilities
