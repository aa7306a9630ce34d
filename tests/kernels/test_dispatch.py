"""When operations are dispatched to kernels and when to torch, and derivatives that kernels do not have."""

import os
import subprocess
import sys
import threading

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from crvnn_core.engine.operations.blend import blend
from crvnn_core.engine.operations.compaction import compact
from crvnn_core.engine.operations.rows import rows_at
from crvnn_core.engine.operations.transition import transition
from crvnn_core.kernels import serves, without
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import relax
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer
from twins import PLAIN, batch, encoder_of, everything, flags, needs_kernels, numbers

pytestmark = needs_kernels


class Interceptor(TorchDispatchMode):
    """A dispatch mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Subclass(Tensor):
    """A third party's tensor subclass."""


def test_plain_float32_tensors_and_parameters_go_to_kernels():
    assert serves(PLAIN, torch.nn.Parameter(PLAIN), PLAIN.t(), PLAIN.bool(), PLAIN.long(), 3, None)


@pytest.mark.parametrize(
    "other",
    [
        PLAIN.double(),
        PLAIN.bfloat16(),
        PLAIN.half(),
        PLAIN.int(),
        PLAIN.to("meta"),
        PLAIN.as_subclass(Subclass),
        FakeTensorMode().from_tensor(PLAIN),
    ],
    ids=lambda other: f"{type(other).__name__} {other.dtype} {other.device}",
)
def test_other_tensors_go_to_torch(other):
    assert not serves(other)
    assert not serves(PLAIN, other)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.func.jvp compiles something with torch.jit
def test_whatever_intercepts_or_transforms_torch_sees_the_body(monkeypatch):
    with without():
        assert not serves(PLAIN)
        with without():
            pass
        assert not serves(PLAIN)
    with torch.autocast("cpu", torch.bfloat16):
        assert not serves(PLAIN)
    with Interceptor():
        assert not serves(PLAIN)
    with FakeTensorMode():
        assert not serves(PLAIN)
    seen = []

    def record(x):
        seen.append(serves(x) or serves(PLAIN))
        return x.sum()

    torch.func.grad(record)(PLAIN)
    torch.func.vmap(record)(PLAIN)
    torch.func.jvp(record, (PLAIN,), (PLAIN,))
    torch.func.functional_call(torch.nn.Identity(), {}, (PLAIN,))
    assert seen == [False, False, False]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not serves(PLAIN)
    monkeypatch.undo()
    assert serves(PLAIN)


def test_without_holds_for_its_own_thread_and_blocks_may_overlap():
    """The first to enter is the first to leave; and a block ends with an exception too."""
    entered, left, seen = threading.Event(), threading.Event(), []

    def other():
        with without():
            entered.set()
            left.wait()
        seen.append(serves(PLAIN))

    with without():
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
    seen.append(serves(PLAIN))
    left.set()
    thread.join()
    assert seen == [True, True]
    with pytest.raises(ZeroDivisionError), without():
        1 / 0  # noqa: B018
    assert serves(PLAIN)


def test_an_environment_variable_switches_off_back_ends_that_are_attached_with_every_retriever():
    code = (
        "import torch\n"
        "from crvnn_core.engine.neighbourhoods import adjacent\n"
        "from crvnn_core.engine.operations.transition import transition\n"
        "from crvnn_core.kernels import serves\n"
        "from crvnn_parts import scorers\n"
        "from crvnn_parts.retrievers import scan\n"
        "assert len(adjacent.backends) == len(transition.backends) == 1\n"
        "assert not serves(torch.zeros(1))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"CRVNN_NATIVE": "0"})


def test_under_autocast_or_a_dispatch_mode_a_model_runs_without_kernels(catalog):
    encoder, (inputs, mask) = encoder_of(catalog, "paper"), batch()
    results = []
    for context in (Interceptor(), without()):
        with context, torch.no_grad():
            results.append(encoder(inputs, mask).vector)
    assert torch.equal(*results)
    results = []
    for context in (torch.enable_grad(), without()):
        with context, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            results.append(encoder(inputs, mask).vector)
    assert torch.equal(*results)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the same for make_dual
def test_forward_mode_derivatives_are_computed_or_refused_but_never_dropped():
    cell, near = GatedCell(3).requires_grad_(False), everything(4)
    with forward_ad.dual_level():
        values = forward_ad.make_dual(torch.randn(1, 4, 3), torch.ones(1, 4, 3))
        for run in (near.left, lambda v: near.stacked(v, 1), lambda v: cell(v, v)):
            try:
                found = run(values)
            except (RuntimeError, NotImplementedError):
                continue
            assert forward_ad.unpack_dual(found).tangent is not None


def _kernels_in_use():
    exists = (0.1 + 0.8 * numbers((1, 4), 1, torch.rand)).requires_grad_()
    values = numbers((1, 4, 3), 2).requires_grad_()
    mask = torch.ones(1, 4, dtype=torch.bool)
    near, where = Adhoc()(exists, mask), torch.tensor([1, 3])
    cell, scorer = GatedCell(3), WindowScorer(3, 3, 2)
    return (
        {
            "neighbour": lambda: near.left(values),
            "window": lambda: near.stacked(values, 1),
            "modulated": lambda: relax(values[..., 0], near, mask, values[..., 0], "paper"),
            "transition": lambda: torch.stack(transition(exists * 0.5, near, exists, mask, mask)),
            "window scores": lambda: scorer(values, near, exists),
            "gated": lambda: cell(values, values),
            "blend": lambda: blend(values, values * 2, exists),
            "rows": lambda: rows_at(values, values, where)[0],
            "compact": lambda: compact(values, exists, exists, exists > 0.5, *flags(mask), [0], 2)[0],
        },
        values,
        exists,
    )


@pytest.mark.parametrize(
    "name",
    ["neighbour", "window", "modulated", "transition", "window scores", "gated", "blend", "rows", "compact"],
)
def test_second_derivatives_are_refused_and_the_error_says_what_to_do(name):
    uses, values, exists = _kernels_in_use()
    asked = exists if name == "transition" else values
    (uses[name]() ** 2).sum().backward(retain_graph=True)  # first derivatives exist
    assert asked.grad.isfinite().all()
    with pytest.raises(RuntimeError, match=r"no second derivatives.*torch\.func\.grad"):
        torch.autograd.grad((uses[name]() ** 2).sum(), asked, create_graph=True)
