"""Runs as zip files: the same bytes every time, and nothing unpacked that could do harm."""

import os
import stat
import zipfile

import pytest

from crvnn_core import CrvnnError
from crvnn_core.files import sha256_of
from crvnn_core.runs import archive
from crvnn_core.runs.archive import unpack, write_archive

SPEC = "# resolved by crvnn\n# end\n"


def zipped(path, members, compression=zipfile.ZIP_STORED):
    """A zip file with these texts, by name."""
    with zipfile.ZipFile(path, "w", compression) as packed:
        for name, content in members.items():
            info = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name)
            packed.writestr(info, content, compression)
    return path


def unpacked(path, target):
    unpack(path, path.name, target)
    return {str(p.relative_to(target)): p.read_text() for p in target.rglob("*") if p.is_file()}


def test_the_same_files_give_the_same_bytes_whatever_their_dates_modes_and_order(tmp_path):
    (tmp_path / "weights").write_bytes(b"\0" * 100)
    files = {"weights.safetensors": tmp_path / "weights", "spec.toml": SPEC}
    first = write_archive(tmp_path / "one.zip", "run", files)
    os.utime(tmp_path / "weights", (10**9, 10**9))
    (tmp_path / "weights").chmod(0o600)
    second = write_archive(tmp_path / "two.zip", "run", dict(reversed(files.items())))
    assert first == second == sha256_of(tmp_path / "one.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_what_was_packed_is_unpacked(tmp_path):
    (tmp_path / "weights").write_text("numbers")
    files = {"weights.safetensors": tmp_path / "weights", "spec.toml": SPEC, "seed-1/spec.toml": SPEC}
    write_archive(tmp_path / "run.zip", "my-run", files)
    found = unpacked(tmp_path / "run.zip", tmp_path / "cache" / "run")
    assert found == {"weights.safetensors": "numbers", "spec.toml": SPEC, "seed-1/spec.toml": SPEC}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["run"]


def test_a_run_may_lie_at_the_root_of_an_archive(tmp_path):
    path = zipped(tmp_path / "a.zip", {"spec.toml": SPEC, "results.json": "{}"})
    assert unpacked(path, tmp_path / "run") == {"spec.toml": SPEC, "results.json": "{}"}


def test_files_beside_the_folder_of_the_run_are_left_out(tmp_path):
    path = zipped(tmp_path / "a.zip", {"run/spec.toml": SPEC, "__MACOSX/._spec.toml": "", "x.txt": ""})
    assert unpacked(path, tmp_path / "run") == {"spec.toml": SPEC}


def test_an_archive_writes_nothing_elsewhere_and_makes_no_links(tmp_path):
    link = zipfile.ZipInfo("run/weights.safetensors")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    names = ["run/../../outside", "/tmp/outside", "..\\outside", link]
    path = zipped(tmp_path / "bad.zip", {"run/spec.toml": SPEC} | dict.fromkeys(names, "/etc/passwd"))
    unpack(path, "bad.zip", tmp_path / "cache" / "run")
    assert not (tmp_path / "cache" / "run" / "weights.safetensors").is_symlink()
    assert {found.name for found in tmp_path.iterdir()} == {"bad.zip", "cache"}
    assert [found.name for found in (tmp_path / "cache").iterdir()] == ["run"]


def test_an_archive_that_expands_beyond_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "HARMLESS", 1000)
    content = {"run/spec.toml": SPEC, "run/metrics.jsonl": "0" * 1_000_000}
    path = zipped(tmp_path / "bomb.zip", content, zipfile.ZIP_DEFLATED)
    with pytest.raises(
        CrvnnError, match=r"bomb\.zip is refused: it has 1\.\d kB and would unpack to 1\.0 MB"
    ):
        unpack(path, "bomb.zip", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_size_that_is_not_what_the_archive_says_is_noticed(tmp_path):
    path = zipped(tmp_path / "liar.zip", {"spec.toml": SPEC, "m": "0" * 5000}, zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    real, said = (5000).to_bytes(4, "little"), (50).to_bytes(4, "little")
    assert content.count(real) == 2  # before the file, and in the directory at the end
    path.write_bytes(content.replace(real, said))
    with pytest.raises(CrvnnError, match=r"liar\.zip: this is not a zip file, or it is damaged"):
        unpack(path, "liar.zip", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("members", "held"),
    [({}, "nothing"), ({"a": "", "b": ""}, "a, b"), ({"deep/er/spec.toml": SPEC}, "deep/er/spec.toml")],
)
def test_an_archive_without_a_run_says_what_it_holds(tmp_path, members, held):
    path = zipped(tmp_path / "other.zip", members)
    with pytest.raises(
        CrvnnError, match=f"holds no run: there is no spec.toml in it, only {held}. 'crvnn share pack'"
    ):
        unpack(path, "other.zip", tmp_path / "run")


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut short"])
def test_what_is_no_zip_file_is_said_to_be_none(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(CrvnnError, match="this is not a zip file, or it is damaged"):
        unpack(tmp_path / "a.zip", "a.zip", tmp_path / "run")


def test_of_two_processes_that_unpack_one_archive_the_second_leaves_the_first_ones_directory(tmp_path):
    path = zipped(tmp_path / "a.zip", {"spec.toml": SPEC})
    unpack(path, "a.zip", tmp_path / "cache" / "run")
    (tmp_path / "cache" / "run" / "mark").touch()
    unpack(path, "a.zip", tmp_path / "cache" / "run")
    assert (tmp_path / "cache" / "run" / "mark").exists()
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["run"]


def test_a_failed_write_leaves_no_archive(tmp_path):
    with pytest.raises(CrvnnError, match="cannot be written"):
        write_archive(tmp_path / "a.zip", "run", {"spec.toml": tmp_path / "missing"})
    assert list(tmp_path.iterdir()) == []
