"""The loop that everybody writes: gradients are those of the present weights, whatever else lives or has changed."""

import copy
import os
import subprocess
import sys
import threading
from itertools import product

import pytest
import torch

from crvnn_core.kernels import without
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import levels_of
from twins import batch, doubled, encoder_of, needs_kernels

MOST = 1e-5  # of the norm of all gradients
PRESETS = ("paper", "reference", "simplified-2023", "stretched, bounded")
LENGTHS = (6, 1, 4, 9)

pytestmark = needs_kernels


def _options(encoder, inputs, mask, mode):
    """What a forward pass is given: the trees to compose along, if any."""
    if mode == "soft":
        return {}
    if mode == "self-training":
        return {"levels": encoder.sample(inputs, mask, 1.0).levels}
    return {"levels": levels_of([Tree.joining(["x"] * n, [*range(n - 1)]) for n in LENGTHS], mask)}


def _loss(encoder, inputs, mask, **options):
    """A number, and the output that it was computed from."""
    out = encoder(inputs, mask, **options)
    weights = torch.linspace(-1, 1, encoder.width, dtype=inputs.dtype)
    loss = (out.vector @ weights).mean() + out.penalty.sum()
    return loss if out.decision_loss is None else loss + out.decision_loss.sum(), out


def _gradients(encoder, loss=None, batch_=None, **options):
    loss = _loss(encoder, *(batch_ or batch(LENGTHS)), **options)[0] if loss is None else loss
    found = torch.autograd.grad(
        loss, list(encoder.parameters()), allow_unused=True, materialize_grads=True, retain_graph=True
    )
    return torch.cat([gradient.flatten() for gradient in found])


def _right(encoder, **options):
    """The gradients in float64, by torch."""
    inputs, mask = batch(LENGTHS)
    with without():
        return _gradients(doubled(encoder), batch_=(inputs.double(), mask), **options)


def _error(got, right):
    return ((got.double() - right).norm() / right.norm()).item()


def _expect_right(encoder, **options):
    assert _error(_gradients(encoder, **options), _right(encoder, **options)) < MOST


@pytest.mark.parametrize(
    ("name", "mode"),
    [*product(PRESETS, ("soft", "along trees", "self-training")), ("lstm", "soft"), ("leaving out", "soft")],
)
def test_gradients_are_right_at_every_step_of_a_loop_while_all_earlier_graphs_live(catalog, name, mode):
    torch.manual_seed(0)
    encoder, held = encoder_of(catalog, name, sharpness=1.0, bias=0.0), []
    optimizer = torch.optim.Adam(encoder.parameters(), 1e-3)
    inputs, mask = batch(LENGTHS)
    for step in range(8):
        options = _options(encoder, inputs, mask, mode)
        right = _right(encoder, **options)
        loss, out = _loss(encoder, inputs, mask, **options)
        held.append((loss, out))
        optimizer.zero_grad(set_to_none=False)
        loss.backward(retain_graph=True)
        assert out.vector.requires_grad
        got = [torch.zeros_like(p) if p.grad is None else p.grad for p in encoder.parameters()]
        assert _error(torch.cat([g.flatten() for g in got]), right) < MOST, f"step {step}"
        optimizer.step()


@pytest.mark.parametrize("order", [(0, 1, 1), (1, 0, 0)])
def test_graphs_of_the_same_weights_are_differentiated_in_any_order_and_twice(catalog, order):
    encoder = encoder_of(catalog, "paper")
    right, losses = _right(encoder), [_loss(encoder, *batch(LENGTHS))[0] for _ in range(2)]
    for number in order:
        assert _error(_gradients(encoder, losses[number]), right) < MOST


@pytest.mark.parametrize("mode", ["soft", "along trees"])
@pytest.mark.parametrize("preset", PRESETS)
def test_weights_changed_between_forward_and_backward_are_an_error(catalog, preset, mode):
    encoder = encoder_of(catalog, preset)
    inputs, mask = batch(LENGTHS)
    loss, _ = _loss(encoder, inputs, mask, **_options(encoder, inputs, mask, mode))
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def _loaded(encoder):
    encoder.load_state_dict({name: 0.5 * value for name, value in encoder.state_dict().items()})


def _averaged(encoder):
    other = copy.deepcopy(encoder)
    with torch.no_grad():
        for average, weight in zip(encoder.parameters(), other.parameters(), strict=True):
            average.lerp_(0.5 * weight, 0.7)


def _other_data(encoder):
    for weight in encoder.parameters():
        weight.data = weight.data * 0.5


def _data_in_place(encoder):
    for weight in encoder.parameters():
        weight.data.mul_(0.5)


