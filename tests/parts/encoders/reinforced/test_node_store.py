"""A store of nodes against indexing one tensor of all of them."""

import gc
import weakref

import pytest
import torch

from crvnn_parts.encoders.reinforced.node_store import NodeStore


def program(append, read, blocks):
    """Appends blocks, and sums reads with repeats in between, some of them appended again."""
    torch.manual_seed(1)
    total, filled = 0, 0
    for block in blocks:
        append(block)
        filled += len(block)
        index = torch.randint(filled, (2, 5))
        states = read(index)
        total = total + (states * torch.randn(2, 5, 3, dtype=states.dtype)).sum()
        append(torch.tanh(states[0]))
        filled += 5
    return total


class OneTensor:
    """The twin of the store that indexes one tensor."""

    def __init__(self, like):
        self.values = like.new_zeros(0, like.shape[-1])

    def append(self, states):
        self.values = torch.cat([self.values, states])

    def read(self, index):
        return self.values[index]


@pytest.fixture
def blocks():
    torch.manual_seed(0)
    return [torch.randn(size, 3, dtype=torch.double, requires_grad=True) for size in (4, 1, 6)]


def test_reads_and_gradients_are_those_of_one_tensor_of_all_nodes(blocks):
    fast, slow = NodeStore(26, blocks[0]), OneTensor(blocks[0])
    got, want = (program(store.append, store.read, blocks) for store in (fast, slow))
    torch.testing.assert_close(got, want)
    for ours, theirs in zip(
        torch.autograd.grad(got, blocks, retain_graph=True), torch.autograd.grad(want, blocks), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_a_second_backward_pass_gives_the_same_gradients(blocks):
    store = NodeStore(26, blocks[0])
    total = program(store.append, store.read, blocks)
    one, two = (torch.autograd.grad(total, blocks, retain_graph=True) for _ in range(2))
    assert all(torch.equal(*both) for both in zip(one, two, strict=True))


def test_blocks_without_gradient_may_come_first(blocks):
    store = NodeStore(4 + 6, blocks[0])
    store.append(blocks[0].detach())
    before = store.read(torch.tensor([0, 3]))
    store.append(blocks[2])
    (store.read(torch.tensor([1, 4, 4, 9])).sum() + before.sum()).backward()
    assert blocks[2].grad.sum(1).tolist() == [6, 0, 0, 0, 0, 3]


def test_the_graph_frees_the_nodes_without_the_garbage_collector(blocks):
    gc.disable()
    try:
        store = NodeStore(26, blocks[0])
        total, rows = program(store.append, store.read, blocks), weakref.ref(store.rows)
        total.backward()
        del store, total
        assert rows() is None
    finally:
        gc.enable()
