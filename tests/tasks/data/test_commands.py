"""``crvnn data get``, with a mirror on this machine."""

import io
import json
import zipfile

import pytest
from click.testing import CliRunner

from crvnn_core import CrvnnError
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


def test_a_second_call_says_that_everything_is_there(site, tmp_path):
    run("listops", "--dir", tmp_path, "--mirror", site.address)
    site.files.clear()
    result = run("listops", "--dir", tmp_path)
    assert result.stdout.count("already present; unchanged since it was downloaded") == 2
    assert result.stderr == ""


def test_machines_get_json(site, tmp_path):
    result = run("listops", "--dir", tmp_path, "--mirror", site.address, "--json")
    facts = json.loads(result.stdout)
    assert facts["name"] == "listops"
    assert [file["file"] for file in facts["files"]] == ["train_d20s.tsv", "test_d20s.tsv"]
    assert facts["files"][0]["url"] == f"{site.address}/train_d20s.tsv"
    assert all(file["fetched"] and len(file["sha256"]) == 64 for file in facts["files"])


def test_a_file_that_the_server_does_not_have_is_one_message(site, tmp_path):
    del site.files["test_d20s.tsv"]
    with pytest.raises(CrvnnError, match=r"test_d20s\.tsv: the server answers 404"):
        run("listops", "--dir", tmp_path, "--mirror", site.address)
    assert (tmp_path / "train_d20s.tsv").exists()
    assert not (tmp_path / "test_d20s.tsv").exists()


def test_an_archive_other_than_the_published_one_is_refused(site, tmp_path):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for split in ("train", "dev", "test"):
            archive.writestr(f"{split}.txt", "(2 forged)\n")
    site.files["trainDevTestTrees_PTB.zip"] = memory.getvalue()
    with pytest.raises(CrvnnError, match="the checksum is wrong, so the file was deleted"):
        run("sst", "--dir", tmp_path, "--mirror", site.address)
    assert list(tmp_path.iterdir()) == []


def test_the_directory_must_be_said():
    result = run("listops")
    assert result.exit_code == 2
    assert "Missing option '--dir'" in result.stderr


def test_help_has_an_example_and_names_what_there_is():
    from crvnn_tasks.data.sources import DATASETS

    text = run("--help").stdout
    assert "crvnn data get sst --dir data/sst" in text
    assert all(name in text for name in DATASETS)
