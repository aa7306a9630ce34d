"""Hostile run directories, environments and inputs of a model: one clear message, and never NaN for an answer."""

import json
import os
import shutil
import struct
import subprocess
import sys
import zlib

import pytest
import torch

from crvnn_core import CrvnnError, InputError
from crvnn_core.engine.checks import checked_lengths
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.training import checkpoint
from crvnn_core.training.trainer import train
from hostile import DIGITS, refused
from small import PLUGIN, SETTINGS, options

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


def hostile_safetensors(path, structure):
    """A file with this structure, and the checksum of it."""
    metadata = {"structure": structure, "crc32": f"{zlib.crc32(structure.encode()):08x}"}
    header = json.dumps({"__metadata__": metadata}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    return path


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_weights_of_hostile_structure_with_the_right_checksum_are_refused(tmp_path, structure):
    with pytest.raises(CrvnnError, match=r"w\.safetensors was not written by crvnn"):
        checkpoint.load(hostile_safetensors(tmp_path / "w.safetensors", structure))


def test_a_header_that_promises_terabytes_is_refused(tmp_path):
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(CrvnnError, match="is damaged"):
        checkpoint.load(path)


def changed_copy(trained_run, copy, change):
    shutil.copytree(trained_run, copy)
    state = checkpoint.load(copy / "weights.safetensors")
    change(state["model"])
    checkpoint.save(copy / "weights.safetensors", state)
    return copy


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(letters_run, tmp_path, value):
    bad = changed_copy(letters_run, tmp_path / "run", lambda model: model["embed.weight"].fill_(value))
    message = refused("predict", bad, "a b", "--json", "--plugin", PLUGIN)
    assert "not finite: embed.weight has NaN or infinity" in message


def test_weights_that_are_no_tensors_are_refused(letters_run, tmp_path):
    bad = changed_copy(letters_run, tmp_path / "run", lambda model: model.update({"embed.weight": "x"}))
    assert "not tensors" in refused("predict", bad, "a b", "--plugin", PLUGIN)


def test_an_answer_that_is_not_finite_is_refused(letters_run, tmp_path):
    def enlarge(model):
        for name in model:
            if name.startswith("head."):
                model[name].fill_(3e38)

    bad = changed_copy(letters_run, tmp_path / "run", enlarge)
    assert "NaN or infinity for 1 of 1 texts" in refused("predict", bad, "a b", "--plugin", PLUGIN)


@pytest.mark.parametrize("size", ["Infinity", "1e400", "true", '"64"', "-1", DIGITS])
def test_a_vocabulary_with_a_size_that_is_none_is_refused(letters_run, tmp_path, size):
    copy = tmp_path / "run"
    shutil.copytree(letters_run, copy)
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


@pytest.mark.parametrize("value", ["x", "-1", "²", "1" * 5000])
@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT", "SLURM_PROCID"])
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


def test_a_rank_beyond_the_number_of_processes_is_one_message(monkeypatch, small_catalog):
    for name, value in (("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2"), ("RANK", "7"), ("LOCAL_RANK", "7")):
        monkeypatch.setenv(name, value)
    with pytest.raises(CrvnnError, match="RANK is set to 7 in the environment, but there are 2 processes"):
        train(assemble(read_spec(small_catalog, sets=SETTINGS), small_catalog))
