"""Settings of parts that mean nothing are refused by name, in Python as in a spec."""

import inspect

import pytest

from crvnn_core import Encoder, Encoding, Recursion
from crvnn_core.testing.parts import LetterTask, PlainEncoder, plain_parts
from crvnn_parts.decisions.sigmoids import GumbelSigmoid, Modulated, StraightThrough, Stretched, Tempered
from crvnn_parts.decisions.sparsemax import Sparsemax
from crvnn_parts.embeddings import GloVe, Random
from crvnn_parts.encoders.ordered_memory import OrderedMemory
from crvnn_parts.encoders.recursion_in_recursion import RecursionInRecursion
from crvnn_parts.encoders.reinforced.rl_spinn import RLSPINN
from crvnn_parts.encoders.sequences.lstm import LSTMEncoder
from crvnn_parts.encoders.sequences.ndr import NDR
from crvnn_parts.encoders.sequences.on_lstm import ONLSTM
from crvnn_parts.encoders.sequences.transformer import TransformerEncoder
from crvnn_parts.encoders.sequences.universal_transformer import UniversalTransformer
from crvnn_parts.encoders.trees.beam_tree import BeamTree
from crvnn_parts.encoders.trees.cyk import CYK
from crvnn_parts.encoders.trees.efficient_beam_tree import EfficientBeamTree
from crvnn_parts.encoders.trees.gumbel_tree import GumbelTree
from crvnn_parts.haltings import FixedDepth, Threshold
from crvnn_parts.objectives import SelfTraining
from crvnn_parts.observers.progress import Progress
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.retrievers.windowed import Windowed
from crvnn_parts.scorers import WindowScorer

WIDTH = 12


class Wide(Encoder):
    def forward(self, inputs, mask, *, trace=False):
        return Encoding(inputs.sum(1).repeat(1, 2), inputs.new_zeros(len(inputs)), mask.sum(1))


def along_given_trees():
    inner = PlainEncoder(WIDTH)
    inner.needs_trees = True
    return inner


