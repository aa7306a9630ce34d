"""Settings of parts that mean nothing are refused by name, in Python as in a spec."""

import math
from typing import Literal, get_args, get_origin

import pytest

from contract_cases import CATALOG
from crvnn_core import Encoder, Encoding
from crvnn_core.annotations import parameters_of, ranges
from crvnn_core.testing.parts import PlainCell, PlainEncoder
from crvnn_parts.embeddings import GloVe
from crvnn_parts.encoders.recursion_in_recursion import RecursionInRecursion
from crvnn_parts.encoders.sequences.lstm import LSTMEncoder
from crvnn_parts.encoders.sequences.ndr import NDR
from crvnn_parts.encoders.sequences.on_lstm import ONLSTM
from crvnn_parts.encoders.sequences.transformer import TransformerEncoder
from crvnn_parts.encoders.sequences.universal_transformer import UniversalTransformer
from crvnn_parts.encoders.trees.beams import EfficientBeamTree

WIDTH = 12


def not_allowed(annotation):
    """Values that an annotation does not allow, one for each of its limits."""
    if get_origin(annotation) is Literal and str in map(type, get_args(annotation)):
        yield "no such choice"
    for limits in ranges(annotation):
        yield math.nan
        beyond = ((limits.gt, 0), (limits.ge, -1), (limits.lt, 0), (limits.le, 1))
        yield from (end + step for end, step in beyond if end is not None)
        yield from [4] * limits.odd


@pytest.mark.parametrize("slot", CATALOG.components)
def test_what_annotations_do_not_allow_is_refused_in_python_too(slot):
    for name in CATALOG.components[slot]:
        component = CATALOG.find(slot, name).component
        build = component.load()
        if build.__module__.startswith(("crvnn_parts", "crvnn_core")):
            for parameter in parameters_of(build).values():
                for value in not_allowed(parameter.annotation):
                    with pytest.raises(ValueError, match=f"^{parameter.name} must be "):
                        build(**{**component.example, parameter.name: value})


class Wide(Encoder):
    def forward(self, inputs, mask, *, trace=False):
        return Encoding(inputs.sum(1).repeat(1, 2), inputs.new_zeros(len(inputs)), mask.sum(1))


def along_given_trees():
    inner = PlainEncoder(WIDTH)
    inner.needs_trees = True
    return inner


@pytest.mark.parametrize(
    ("build", "settings", "message"),
    [
        (GloVe, {"path": ""}, "is empty"),
        (LSTMEncoder, {"dropout": 0.5}, "needs at least 2; got 0.5 with 1 layer"),
        (TransformerEncoder, {"heads": 5}, "must divide the width, which is 12; got 5"),
        (UniversalTransformer, {"heads": 5}, "must divide the width"),
        (NDR, {"heads": 5}, "must divide the width"),
        (ONLSTM, {"dropout": 0.5, "chunk": 2}, "needs at least 2"),
        (ONLSTM, {"chunk": 5}, "must divide the width, which is 12.*1, 2, 3, 4, 6; got 5"),
        (ONLSTM, {"chunk": 12}, "must divide the width, which is 12.*1, 2, 3, 4, 6; got 12"),
        (ONLSTM, {"chunk": 1, "width": 1}, "must divide the width, which is 1"),
        (EfficientBeamTree, {"score_width": 13}, "must be at most the width, which is 12; got 13"),
        (RecursionInRecursion, {"inner": Wide(24)}, "vectors as wide as its tokens, which are 12 wide"),
        (
            RecursionInRecursion,
            {"inner": along_given_trees()},
            "own structure: PlainEncoder composes along given",
        ),
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_name(build, settings, message):
    available = {"width": WIDTH, "cell": PlainCell(WIDTH), **settings}
    names = parameters_of(build)
    with pytest.raises(ValueError, match=f"{next(iter(settings))} .*{message}"):
        build(**{name: value for name, value in available.items() if name in names})
