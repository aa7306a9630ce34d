"""The contract of retrievers: built-in retrievers satisfy it, and each check fails for a retriever that violates it."""

import torch

from contract_cases import component, contract_tests
from crvnn_core import Neighbourhood
from crvnn_core.testing.common import existences, padded
from crvnn_core.testing.common import random as standard
from crvnn_core.testing.parts import PlainRetriever

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    ("windowed", ("k=2",)),
    ("windowed", ("form=log-space",)),
    ("windowed", ("k=2", "form=log-space")),
    ("adhoc", ("accumulate=float64",)),
    ("adhoc", ("accumulate=float32-pairs",)),
]


#: Left out: float32 pairs round more coarsely than the finite differences of 1e-6 that gradcheck takes.
#: A test below compares their gradients with those of the float64 form instead.
EXCLUDED = {("adhoc", "accumulate=float32-pairs", "check_retriever_has_true_gradients")}


def test_float32_pairs_have_the_gradients_of_the_float64_form():
    mask = padded((30, 12))
    gradients = []
    for form in ("float64", "float32-pairs"):
        exists, values = existences(mask).requires_grad_(), standard(*mask.shape, 3).requires_grad_()
        near = component("retriever", "adhoc").load()(accumulate=form)(exists, mask)
        weights = standard(*mask.shape, 3, seed=8)
        ((near.left(values) + 2 * near.right(values)) * weights)[mask].sum().backward()
        gradients.append((exists.grad, values.grad))
    for exact, paired in zip(*gradients, strict=True):
        torch.testing.assert_close(paired, exact, atol=1e-4, rtol=1e-4)


class AlteredNeighbourhood(Neighbourhood):
    """A neighbourhood whose results are altered."""

    def __init__(self, near, alter):
        self.near, self.alter = near, alter

    def left(self, values):
        return self.alter(values, self.near.left(values))

    def right(self, values):
        return self.alter(values, self.near.right(values))


def altered_retriever(alter):
    class Faulty(PlainRetriever):
        def forward(self, exists, mask):
            return AlteredNeighbourhood(super().forward(exists, mask), alter)

    return Faulty


class UniformRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(torch.ones_like(exists), mask)


class PaddingRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(exists, torch.ones_like(mask))


class DetachedRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(exists.detach(), mask)


#: A check, a retriever that fails it, and a part of the reason that is given.
FAULTY = [
    (
        "keeps_shape_and_type",
        altered_retriever(lambda v, near: near.float()),
        "torch.float64 became torch.float32",
    ),
    ("keeps_shape_and_type", altered_retriever(lambda v, near: near[:, :-1]), "the shape of neighbours"),
    ("is_linear", altered_retriever(lambda v, near: near.abs()), "left of a sum: differs"),
    ("finds_the_nearest_when_existence_is_binary", UniformRetriever, "should see"),
    ("gives_probabilities_of_its_own_side", altered_retriever(lambda v, near: 2 * near), "weights sum to"),
    ("gives_probabilities_of_its_own_side", altered_retriever(lambda v, near: -near), "a weight is -"),
    (
        "gives_probabilities_of_its_own_side",
        altered_retriever(lambda v, near: 0.5 * near + 0.1 * v),
        "at and after the position",
    ),
    ("ignores_padding", PaddingRetriever, "with other padding"),
    (
        "ignores_positions_that_are_gone",
        altered_retriever(lambda v, near: near * (1 - 1 / v.shape[1])),
        "without the positions that have e = 0, which still count",
    ),
    ("has_true_gradients", DetachedRetriever, "gradcheck found a difference"),
    (
        "works_under_autocast",
        altered_retriever(lambda v, near: near.float() if v.dtype == torch.bfloat16 else near),
        "bfloat16 became torch.float32",
    ),
    (
        "works_under_autocast",
        altered_retriever(
            lambda v, near: near.bfloat16().to(v.dtype) if torch.is_autocast_enabled("cpu") else near
        ),
        "in torch.float32: differs",
    ),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests(
    "retriever", PlainRetriever, FAULTY, VARIANTS, excluded=EXCLUDED
)
