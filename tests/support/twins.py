"""What compares kernels with their twins in torch, and small models to do it with."""

import copy

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.kernels import in_use, without
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_parts.operations.intervals import CompiledIntervals
from crvnn_parts.retrievers.interval import Adhoc

needs_kernels = pytest.mark.skipif(
    not in_use(),
    reason="there are no kernels here: they are not built for this torch and these sources, or CRVNN_NATIVE=0",
)
some = settings(max_examples=20)

PLAIN = torch.zeros(2, 3)  # what kernels are for
WIDTHS = [None, 1, 5, 64, 70, 130]  # of values; none for [B, n]
PATTERNS = {
    "none": torch.zeros_like,
    "all": torch.ones_like,
    "binary": lambda u: (u > 0.5).float(),
    "tiny": lambda u: (u * 2**10).floor() * 2.0**-30,
    "small": lambda u: (u * 2**17).floor() * 2.0**-24,
    "near one": lambda u: 1 - (u * 2**10).floor() * 2.0**-24,
    "any": lambda u: u,
}


def numbers(shape, seed, draw=torch.randn):
    return draw(shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def lines(draw, longest=60):
    """Existences [B, n], and which positions there are; sums of them are exact in float64, so all find equal runs."""
    n = draw(st.sampled_from([1, 2, 3]) | st.integers(1, longest))
    lengths = [n, *draw(st.lists(st.integers(1, n), max_size=2))]
    pattern, seed = draw(st.sampled_from([*PATTERNS, "mixed"])), draw(st.integers(0, 2**31))
    uniform = numbers((len(lengths), n), seed, torch.rand)
    if pattern == "mixed":
        choices = torch.stack([make(uniform) for make in PATTERNS.values()])
        which = (numbers(uniform.shape, seed + 1, torch.rand) * len(choices)).long()
        exists = choices.gather(0, which.unsqueeze(0))[0]
    else:
        exists = PATTERNS[pattern](uniform)
    return exists, torch.arange(n) < torch.tensor(lengths).unsqueeze(1)


@st.composite
def decisions(draw):
    """Existence, the mask, and which positions are eligible."""
    exists, mask = draw(lines(40))
    kind, seed = draw(st.sampled_from(["usual", "none", "some"])), draw(st.integers(0, 99))
    eligible = mask & (torch.arange(mask.shape[1]) < mask.sum(1, keepdim=True) - 1)
    if kind != "usual":
        eligible &= numbers(mask.shape, seed, torch.rand) > (1 if kind == "none" else 0.5)
    return exists, mask, eligible


@st.composite
def nodes_and_rows(draw):
    """The shape of nodes [B, n, s], and some row indices, each at most once, in any order."""
    batch, n, s = draw(st.integers(1, 3)), draw(st.integers(1, 30)), draw(st.sampled_from([1, 5, 70]))
    rows = draw(st.lists(st.integers(0, batch * n - 1), unique=True, max_size=batch * n))
    return (batch, n, s), torch.tensor(rows, dtype=torch.int64)


def flags(mask, seed=0):
    """Tokens, eligible positions and original positions, for compaction."""
    some = numbers(mask.shape, seed, torch.rand) > 0.3
    return mask & some, mask & ~some, torch.arange(mask.shape[1]).expand_as(mask)


def outcome(run, inputs, module=None):
    """What comes out, and the gradients of all inputs and parameters for outputs that weigh differently."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    found = run(*leaves)
    outputs = [found] if isinstance(found, Tensor) else list(found)
    loss = sum((out * numbers(out.shape, i).to(out.dtype)).sum() for i, out in enumerate(outputs))
    asked = [*leaves, *(module.parameters() if module else ())]
    gradients = torch.autograd.grad(loss, asked, allow_unused=True)
    return outputs, [torch.zeros_like(a) if g is None else g for a, g in zip(asked, gradients, strict=True)]


def assert_twins(run, twin, inputs, modules=(None, None), tolerance=1e-5, plain=None):
    """That ``run`` by kernels gives what ``twin`` gives in float64, with and without gradients.

    Where float32 itself is not up to it, three times the error of ``plain`` float32 is allowed.
    """
    outputs, gradients = outcome(run, inputs, modules[0])
    with without():
        exact, exact_gradients = outcome(twin, [value.double() for value in inputs], modules[1])
        rough, rough_gradients = outcome(plain, inputs, modules[0]) if plain else (exact, exact_gradients)
    assert all(value.dtype == torch.float32 for value in [*outputs, *gradients])
    with torch.no_grad():
        alone = run(*inputs)
    alone = [alone] if isinstance(alone, Tensor) else list(alone)
    assert len(outputs) == len(exact) == len(alone)
    for got, again, near, right in zip(outputs, alone, rough, exact, strict=True):
        assert_close(got, right, tolerance, "value", near)
        assert_close(again, right, tolerance, "value without gradients", near)
    for number, found in enumerate(zip(gradients, rough_gradients, exact_gradients, strict=True)):
        got, near, right = found
        assert_close(got, right, tolerance, f"gradient {number}", near)


def assert_close(got, right, tolerance=1e-5, name="it", rough=None):
    """Within a share of the largest number, or three times as far off as something rough."""
    assert got.shape == right.shape, name
    assert got.isfinite().all(), name
    if right.numel():
        scale = max(1e-1, right.abs().max().item())
        allowed = max(tolerance * scale, 3 * _worst(right if rough is None else rough, right))
        worst = _worst(got, right)
        assert worst <= allowed, f"{name} is off by {worst} at a scale of {scale}"


def _worst(got, right):
    return (got.double() - right.double()).abs().max().item()


def doubled(module):
    return copy.deepcopy(module).double()


def everything(n, kind=torch.float32):
    """Neighbours where n positions exist for sure."""
    return adjacent(torch.ones(1, n, dtype=torch.bool), torch.ones(1, n, dtype=kind))


def by_kernels(exists, mask):
    near = Adhoc()(exists, mask)
    assert isinstance(near, CompiledIntervals)
    return near


def unclean_memory():
    """Leave something in memory that is given back, for kernels that forget to write into theirs."""
    held = [torch.full((4 * k,), 7e9) for k in range(1, 600)]
    del held


def graph(node):
    """The names of all functions that lead to a result."""
    seen, waiting = {}, [node]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen[node] = node.name()
            waiting += [parent for parent, _ in node.next_functions]
    return list(seen.values())


LENGTHS = (11, 1, 6, 2, 17)
EAGER = "model.halting.epsilon=0.3"
MODELS = {
    "paper": ("paper", {}, [EAGER]),
    "reference": ("reference", {}, [EAGER]),
    "simplified-2023": ("simplified-2023", {}, [EAGER]),
    "never halting": ("paper", {"halting": "never"}, []),
    "stretched": ("paper", {"decision": "stretched"}, [EAGER]),
    "stretched, bounded": (
        "reference",
        {"decision": "stretched"},
        [EAGER, 'model.decision.modulation="bounded"'],
    ),
    "straight-through": ("paper", {"decision": "straight-through"}, [EAGER]),
    "leaving out": ("paper", {}, [EAGER, "model.encoder.drop=0.01", "model.encoder.skip=0.01"]),
    "lstm": ("paper", {"cell": "lstm"}, [EAGER]),
}


def encoder_of(catalog, name, sharpness=3.0, bias=4.0):
    """A small encoder whose scores are far apart, so that sequences halt, and at different times."""
    preset, parts, sets = MODELS[name]
    spec = read_spec(catalog, preset=preset, parts=parts, sets=["model.width=8", *sets])
    encoder = assemble(spec, catalog).model.encoder.eval()
    with torch.no_grad():
        encoder.scorer.score.weight.mul_(sharpness)
        encoder.scorer.score.bias.fill_(bias)
    return encoder


def batch(lengths=LENGTHS, seed=7):
    return numbers((len(lengths), max(lengths), 8), seed), torch.arange(max(lengths)) < torch.tensor(
        lengths
    ).unsqueeze(1)
