"""Every built-in component, registered exactly as a third party's would be.

The builders are named, not imported, so that listing components does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from crvnn_core import Component, Preset, hookimpl
from crvnn_parts.presets import PRESETS

if TYPE_CHECKING:
    from crvnn_core.kernels import Library


def _part(name: str, place: str, summary: str, **more: Any) -> Component:
    """A component whose builder is at a place of this package."""
    return Component(name, f"crvnn_parts.{place}", summary=summary, **more)


@hookimpl
def crvnn_retrievers() -> Iterable[Component]:
    return [
        _part("adhoc", "retrievers.interval:Adhoc", "Eq. 5 of the paper in linear time"),
        _part("adhoc-dense", "retrievers.dense:AdhocDense", "Eq. 5 written out as n x n matrices"),
        _part("log-space", "retrievers.scan:LogSpace", "Eq. 6 of the paper in linear time"),
        _part("log-space-dense", "retrievers.dense:LogSpaceDense", "Eq. 6 written out as n x n matrices"),
        _part("windowed", "retrievers.windowed:Windowed", "Eq. 5 or 6 over the k nearest positions"),
    ]


@hookimpl
def crvnn_scorers() -> Iterable[Component]:
    return [
        _part("window", "scorers:WindowScorer", "a convolution over soft neighbours"),
    ]


@hookimpl
def crvnn_decisions() -> Iterable[Component]:
    return [
        _part("sigmoid", "decisions.sigmoids:Sigmoid", "each position for itself"),
        _part("modulated", "decisions.sigmoids:Modulated", "the paper's modulated sigmoid"),
        _part("tempered", "decisions.sigmoids:Tempered", "scores over a temperature that follows a schedule"),
        _part("gumbel-sigmoid", "decisions.sigmoids:GumbelSigmoid", "logistic noise in training"),
        _part("straight-through", "decisions.sigmoids:StraightThrough", "hard forward, soft backward"),
        _part("stretched", "decisions.sigmoids:Stretched", "stretched and clipped: exact zeros and ones"),
        _part(
            "sparsemax",
            "decisions.sparsemax:Sparsemax",
            "the highest scores of the row: exact zeros and ones",
        ),
    ]


@hookimpl
def crvnn_cells() -> Iterable[Component]:
    return [
        _part("gated", "cells.gated:GatedCell", "the paper's gated recursive cell"),
        _part("lstm", "cells.recurrent:LSTMCell", "a binary Tree-LSTM, carrying h and c"),
        _part("gru", "cells.recurrent:GRUCell", "reset gates, and a three-way choice of left, right and new"),
        _part("rnn", "cells.recurrent:RNNCell", "a Tree-RNN: one affine map and tanh"),
    ]


@hookimpl
def crvnn_haltings() -> Iterable[Component]:
    return [
        _part("threshold", "haltings:Threshold", "stop when one token is left above a threshold"),
        _part("fixed-depth", "haltings:FixedDepth", "stop after a number of steps"),
        _part("never", "haltings:Never", "take as many steps as allowed"),
    ]


@hookimpl
def crvnn_encoders() -> Iterable[Component]:
    return [
        Component(
            "crvnn", "crvnn_core.engine.recursion:Recursion", summary="the continuous recursive network"
        ),
        _part(
            "left-to-right",
            "encoders.fixed:LeftToRight",
            "the cell as a recurrent network: the paper's ablation without structure",
        ),
        _part(
            "balanced", "encoders.fixed:Balanced", "the cell along balanced trees: an ablation of the paper"
        ),
        _part(
            "beam-tree",
            "encoders.trees.beams:BeamTree",
            "beam search over merges, scored by their parents: BT-Cell (2023)",
        ),
        _part(
            "efficient-beam-tree",
            "encoders.trees.beams:EfficientBeamTree",
            "beam search over merges, scored by parts of the children: EBT-GRC (2023)",
        ),
        _part(
            "cyk",
            "encoders.trees.cyk:CYK",
            "a chart of all spans, each a mean over its splits (Maillard et al., 2019)",
        ),
        _part(
            "rl-spinn",
            "encoders.reinforced.rl_spinn:RLSPINN",
            "shift and reduce, learnt by REINFORCE (Yogatama et al., 2017)",
        ),
        _part(
            "cooperative",
            "encoders.reinforced.cooperative:Cooperative",
            "a parser learns by reinforcement, the cell by cross-entropy (Havrylov et al., 2019)",
        ),
        _part(
            "gold-tree",
            "encoders.trees.gold_tree:GoldTree",
            "the cell along the task's gold trees: Tree-LSTM (Tai et al., 2015), Tree-RNN, Tree-Cell",
        ),
        _part(
            "gumbel-tree",
            "encoders.trees.gumbel_tree:GumbelTree",
            "the best pair first, by straight-through Gumbel-softmax (Choi et al., 2018)",
        ),
        _part(
            "ordered-memory",
            "encoders.ordered_memory:OrderedMemory",
            "a soft stack rebuilt at every token (Shen et al., 2019), to compare with",
        ),
        _part("lstm", "encoders.sequences.lstm:LSTMEncoder", "torch's LSTM, to compare with"),
        _part(
            "transformer",
            "encoders.sequences.transformer:TransformerEncoder",
            "torch's Transformer encoder, to compare with",
            example={"heads": 2},
        ),  # the contract's width is no multiple of 4
        _part(
            "universal-transformer",
            "encoders.sequences.universal_transformer:UniversalTransformer",
            "one Transformer layer, each token for as many steps as it needs (Dehghani et al., 2019)",
            example={"heads": 2},
        ),
        _part(
            "ndr",
            "encoders.sequences.ndr:NDR",
            "the Neural Data Router: geometric attention and a copy gate (Csordás et al., 2022)",
            example={"heads": 2},
        ),
        _part(
            "on-lstm",
            "encoders.sequences.on_lstm:ONLSTM",
            "an LSTM with ordered neurons, whose gates give a tree (Shen et al., 2019)",
            example={"chunk": 2},
        ),
        _part(
            "recursion-in-recursion",
            "encoders.recursion_in_recursion:RecursionInRecursion",
            "another encoder over chunks, level by level (Ray Chowdhury and Caragea, 2023)",
            example={"chunk": 3},
        ),
    ]


@hookimpl
def crvnn_embeddings() -> Iterable[Component]:
    return [
        _part("random", "embeddings:Random", "vectors that begin at random and are trained", default=True),
        _part(
            "glove",
            "embeddings:GloVe",
            "pretrained vectors from a text file",
            example={"path": "vectors.txt"},
        ),
    ]


@hookimpl
def crvnn_objectives() -> Iterable[Component]:
    return [
        _part("labels", "objectives:Labels", "cross-entropy of the labels", default=True),
        _part("self-training", "objectives:SelfTraining", "no gold trees: the best of several sampled ones"),
        _part("gold-trees", "objectives:GoldTrees", "labels, and decisions supervised on gold trees"),
    ]


@hookimpl
def crvnn_optimizers() -> Iterable[Component]:
    return [
        _part("ranger", "optimizers:ranger", "RAdam and Lookahead, as in the paper", default=True),
        _part("radam", "optimizers:radam", "rectified Adam with decoupled weight decay"),
        _part("adamw", "optimizers:adamw", "Adam with decoupled weight decay"),
    ]


@hookimpl
def crvnn_observers() -> Iterable[Component]:
    return [
        _part(
            "progress",
            "observers.progress:Progress",
            "a progress bar, or plain lines in a pipe",
            default=True,
        ),
        Component(
            "jsonl",
            "crvnn_core.training.observers:JsonLines",
            summary="one JSON object a step, in a file",
            example={"path": "metrics.jsonl"},
        ),
        _part(
            "tensorboard",
            "observers.tensorboard:TensorBoard",
            "curves for TensorBoard (needs the extra 'track')",
        ),
        _part(
            "wandb",
            "observers.wandb:WandB",
            "metrics, spec and results in Weights & Biases (needs the extra 'wandb')",
        ),
        _part(
            "mlflow",
            "observers.mlflow:MLflow",
            "metrics, spec and results in MLflow (needs the extra 'mlflow')",
        ),
    ]


@hookimpl
def crvnn_kernels() -> Iterable[Library]:
    from crvnn_parts.operations.library import PARTS

    return [PARTS]


@hookimpl
def crvnn_presets() -> Iterable[Preset]:
    return PRESETS
