"""The Hugging Face hub: pushed and fetched through huggingface_hub itself, with a server on this machine."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from crvnn_core import CrvnnError
from crvnn_export.hub import fetch, push
from hub import hub as a_hub

#: Calls commands in one process, which reads HF_ENDPOINT when it imports huggingface_hub.
CALLS = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
import small
from crvnn_core.cli import main
for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, ["--plugin", small.__file__, *arguments])
    print(json.dumps([done.exit_code, done.output]), file=sys.__stdout__)
"""

needs_library = pytest.mark.skipif(
    find_spec("huggingface_hub") is None,
    reason="huggingface_hub is not installed (the extra 'hub')",
)


@pytest.fixture
def hub():
    with a_hub() as hub:
        yield hub


def calls(hub, home, *commands, token="secret"):
    """The exit code and the output of each command, with this server as the hub."""
    support = os.path.dirname(sys.modules["hub"].__file__)
    environment = os.environ | {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(home),
        "HF_TOKEN": token,
        "no_proxy": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([support, *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", CALLS, json.dumps(commands)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_library
def test_a_run_is_pushed_to_a_repository_and_used_from_there(hub, letters_run, letters, tmp_path):
    pushed, tagged, used, older, revision, repository = calls(
        hub,
        tmp_path,
        ["share", "push", str(letters_run), "me/letters", "--private", "--message", "Know letters"],
        ["share", "push", str(letters_run), "me/letters", "--revision", "v1", "--metrics"],
        ["predict", "hf:me/letters", "a b c", "--json"],
        ["eval", "hf://me/letters@v1", "--split", "dev"],
        ["predict", "hf:me/letters@v2", "a b c"],
        ["predict", "hf:me/none", "a b c"],
    )
    assert pushed[0] == 0, pushed[1]
    assert pushed[1].startswith(f"{hub.address}/me/letters/commit/")
    assert pushed[1].endswith("Use it as hf:me/letters\n")
    assert tagged[1].endswith("Use it as hf:me/letters@v1\n")
    assert hub.private == {"me/letters"}
    assert hub.messages == ["Know letters", "Upload with crvnn"]
    main, v1 = hub.repositories["me/letters"]["main"], hub.repositories["me/letters"]["v1"]
    assert main["weights.safetensors"] == (letters_run / "weights.safetensors").read_bytes()
    assert set(v1) - set(main) == {"metrics.jsonl"}
    assert main["README.md"].startswith(b'---\nlibrary_name: "crvnn"\n')
    assert used[0] == older[0] == 0, used[1] + older[1]
    label = letters.predict(["a b c"])[0].label
    assert f'"label": "{label}"' in used[1]
    assert revision[0] == 2
    assert "hf:me/letters@v2 cannot be fetched: the repository has no such revision" in revision[1]
    assert repository[0] == 2
    assert "hf:me/none cannot be fetched: the hub answers 401. Is there such a repository?" in repository[1]


@needs_library
def test_without_access_nothing_is_pushed(hub, letters_run, tmp_path):
    ((code, said),) = calls(hub, tmp_path, ["share", "push", str(letters_run), "me/letters"], token="wrong")
    assert code == 2
    assert "me/letters cannot be pushed: the hub answers 401." in said
    assert "'hf auth login' gives access" in said
    assert hub.repositories == {}


def test_an_address_that_is_none_is_said():
    for address in ("", "name", "a/b/c", "owner/name@", "own er/name"):
        with pytest.raises(CrvnnError, match="an address on the hub is hf:owner/name or hf:owner/name@rev"):
            fetch(address)
    with pytest.raises(CrvnnError, match="name: a repository of the hub is called owner/name"):
        push({}, "name")


def test_without_the_library_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: fetch("owner/name"), lambda: push({}, "owner/name")):
        with pytest.raises(CrvnnError, match=r"needs the package huggingface_hub: install 'crvnn\[hub\]'"):
            call()
