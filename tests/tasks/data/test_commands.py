"""``crvnn data get``, with a mirror on this machine."""

import json

import pytest
from click.testing import CliRunner

from crvnn_tasks.data.commands import get_command
from serving import serving


@pytest.fixture
def site():
    with serving() as served:
        served.files = {"train_d20s.tsv": b"1\t[MAX 1 0 ]\n", "test_d20s.tsv": b"2\t[MAX 1 2 ]\n"}
        yield served


def run(*args):
    """Run the command in this process; our own errors come through."""
    return CliRunner().invoke(get_command, [str(arg) for arg in args], catch_exceptions=False)


def test_files_are_fetched_and_told_of(site, tmp_path):
    result = run("listops", "--dir", tmp_path / "d", "--mirror", f"{site.address}/")
    assert result.exit_code == 0
    assert (tmp_path / "d" / "train_d20s.tsv").read_bytes() == b"1\t[MAX 1 0 ]\n"
    assert result.stdout.splitlines() == [
        "train_d20s.tsv  13 bytes  downloaded; no published checksum; recorded for later checks",
        "test_d20s.tsv  13 bytes  downloaded; no published checksum; recorded for later checks",
        f"{tmp_path / 'd'} has all files of listops.",
    ]
    assert result.stderr.splitlines() == [
        "downloading train_d20s.tsv (13 bytes)",
        "downloading test_d20s.tsv (13 bytes)",
    ]
    site.files.clear()
    result = run("listops", "--dir", tmp_path / "d")
    assert result.stdout.count("already present; unchanged since it was downloaded") == 2
    assert result.stderr == ""


def test_machines_get_json(site, tmp_path):
    result = run("listops", "--dir", tmp_path, "--mirror", site.address, "--json")
    facts = json.loads(result.stdout)
    assert facts["name"] == "listops"
    assert [file["file"] for file in facts["files"]] == ["train_d20s.tsv", "test_d20s.tsv"]
    assert facts["files"][0]["url"] == f"{site.address}/train_d20s.tsv"
    assert all(file["fetched"] and len(file["sha256"]) == 64 for file in facts["files"])


def test_help_has_an_example_and_names_what_there_is():
    from crvnn_tasks.data.sources import DATASETS

    text = run("--help").stdout
    assert "crvnn data get sst --dir data/sst" in text
    assert all(name in text for name in DATASETS)
