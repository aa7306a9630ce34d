"""The contract of cells: built-in cells satisfy it, and each check fails for a cell that violates it."""

import torch

from contract_cases import contract_tests
from crvnn_core.testing.parts import PlainCell

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    ("gated", ("activation=relu",)),
    ("gated", ("activation=gelu-tanh",)),
    ("gated", ("shared_norm=true",)),
    ("gated", ("hidden=5", "dropout=0.5")),
]


def cell(compose):
    class Faulty(PlainCell):
        def forward(self, left, right):
            return compose(super().forward(left, right), left, right)

    return Faulty


def leaf(alter):
    class Faulty(PlainCell):
        def leaf(self, inputs):
            return super().leaf(alter(inputs))

    return Faulty


class TrainingCounter(PlainCell):
    """Counts its calls in training, in a number that is not saved."""

    calls = 0

    def forward(self, left, right):
        self.calls += self.training
        return super().forward(left, right) * (1 - 0.001 * self.calls)


class CallCounter(PlainCell):
    """Its output changes after 20 calls."""

    calls = 0

    def forward(self, left, right):
        self.calls += 1
        return super().forward(left, right) * (0.5 if self.calls > 20 else 1)


class GrowingCell(PlainCell):
    def forward(self, left, right):
        return 10 * (left - 2 * right) + super().forward(left, right)


class RaisesInTraining(PlainCell):
    def forward(self, left, right):
        assert not self.training, "not in training"
        return super().forward(left, right)


class NarrowReadout(PlainCell):
    def readout(self, state):
        return state[..., :-1]


#: A check, a cell that fails it, and a part of the reason that is given.
FAULTY = [
    ("learns", RaisesInTraining, "not in training"),
    (
        "learns",
        cell(lambda new, left, right: new.detach() + left),
        "no gradient reaches the parameter 'compose",
    ),
    (
        "runs_on_any_device",
        cell(lambda new, left, right: new @ torch.eye(new.shape[-1])),
        "was given tensors on cpu and meta",
    ),
    ("can_be_saved", TrainingCounter, "state that is not saved"),
    ("is_deterministic", CallCounter, "keeps state between calls"),
    (
        "keeps_its_shapes",
        cell(lambda new, left, right: new[..., :-1]),
        "the shape of a parent: [5]; expected [6]",
    ),
    ("keeps_its_shapes", NarrowReadout, "the shape of the read-out: [5]"),
    (
        "treats_each_sequence_alone",
        leaf(lambda x: x - x.mean(0)),
        "a leaf of sequence 0, in a batch and alone",
    ),
    (
        "treats_each_sequence_alone",
        cell(lambda new, left, right: new + new.mean()),
        "a parent of sequence 0, in a batch and alone",
    ),
    (
        "ignores_positions_that_are_gone",
        leaf(lambda x: x.cumsum(-2) if x.dim() > 1 else x),
        "still count; a cell is given pairs of one step",
    ),
    (
        "ignores_padding",
        leaf(lambda x: x.flip(-2).cumsum(-2).flip(-2) if x.dim() > 1 else x),
        "a leaf with other padding",
    ),
    (
        "sees_both_children",
        cell(lambda new, left, right: torch.sin(left)),
        "does not depend on its right child",
    ),
    (
        "bears_a_child_of_zeros",
        cell(lambda new, left, right: new + left / left.norm(dim=-1, keepdim=True)),
        "a parent has NaN or infinity",
    ),
    (
        "bears_a_child_of_zeros",
        cell(lambda new, left, right: new + right.norm(dim=-1, keepdim=True).sqrt()),
        "the gradient of a child has NaN or infinity",
    ),
    ("stays_finite_when_deep", GrowingCell, "the root has NaN or infinity"),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("cell", PlainCell, FAULTY, VARIANTS)