REFUSED = [
    (Recursion, {"max_steps": -1}, "must be at least 0, not -1"),
    (Recursion, {"extra_steps": -1}, "must be at least 0, not -1"),
    (Recursion, {"halt_penalty": -1}, "must be at least 0, not -1"),
    (Recursion, {"penalise": "nobody"}, "must be one of"),
    (Recursion, {"drop": -0.1}, r"must be at least 0 and below 1, not -0\.1"),
    (Recursion, {"skip": 1.0}, r"must be at least 0 and below 1, not 1\.0"),
    (Adhoc, {"accumulate": "float16"}, "must be one of"),
    (Windowed, {"k": 0}, "must be at least 1"),
    (Windowed, {"form": "adhok"}, "must be one of"),
    (WindowScorer, {"window": 4}, "odd"),
    (WindowScorer, {"window": -3}, "at least 1"),
    (Threshold, {"epsilon": 1.0}, "must be"),
    (Threshold, {"epsilon": -0.1}, "must be"),
    (FixedDepth, {"depth": 0}, "must be"),
    (Tempered, {"start": 0.0}, "must be"),
    (Tempered, {"end": -1.0}, "must be"),
    (Tempered, {"schedule": "steep"}, "must be one of"),
    (GumbelSigmoid, {"temperature": 0.0}, "must be"),
    (Modulated, {"form": "none"}, "must be one of"),
    (StraightThrough, {"threshold": 1.0}, "must be"),
    (Stretched, {"stretch": 0.0}, "must be"),
    (Sparsemax, {"share": 0.0}, "must be"),
    (Sparsemax, {"share": 1.5}, "must be"),
    (Sparsemax, {"temperature": 0.0}, "must be"),
    (Sparsemax, {"modulation": "reference"}, "must be one of"),
    (Random, {"size": -1}, "must be at least 0, not -1"),
    (Random, {"bound": -0.1}, r"must be at least 0, not -0\.1"),
    (GloVe, {"more": -1, "path": "vectors.txt"}, "must be at least 0, not -1"),
    (GloVe, {"path": ""}, "is empty"),
    (OrderedMemory, {"slots": 1}, "must be"),
    (OrderedMemory, {"cutoff": 1.0}, "must be"),
    (OrderedMemory, {"dropout": 1.5}, "must be"),
    (RLSPINN, {"baseline": "median"}, "must be one of"),
    (RLSPINN, {"tracker_width": -1}, "must be"),
    (RLSPINN, {"entropy": -0.1}, "must be"),
    (LSTMEncoder, {"layers": 0}, "must be"),
    (LSTMEncoder, {"dropout": 0.5}, "needs at least 2; got 0.5 with 1 layer"),
    (LSTMEncoder, {"dropout": 2.0, "layers": 2}, "must be"),
    (TransformerEncoder, {"layers": 0}, "must be"),
    (TransformerEncoder, {"heads": 5}, "must divide the width, which is 12; got 5"),
    (TransformerEncoder, {"heads": 0}, "must be"),
    (TransformerEncoder, {"dropout": -1.0}, "must be"),
    (UniversalTransformer, {"max_steps": 1}, "must be"),
    (UniversalTransformer, {"heads": 5}, "must divide the width"),
    (UniversalTransformer, {"tau": -1.0}, "must be"),
    (UniversalTransformer, {"epsilon": 1.0}, "must be"),
    (NDR, {"layers": 0}, "must be"),
    (NDR, {"heads": 5}, "must divide the width"),
    (ONLSTM, {"layers": 0}, "must be"),
    (ONLSTM, {"dropout": 0.5, "chunk": 2}, "needs at least 2"),
    (ONLSTM, {"chunk": 5}, "must divide the width, which is 12.*1, 2, 3, 4, 6; got 5"),
    (ONLSTM, {"chunk": 12}, "must divide the width, which is 12.*1, 2, 3, 4, 6; got 12"),
    (ONLSTM, {"chunk": 1, "width": 1}, "must divide the width, which is 1"),
    (BeamTree, {"beam": 0}, "must be at least 1, not 0"),
    (EfficientBeamTree, {"beam": 0}, "must be at least 1, not 0"),
    (EfficientBeamTree, {"score_width": 13}, "must be at most the width, which is 12; got 13"),
    (CYK, {"score": "bilinear"}, "must be one of 'cosine', 'linear', not 'bilinear'"),
    (GumbelTree, {"temperature": 0.0}, "must be"),
    (RecursionInRecursion, {"chunk": 1}, "must be at least 2, not 1"),
    (RecursionInRecursion, {"inner": Wide(24)}, "vectors as wide as its tokens, which are 12 wide"),
    (
        RecursionInRecursion,
        {"inner": along_given_trees()},
        "own structure: PlainEncoder composes along given",
    ),
    (SelfTraining, {"samples": 0}, "must be at least 1, not 0"),
    (SelfTraining, {"noise": -1.0}, r"must be at least 0, not -1\.0"),
    (SelfTraining, {"noise": float("inf")}, "must be finite, not inf"),
    (SelfTraining, {"confidence": 1.5}, r"must be at least 0 and at most 1, not 1\.5"),
    (SelfTraining, {"decisions": float("nan")}, "must be finite, not nan"),
    (SelfTraining, {"weighting": "best"}, "must be one of 'equal', 'advantage', not 'best'"),
    (Progress, {"lines": 0}, "must be at least 1, not 0"),
    (Progress, {"seconds": -1}, "must be at least 0, not -1"),
]


@pytest.mark.parametrize(("build", "settings", "message"), REFUSED)
def test_a_setting_that_means_nothing_is_refused_by_name(build, settings, message):
    available = {"width": WIDTH, "task": LetterTask(), "inner": PlainEncoder(WIDTH), **plain_parts(WIDTH)}
    names = inspect.signature(build).parameters
    given = {name: value for name, value in available.items() if name in names}
    with pytest.raises(ValueError, match=f"{next(iter(settings))} .*{message}"):
        build(**{**given, **settings})
