"""Runs given as zip files and addresses: fetched once, verified, unpacked into the cache."""

import json
import threading

import pytest
from click.testing import CliRunner

import small
from crvnn_core import CrvnnError, RunSource
from crvnn_core.cli import main
from crvnn_core.files import sha256_of
from crvnn_core.host.runs import find_run
from crvnn_core.inference.trained import load
from crvnn_core.runs.archive import write_archive
from serving import serving
from stub_plugins import plugin, with_components


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("CRVNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "runs"


@pytest.fixture
def packed(letters_run, tmp_path):
    """A zip file of a run."""
    files = {path.name: path for path in letters_run.iterdir() if path.is_file()}
    write_archive(tmp_path / "letters.zip", "letters", files)
    return tmp_path / "letters.zip"


@pytest.fixture
def site(packed):
    with serving() as site:
        site.files["models/letters.zip"] = packed.read_bytes()
        yield site


def directories(cache):
    return [path.name for path in cache.iterdir() if path.is_dir() and len(path.name) == 64]


def test_a_model_is_loaded_from_a_zip_file(packed, letters, small_catalog, cache):
    found = load(packed, small_catalog)
    assert found.predict(["a b c"])[0].probabilities == letters.predict(["a b c"])[0].probabilities
    assert directories(cache) == [sha256_of(packed)]


def test_a_model_is_loaded_from_an_address_with_its_checksum_and_downloaded_once(
    packed, site, letters, small_catalog, cache, capsys
):
    address = f"{site.address}/models/letters.zip#sha256={sha256_of(packed)}"
    for _ in range(2):
        found = load(address, small_catalog)
        assert found.predict(["a b c"])[0].probabilities == letters.predict(["a b c"])[0].probabilities
    assert site.asked == [("models/letters.zip", None)]
    assert directories(cache) == [sha256_of(packed)]
    assert capsys.readouterr().err.startswith("downloading letters.zip (")
    assert not list(cache.rglob("*.part*"))


def test_a_kept_zip_file_that_was_changed_is_downloaded_again(packed, site, small_catalog, cache):
    address = f"{site.address}/models/letters.zip#sha256={sha256_of(packed)}"
    find_run(address, small_catalog)
    (cache / f"{sha256_of(packed)}.zip").write_bytes(b"PK")
    find_run(address, small_catalog)
    assert len(site.asked) == 2


def test_without_a_checksum_an_address_is_downloaded_every_time_and_the_checksum_is_said(
    packed, site, small_catalog, capsys
):
    address = f"{site.address}/models/letters.zip"
    for _ in range(2):
        assert find_run(address, small_catalog).spec.exists()
    assert len(site.asked) == 2
    assert f"with its checksum this is {address}#sha256={sha256_of(packed)}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["file", "address"])
def test_a_wrong_checksum_is_refused_with_both_values(kind, packed, site, small_catalog, cache):
    wanted = "0123456789abcdef" * 4
    place = packed if kind == "file" else f"{site.address}/models/letters.zip"
    with pytest.raises(CrvnnError, match="is refused: this is another file than expected") as error:
        load(f"{place}#sha256={wanted}", small_catalog)
    assert f"sha256   {sha256_of(packed)}\n  expected {wanted}" in str(error.value)
    assert not cache.exists() or directories(cache) == []
    assert not list(cache.rglob("*.part"))


def test_two_who_ask_for_one_address_at_once_download_it_once(packed, site, small_catalog):
    address = f"{site.address}/models/letters.zip#sha256={sha256_of(packed)}"
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(find_run(address, small_catalog).path)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1
    assert len(site.asked) == 1


def test_commands_take_zip_files_and_addresses(site, tmp_path, catalog):
    files = {path.name: path for path in find_run("listops", catalog).path.iterdir()}
    sha256 = write_archive(tmp_path / "listops.zip", "listops", files)
    site.files["listops.zip"] = (tmp_path / "listops.zip").read_bytes()
    for run in (str(tmp_path / "listops.zip"), f"{site.address}/listops.zip#sha256={sha256}"):
        done = CliRunner().invoke(main, ["predict", run, "[MAX 2 9 ]", "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)[0]["label"] == "9"
        done = CliRunner().invoke(main, ["compare", run, "listops-guided"])
        assert done.exit_code == 0, done.output


def test_a_shared_run_reads_no_file_of_this_machine_by_extending_it(letters_run, tmp_path, small_catalog):
    (tmp_path / "private.toml").write_text("key of the door\n")
    spec = (letters_run / "spec.toml").read_text()
    files = {path.name: path for path in letters_run.iterdir() if path.is_file()}
    files["spec.toml"] = spec.replace("\n", f'\nextends = "{tmp_path}/private.toml"\n', 1)
    write_archive(tmp_path / "bad.zip", "letters", files)
    with pytest.raises(CrvnnError, match="a resolved spec is complete and extends nothing") as error:
        load(tmp_path / "bad.zip", small_catalog)
    assert "key of the door" not in str(error.value)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ("htps://example.org/a.zip", "runs cannot be fetched from 'htps:'. Did you mean 'https'?"),
        ("{packed}#sha256=01234", "a SHA-256 checksum has 64 hexadecimal digits, not 5 characters"),
        ("{letters_run}#sha256=" + "0" * 64, "is a directory; a checksum is that of a zip file"),
    ],
)
def test_what_no_run_can_be_fetched_from_is_an_error(run, reason, packed, letters_run, small_catalog):
    with pytest.raises(CrvnnError) as caught:
        find_run(run.format(packed=packed, letters_run=letters_run), small_catalog)
    assert reason in str(caught.value)


def test_a_plug_in_adds_a_place_to_fetch_runs_from(letters_run):
    asked = []

    def fetch(rest):
        asked.append(rest)
        return letters_run

    catalog = with_components(small, plugin(crvnn_run_sources=[RunSource("shelf", fetch)]))
    assert find_run("shelf://top/left", catalog).path == letters_run
    assert find_run("shelf:top", catalog).path == letters_run
    assert asked == ["top/left", "top"]
    with pytest.raises(CrvnnError, match="'shelf:' has none"):
        find_run(f"shelf:top#sha256={'0' * 64}", catalog)


def test_a_plug_in_cannot_replace_http():
    web = plugin(crvnn_run_sources=[RunSource("https", "nowhere:nothing")])
    with pytest.raises(CrvnnError, match="two plug-ins offer a source of runs called 'https'"):
        with_components(web)
