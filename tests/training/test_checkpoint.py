"""Checkpoints: what goes in comes out, and a damaged file is never taken for a sound one."""

import contextlib
import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from crvnn_core import CrvnnError
from crvnn_core.training import checkpoint
from small import same

KINDS = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    kind = draw(st.sampled_from(KINDS))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    tensor = (torch.randn(shape, generator=generator) * 3).to(kind)
    if tensor.is_floating_point() and draw(st.booleans()):
        tensor.fill_(draw(st.sampled_from([math.inf, -math.inf, math.nan, -0.0])))
    return tensor.mT if tensor.dim() >= 2 and draw(st.booleans()) else tensor


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=True), st.text(max_size=5)
)
KEYS = st.one_of(
    st.integers(-3, 12),
    st.text("ab01.", max_size=3),
    st.sampled_from(["tensor", "dict", "ünï"]),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
TREES = st.recursive(
    st.one_of(PLAIN, tensors()),
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoint") / "state.safetensors"


def test_the_same_content_gives_the_same_bytes(tmp_path):
    tree, path = (
        {"model": {"a": torch.ones(3), "b": torch.zeros(2, 2)}, "step": 7},
        tmp_path / "x.safetensors",
    )
    written = set()
    for _ in range(20):
        checkpoint.save(path, tree)
        written.add(path.read_bytes())
    assert len(written) == 1


@given(tree=st.dictionaries(KEYS, TREES, max_size=5))
def test_what_was_saved_is_what_is_loaded(tree, path):
    checkpoint.save(path, tree)
    assert same(checkpoint.load(path), tree)


def test_tensors_that_stand_in_like_places_are_kept_apart(path):
    one, two, three, four = (torch.tensor(float(n)) for n in range(4))
    tree = {1: one, "1": two, "a": {"b": three}, "a.b": four, ".1": one + 9}
    checkpoint.save(path, tree)
    assert same(checkpoint.load(path), tree)


def test_saving_changes_nothing_in_memory_and_shares_nothing_with_it(path):
    tensor = torch.ones(3, requires_grad=True)
    checkpoint.save(path, {"x": tensor, "again": tensor, "part": tensor[:2]})
    assert tensor.requires_grad
    found = checkpoint.load(path)
    found["x"][:] = 5
    assert found["again"].tolist() == [1, 1, 1]
    assert found["part"].tolist() == [1, 1]


def test_what_cannot_be_kept_is_refused_by_its_place(path):
    with pytest.raises(TypeError, match=r"a\.0: a checkpoint cannot hold set"):
        checkpoint.save(path, {"a": [{1, 2}]})


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of every kind of thing, and what is in it."""
    tree = {
        "weights": {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(7), "none": torch.zeros(0, 3)},
        "position": {"step": 12, "best": None, "limits": (1, 2)},
    }
    checkpoint.save(tmp_path / "state.safetensors", tree)
    return tmp_path / "state.safetensors", tree


def test_a_file_cut_short_anywhere_is_damaged(saved):
    path, _ = saved
    whole = path.read_bytes()
    for length in (*range(0, len(whole), 17), len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CrvnnError, match=r"state\.safetensors is damaged: "):
            checkpoint.load(path)


def test_a_changed_byte_anywhere_never_goes_unnoticed(saved):
    path, tree = saved
    whole = path.read_bytes()
    generator = random.Random(0)
    unnoticed = []
    for place in range(len(whole)):
        byte = generator.choice([whole[place] ^ 1, whole[place] ^ 0xFF])
        path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
        with contextlib.suppress(CrvnnError):  # white space may change: then nothing else has
            if not same(checkpoint.load(path), tree):
                unnoticed.append(place)
    assert unnoticed == []


@pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 64, b'{"step": 3}'])
def test_a_file_of_another_kind_is_damaged(content, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(CrvnnError, match=r"x\.safetensors is damaged"):
        checkpoint.load(path)


def test_a_file_that_is_missing_is_said_to_be(tmp_path):
    for path in (tmp_path / "nothing.safetensors", tmp_path):
        with pytest.raises(CrvnnError, match=f"^{path} is missing$"):
            checkpoint.load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_that_others_wrote_is_told_from_a_damaged_one(metadata, tmp_path):
    save_file({"w": torch.ones(2)}, tmp_path / "theirs.safetensors", metadata)
    with pytest.raises(CrvnnError, match=r"theirs\.safetensors was not written by crvnn"):
        checkpoint.load(tmp_path / "theirs.safetensors")


def test_the_tensors_can_be_read_without_crvnn(saved):
    from safetensors.torch import load_file

    path, tree = saved
    assert torch.equal(load_file(path)["weights.w"], tree["weights"]["w"])