def _swapped_back(encoder):
    """As evaluation with averaged weights does: other data for one pass, then the old ones, changed by a step."""
    old = [weight.data for weight in encoder.parameters()]
    _other_data(encoder)
    _expect_right(encoder)
    for weight, data in zip(encoder.parameters(), old, strict=True):
        weight.data = data.mul_(0.9)


CHANGES = (_loaded, _averaged, _other_data, _data_in_place, _swapped_back)


@pytest.mark.parametrize("change", CHANGES)
def test_gradients_are_those_of_the_new_weights_after(catalog, change):
    encoder = encoder_of(catalog, "paper")
    held = _loss(encoder, *batch(LENGTHS))
    held[0].backward(retain_graph=True)
    change(encoder)
    _expect_right(encoder)
    twin = copy.deepcopy(encoder)
    change(encoder)
    _expect_right(twin)
    _expect_right(encoder)


def test_data_changed_behind_autograd_is_used_by_the_next_backward_pass(catalog):
    """torch does not see changes through .data: its own layers then use the new values, and so do kernels."""
    encoder = encoder_of(catalog, "stretched, bounded")
    loss, _ = _loss(encoder, *batch(LENGTHS))
    before = _gradients(encoder, loss)
    encoder.cell.expand.weight.data.mul_(2)
    assert _error(_gradients(encoder, loss), before.double()) > 0.1


def test_two_encoders_that_share_a_cell_have_their_own_gradients(catalog):
    one, two = encoder_of(catalog, "paper"), encoder_of(catalog, "simplified-2023")
    two.cell = one.cell
    for _ in range(3):
        held = [_loss(encoder, *batch(LENGTHS))[0] for encoder in (one, two)]
        for encoder, loss in zip((two, one), held[::-1], strict=True):
            assert _error(_gradients(encoder, loss), _right(encoder)) < MOST
        with torch.no_grad():
            for weight in one.cell.parameters():
                weight.mul_(0.9)


@pytest.mark.parametrize("preset", ["paper", "stretched, bounded"])
def test_gradients_are_right_with_activation_checkpointing(catalog, preset):
    encoder = encoder_of(catalog, preset)
    encoder.checkpoint = True
    optimizer, held = torch.optim.SGD(encoder.parameters(), 0.02), []
    for _ in range(3):
        held.append(_loss(encoder, *batch(LENGTHS)))
        held[-1][0].backward()
        optimizer.step()
        _expect_right(encoder)


def _in_threads(work, count=4):
    """What ``work(number)`` returns in as many threads, all of which run at once."""
    found, start = [None] * count, threading.Barrier(count)

    def run(number):
        start.wait()
        found[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("preset", ["paper", "stretched, bounded"])
def test_threads_with_one_model_give_the_bits_of_serial_passes(catalog, preset):
    encoder = encoder_of(catalog, preset)
    batches = [batch(LENGTHS, seed) for seed in range(4)]

    def work(number):
        kept = []  # graphs of this thread live on, and those of the others live meanwhile
        for _ in range(3):
            loss, out = _loss(encoder, *batches[number])
            kept.append((loss, out))
        return out.vector.detach(), _gradients(encoder, loss)

    serial = [work(number) for number in range(4)]
    for got, right in zip(_in_threads(work), serial, strict=True):
        assert torch.equal(got[0], right[0])
        assert torch.equal(got[1], right[1])


@pytest.mark.parametrize("preset", ["paper", "stretched, bounded"])
def test_an_output_that_another_thread_keeps_changes_nothing(catalog, preset):
    encoder = encoder_of(catalog, preset)
    kept = _in_threads(lambda number: _loss(encoder, *batch(LENGTHS)), 1)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(0.8)
    _expect_right(encoder)
    assert kept[0][0].requires_grad


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_forks_after_a_pass_has_right_gradients(catalog):
    encoder = encoder_of(catalog, "paper")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # OpenMP's own threads do not survive a fork
    held = _loss(encoder, *batch(LENGTHS))
    held[0].backward(retain_graph=True)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(0.8)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if _error(_gradients(encoder), _right(encoder)) < MOST else 1)
        finally:
            os._exit(2)
    torch.set_num_threads(threads)
    _expect_right(encoder)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.slow
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="these are the tests of AVX2 code already"
)
def test_the_loop_is_right_with_the_kernels_for_avx2():
    """These tests again with the code for processors without AVX-512, which is compiled if it is not there yet."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "avx2"}
    build = "from crvnn_core.cli import main; main(['doctor', '--build'])"
    subprocess.run([sys.executable, "-c", build], env=environment, check=True)
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", __file__]
    done = subprocess.run(tests, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout
