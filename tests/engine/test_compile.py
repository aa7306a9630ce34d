"""torch.compile: nothing is compiled again for other lengths."""

import pytest
import torch

LENGTHS = ((3, 5), (3, 9), (2, 14), (4, 20), (3, 6), (5, 11), (3, 17), (2, 8), (3, 13), (4, 7))


@pytest.fixture
def encoder(letters):
    return letters.model.encoder


@pytest.fixture
def graphs():
    """A backend that counts the graphs it is given, and runs them as they are."""

    class Graphs:
        count = 0

        def __call__(self, module, inputs):
            self.count += 1
            return module.forward

    torch.compiler.reset()
    yield Graphs()
    torch.compiler.reset()


def batches(width):
    for size, longest in LENGTHS:
        lengths = torch.randint(1, longest + 1, (size,))
        lengths[0] = longest
        yield torch.randn(size, longest, width), torch.arange(longest) < lengths.unsqueeze(1)


@torch.no_grad()
def test_a_compiled_encoder_runs_its_loop_outside_of_the_graph_and_is_never_compiled_again(encoder, graphs):
    compiled = torch.compile(encoder, backend=graphs)
    for inputs, mask in batches(encoder.width):
        found, wanted = compiled(inputs, mask), encoder(inputs, mask)
        assert torch.equal(found.vector, wanted.vector)
        assert torch.equal(found.steps, wanted.steps)
    assert graphs.count == 0  # there is nothing else in an encoder


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"hard": True}, {"depth": 4}], ids=str)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_traceable_form_is_compiled_once_for_all_lengths(options, encoder, graphs):
    compiled = torch.compile(encoder.traceable(**options), backend=graphs, dynamic=True, fullgraph=True)
    for inputs, mask in batches(encoder.width):
        found = compiled(inputs, mask)
        if "depth" not in options:
            wanted = encoder(inputs, mask, **options).vector
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert graphs.count == 1


def test_gradients_flow_through_a_compiled_encoder(letters, encoder, graphs):
    compiled = torch.compile(encoder, backend=graphs)
    inputs, mask = next(batches(encoder.width))
    wanted = torch.autograd.grad(encoder(inputs, mask).vector.sum(), encoder.start)
    assert torch.equal(torch.autograd.grad(compiled(inputs, mask).vector.sum(), encoder.start)[0], wanted[0])
