"""Hostile specs, data, runs and environments, each of which once failed with a traceback or filled the memory."""

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib

import pytest
import torch

from calling import run
from crvnn_core import CrvnnError, InputError
from crvnn_core.engine.checks import checked_lengths
from crvnn_core.files import open_text
from crvnn_core.runs.archive import unpack
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.training import checkpoint
from crvnn_core.training.trainer import train
from crvnn_parts.embeddings import read_vectors
from crvnn_tasks.from_file.task import FromFile
from crvnn_tasks.logic.language import worlds
from small import PLUGIN, SETTINGS, options

DIGITS = "1" * 5000
DEEP = "[" * 3000 + "]" * 3000


def refused(*args):
    """The message of a command that fails."""
    message = run(*args, code=2).stderr
    assert message.startswith(("crvnn: ", "Usage: "))
    return message


SPECS = {
    "thousands of digits": (f"seed = {DIGITS}", "4300 digits"),
    "nested lists": (f"seed = {DEEP}", "nested too deeply"),
    "infinity for a size": ("[model]\nwidth = inf", "must be an integer, not inf"),
    "infinity for a number": ("[model]\ninput_dropout = inf", "must be finite, not inf"),
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


@pytest.mark.parametrize("value", [DIGITS, DEEP])
def test_a_hostile_value_of_set_is_one_short_message(value):
    message = refused("assemble", "--set", f"seed={value}")
    assert "--set seed=" in message
    assert len(message) < 500


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


def zipped(path, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("spec.toml", "some text of an archive\n" * 1000)
    return bytearray(path.read_bytes())


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


@pytest.mark.parametrize(
    ("damage", "method"),
    [
        (encrypted, zipfile.ZIP_DEFLATED),
        (unknown_method, zipfile.ZIP_DEFLATED),
        (later_version, zipfile.ZIP_DEFLATED),
        (flipped, zipfile.ZIP_DEFLATED),
        (flipped, zipfile.ZIP_LZMA),
        (flipped, zipfile.ZIP_BZIP2),
    ],
)
def test_an_encrypted_or_damaged_zip_is_one_message(tmp_path, damage, method):
    path = tmp_path / "a.zip"
    data = zipped(path, method)
    damage(data)
    path.write_bytes(data)
    with pytest.raises(CrvnnError, match=r"a\.zip"), open_text(path) as file:
        list(file)
    with pytest.raises(CrvnnError, match=r"a\.zip"):
        unpack(path, "a.zip", tmp_path / "unpacked")
    assert list(tmp_path.iterdir()) == [path]


def test_an_archive_with_a_file_without_a_name_is_refused(tmp_path):
    path = tmp_path / "run.zip"
    data = bytearray(zipped(path))
    at = (
        data.rindex(b"PK\x01\x02") + 28
    )  # the lengths of name, extra field and comment, in the archive's directory
    data[at : at + 6] = bytes(4) + data[at : at + 2]  # what was its name is a comment now
    path.write_bytes(data)
    with pytest.raises(CrvnnError, match=r"run\.zip: this is not a zip file, or it is damaged"):
        unpack(path, "run.zip", tmp_path / "unpacked")


def test_an_archive_with_a_name_that_is_no_utf8_is_refused(tmp_path):
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é/spec.toml", "content")
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff"))
    with pytest.raises(CrvnnError, match=r"run\.zip: this is not a zip file, or it is damaged"):
        unpack(path, "run.zip", tmp_path / "unpacked")
    with pytest.raises(CrvnnError, match=r"run\.zip"), open_text(path) as file:
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


def test_a_header_of_word_vectors_with_thousands_of_digits_is_one_message(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(f"1 {DIGITS}\na 1 2\n")
    with pytest.raises(InputError, match=r"vectors.txt:1: expected a word and its numbers"):
        read_vectors(path, {"a"}, 0)


STRUCTURES = {
    "no dictionary": "[1]",
    "no JSON": "{",
    "another kind": '{"set": [1]}',
    "two kinds": '{"list": [], "tuple": []}',
    "no kind": "{}",
    "unhashable key": '{"dict": [[{"list": []}, 1]]}',
    "no pairs": '{"dict": [1]}',
    "no list": '{"list": "abc"}',
    "missing tensor": '{"dict": [["model", {"tensor": "gone"}]]}',
    "tensor by a list": '{"tensor": [1]}',
    "nested": '{"list": [' * 3000 + "]}" * 3000,
    "digits": '{"dict": [["a", ' + DIGITS + "]]}",
}


def weights(path, **header):
    """A file of weights with nothing but a header."""
    content = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content)
    return path


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_weights_of_hostile_structure_with_the_right_checksum_are_refused(tmp_path, structure):
    metadata = {"structure": structure, "crc32": f"{zlib.crc32(structure.encode()):08x}"}
    path = weights(tmp_path / "w.safetensors", __metadata__=metadata)
    with pytest.raises(CrvnnError, match=r"w\.safetensors was not written by crvnn"):
        checkpoint.load(path)


def test_a_header_that_promises_terabytes_is_refused(tmp_path):
    tensor = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    path = weights(tmp_path / "w.safetensors", a=tensor)
    with pytest.raises(CrvnnError, match="is damaged"):
        checkpoint.load(path)


def overflowing(model):
    for name in model:
        if name.startswith("head."):
            model[name].fill_(3e38)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda model: model["embed.weight"].fill_(torch.nan),
            "not finite: embed.weight has NaN or infinity",
        ),
        (
            lambda model: model["embed.weight"].fill_(torch.inf),
            "not finite: embed.weight has NaN or infinity",
        ),
        (lambda model: model.update({"embed.weight": "x"}), "not tensors"),
        (overflowing, "NaN or infinity for 1 of 1 texts"),
    ],
)
def test_a_model_without_a_finite_answer_is_refused(letters_run, tmp_path, change, message):
    bad = shutil.copytree(letters_run, tmp_path / "run")
    state = checkpoint.load(bad / "weights.safetensors")
    change(state["model"])
    checkpoint.save(bad / "weights.safetensors", state)
    assert message in refused("predict", bad, "a b", "--json", "--plugin", PLUGIN)


