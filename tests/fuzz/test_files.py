"""Hostile specs and data, each of which once failed with a traceback or filled the memory: now one clear message."""

import gzip
import subprocess
import sys
import zipfile

import pytest

from crvnn_core import CrvnnError, InputError
from crvnn_core.files import open_text
from crvnn_parts.embeddings import read_vectors
from crvnn_tasks.from_file.task import FromFile
from crvnn_tasks.logic.language import worlds
from hostile import DEEP, DIGITS, refused

SPECS = {
    "thousands of digits": (f"seed = {DIGITS}", "thousands of digits"),
    "hexadecimal digits": (f"seed = 0x{'f' * 5000}", "hundreds of digits"),
    "nested lists": (f"seed = {DEEP}", "nested too deeply"),
    "nested tables": (f"seed = {'{a = ' * 300}1{'}' * 300}", "nested too deeply"),
    "a key of many parts": (f"{'a.' * 3000}b = 1", "nested too deeply"),
    "infinity for a size": ("[model]\nwidth = inf", "must be an integer, not inf"),
    "infinity for a number": ("[model]\ninput_dropout = inf", "must be finite, not inf"),
    "NUL in extends": ('extends = "a\\u0000b"', "no NUL character"),
    "NUL in a path": ('[training]\nstart = "a\\u0000b"', "no NUL character"),
    "nobody's home": ('[training]\nstart = "~nobody-is-called-so/run"', "home directory"),
    "a long path in extends": (f'extends = "{"a" * 5000}"', "too long"),
    "a date that is none": ("seed = 2024-02-30", "this is not TOML"),
}


@pytest.mark.parametrize("source", SPECS.values(), ids=SPECS)
def test_a_hostile_spec_is_one_message(tmp_path, source):
    path = tmp_path / "spec.toml"
    path.write_text(source[0])
    message = refused("assemble", path)
    assert source[1] in message
    assert str(path) in message


@pytest.mark.parametrize("value", [DIGITS, DEEP, "0x" + "f" * 5000])
def test_a_hostile_value_of_set_is_one_short_message(value):
    message = refused("assemble", "--set", f"seed={value}")
    assert "--set seed=" in message
    assert len(message) < 500


def test_a_spec_file_is_not_read_beyond_what_a_spec_may_have():
    assert "longer than 1,000,000 characters" in refused("assemble", "/dev/zero")


@pytest.mark.parametrize("args", [("assemble",), ("train",), ("predict", "x"), ("compare",)])
def test_a_path_that_is_too_long_is_one_message(args):
    command, *more = args
    assert "too long" in refused(command, "a" * 5000, *more)


def test_a_sentence_of_logic_may_not_be_nested_without_end():
    with pytest.raises(InputError, match="nested too deeply"):
        worlds(["(", "not"] * 5000)


@pytest.mark.parametrize(
    "row", ['{"text": "\\ud800", "label": "a"}', '{"text": "a", "label": NaN}', DEEP, DIGITS]
)
def test_a_hostile_line_of_json_is_a_malformed_row(tmp_path, row):
    path = tmp_path / "train.jsonl"
    path.write_text(f'{{"text": "good", "label": "a"}}\n{{"text": "bad", "label": "b"}}\n{row}\n')
    task = FromFile(str(path))
    with pytest.raises(InputError, match=r"train.jsonl:3: .*\n  --set task.bad_rows=skip"):
        list(task.read(path))


def zipped(path, damage=None, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a.txt", "some text of an archive\n" * 1000)
    data = bytearray(path.read_bytes())
    if damage is not None:
        damage(data)
    path.write_bytes(bytes(data))
    return path


def encrypted(data):
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1


def unknown_method(data):
    data[8:10] = b"\x63\x00"
    place = data.rindex(b"PK\x01\x02") + 10
    data[place : place + 2] = b"\x63\x00"


def later_version(data):
    data[data.rindex(b"PK\x01\x02") + 6] = 64


def flipped(data):
    data[60] ^= 0xFF


@pytest.mark.parametrize("damage", [encrypted, unknown_method, later_version, flipped])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_encrypted_or_damaged_zip_is_one_message(tmp_path, damage, method):
    path = zipped(tmp_path / "a.zip", damage, method)
    with pytest.raises(CrvnnError, match=r"a\.zip"), open_text(path) as file:
        list(file)


def test_a_huge_line_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(b"a" * 2**20)
    code = (
        "import resource, sys; from pathlib import Path; from crvnn_core.files import open_text\n"
        "from crvnn_core import CrvnnError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    with open_text(Path(sys.argv[1])) as file: list(file)\n"
        "except CrvnnError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    message, grown = done.stdout.splitlines()
    assert "a line is longer than 32 MiB" in message
    assert int(grown) < 150 * 1024  # KiB


def test_a_file_that_expands_a_hundredfold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("crvnn_core.files.HARMLESS", 2**20)
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"a\n" * 2**21))
    with pytest.raises(CrvnnError, match="expands to more than 100 times its size"), open_text(path) as file:
        list(file)


def test_a_header_of_word_vectors_with_thousands_of_digits_is_one_message(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(f"1 {DIGITS}\na 1 2\n")
    with pytest.raises(InputError, match=r"vectors.txt:1: expected a word and its numbers"):
        read_vectors(path, {"a"}, 0)