@pytest.mark.parametrize("size", ["Infinity", "1e400", "true", '"64"', "-1", DIGITS])
def test_a_vocabulary_with_a_size_that_is_none_is_refused(letters_run, tmp_path, size):
    copy = shutil.copytree(letters_run, tmp_path / "run")
    found = json.loads((copy / "vocabulary.json").read_text())
    text = json.dumps({**found, "vector_size": "SIZE"}).replace('"SIZE"', size)
    (copy / "vocabulary.json").write_text(text)
    assert "vocabulary.json is damaged" in refused("predict", copy, "a b", "--plugin", PLUGIN)


def test_finite_inputs_whose_squares_overflow_are_refused():
    inputs = torch.zeros(1, 3, 4)
    inputs[0, 1, 2] = 1e30
    mask = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(InputError, match=r"value beyond 2e\+16 in its input, at token 1"):
        checked_lengths(inputs, mask)
    assert checked_lengths(inputs.double(), mask) == [3]
    assert checked_lengths(torch.full((1, 3, 4), 6e4, dtype=torch.float16), mask) == [3]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORLD_SIZE", "x"),
        ("WORLD_SIZE", "-1"),
        ("WORLD_SIZE", "²"),
        ("WORLD_SIZE", DIGITS),
        ("RANK", "x"),
        ("LOCAL_RANK", "x"),
        ("MASTER_PORT", "x"),
        ("SLURM_PROCID", "x"),
    ],
)
def test_a_number_of_a_launcher_that_is_none_is_one_message(monkeypatch, small_catalog, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(CrvnnError, match=f"{name} is set to"):
        train(assemble(read_spec(small_catalog, sets=SETTINGS), small_catalog))


def test_a_rank_that_is_none_is_one_message_of_the_command():
    """Fabric reads it as it is imported."""
    command = [sys.executable, PLUGIN, "train", *options(), "--out", os.devnull]
    done = subprocess.run(command, env={**os.environ, "RANK": "x"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "crvnn: RANK is set to 'x' in the environment" in done.stderr
    assert "Traceback" not in done.stderr
