"""Every built-in component, registered exactly as a third party's would be.

The builders are named, not imported, so that listing components does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from crvnn_core import Component, Preset, hookimpl
from crvnn_parts.presets import PRESETS

if TYPE_CHECKING:
    from crvnn_core.kernels import Library


@hookimpl
def crvnn_retrievers() -> Iterable[Component]:
    here = "crvnn_parts.retrievers"
    return [
        Component("adhoc", f"{here}.interval:Adhoc", summary="Eq. 5 of the paper in linear time"),
        Component("adhoc-dense", f"{here}.dense:AdhocDense", summary="Eq. 5 written out as n x n matrices"),
        Component("log-space", f"{here}.scan:LogSpace", summary="Eq. 6 of the paper in linear time"),
        Component(
            "log-space-dense", f"{here}.dense:LogSpaceDense", summary="Eq. 6 written out as n x n matrices"
        ),
        Component("windowed", f"{here}.windowed:Windowed", summary="Eq. 5 or 6 over the k nearest positions"),
    ]


@hookimpl
def crvnn_scorers() -> Iterable[Component]:
    return [
        Component("window", "crvnn_parts.scorers:WindowScorer", summary="a convolution over soft neighbours")
    ]


@hookimpl
def crvnn_decisions() -> Iterable[Component]:
    here = "crvnn_parts.decisions.sigmoids"
    return [
        Component("sigmoid", f"{here}:Sigmoid", summary="each position for itself"),
        Component("modulated", f"{here}:Modulated", summary="the paper's modulated sigmoid"),
        Component(
            "tempered", f"{here}:Tempered", summary="scores over a temperature that follows a schedule"
        ),
        Component("gumbel-sigmoid", f"{here}:GumbelSigmoid", summary="logistic noise in training"),
        Component("straight-through", f"{here}:StraightThrough", summary="hard forward, soft backward"),
        Component("stretched", f"{here}:Stretched", summary="stretched and clipped: exact zeros and ones"),
        Component(
            "sparsemax",
            "crvnn_parts.decisions.sparsemax:Sparsemax",
            summary="the highest scores of the row: exact zeros and ones",
        ),
    ]


@hookimpl
def crvnn_cells() -> Iterable[Component]:
    here = "crvnn_parts.cells"
    return [
        Component("gated", f"{here}.gated:GatedCell", summary="the paper's gated recursive cell"),
        Component("lstm", f"{here}.lstm:LSTMCell", summary="a binary Tree-LSTM, carrying h and c"),
        Component(
            "gru", f"{here}.gru:GRUCell", summary="reset gates, and a three-way choice of left, right and new"
        ),
        Component("rnn", f"{here}.rnn:RNNCell", summary="a Tree-RNN: one affine map and tanh"),
    ]


@hookimpl
def crvnn_haltings() -> Iterable[Component]:
    here = "crvnn_parts.haltings"
    return [
        Component("threshold", f"{here}:Threshold", summary="stop when one token is left above a threshold"),
        Component("fixed-depth", f"{here}:FixedDepth", summary="stop after a number of steps"),
        Component("never", f"{here}:Never", summary="take as many steps as allowed"),
    ]


@hookimpl
def crvnn_encoders() -> Iterable[Component]:
    trees = "crvnn_parts.encoders.trees"
    return [
        Component(
            "crvnn", "crvnn_core.engine.recursion:Recursion", summary="the continuous recursive network"
        ),
        Component(
            "left-to-right",
            "crvnn_parts.encoders.fixed:LeftToRight",
            summary="the cell as a recurrent network: the paper's ablation without structure",
        ),
        Component(
            "balanced",
            "crvnn_parts.encoders.fixed:Balanced",
            summary="the cell along balanced trees: an ablation of the paper",
        ),
        Component(
            "beam-tree",
            f"{trees}.beam_tree:BeamTree",
            summary="beam search over merges, scored by their parents: BT-Cell (2023)",
        ),
        Component(
            "efficient-beam-tree",
            f"{trees}.efficient_beam_tree:EfficientBeamTree",
            summary="beam search over merges, scored by parts of the children: EBT-GRC (2023)",
        ),
        Component(
            "cyk",
            f"{trees}.cyk:CYK",
            summary="a chart of all spans, each a mean over its splits (Maillard et al., 2019)",
        ),
        Component(
            "rl-spinn",
            "crvnn_parts.encoders.reinforced.rl_spinn:RLSPINN",
            summary="shift and reduce, learnt by REINFORCE (Yogatama et al., 2017)",
        ),
        Component(
            "cooperative",
            "crvnn_parts.encoders.reinforced.cooperative:Cooperative",
            summary="a parser learns by reinforcement, the cell by cross-entropy (Havrylov et al., 2019)",
        ),
        Component(
            "gold-tree",
            f"{trees}.gold_tree:GoldTree",
            summary="the cell along the task's gold trees: Tree-LSTM (Tai et al., 2015), Tree-RNN, Tree-Cell",
        ),
        Component(
            "gumbel-tree",
            f"{trees}.gumbel_tree:GumbelTree",
            summary="the best pair first, by straight-through Gumbel-softmax (Choi et al., 2018)",
        ),
        Component(
            "ordered-memory",
            "crvnn_parts.encoders.ordered_memory:OrderedMemory",
            summary="a soft stack rebuilt at every token (Shen et al., 2019), to compare with",
        ),
        Component(
            "lstm",
            "crvnn_parts.encoders.sequences.lstm:LSTMEncoder",
            summary="torch's LSTM, to compare with",
        ),
        Component(
            "transformer",
            "crvnn_parts.encoders.sequences.transformer:TransformerEncoder",
            summary="torch's Transformer encoder, to compare with",
            example={"heads": 2},  # the contract's width is no multiple of 4
        ),
        Component(
            "universal-transformer",
            "crvnn_parts.encoders.sequences.universal_transformer:UniversalTransformer",
            summary="one Transformer layer, each token for as many steps as it needs (Dehghani et al., 2019)",
            example={"heads": 2},
        ),
        Component(
            "ndr",
            "crvnn_parts.encoders.sequences.ndr:NDR",
            summary="the Neural Data Router: geometric attention and a copy gate (Csordás et al., 2022)",
            example={"heads": 2},
        ),
        Component(
            "on-lstm",
            "crvnn_parts.encoders.sequences.on_lstm:ONLSTM",
            summary="an LSTM with ordered neurons, whose gates give a tree (Shen et al., 2019)",
            example={"chunk": 2},
        ),
        Component(
            "recursion-in-recursion",
            "crvnn_parts.encoders.recursion_in_recursion:RecursionInRecursion",
            summary="another encoder over chunks, level by level (Ray Chowdhury and Caragea, 2023)",
            example={"chunk": 3},
        ),
    ]


@hookimpl
def crvnn_embeddings() -> Iterable[Component]:
    here = "crvnn_parts.embeddings"
    return [
        Component(
            "random", f"{here}:Random", summary="vectors that begin at random and are trained", default=True
        ),
        Component(
            "glove",
            f"{here}:GloVe",
            summary="pretrained vectors from a text file",
            example={"path": "vectors.txt"},
        ),
    ]


@hookimpl
def crvnn_objectives() -> Iterable[Component]:
    here = "crvnn_parts.objectives"
    return [
        Component("labels", f"{here}:Labels", summary="cross-entropy of the labels", default=True),
        Component(
            "self-training", f"{here}:SelfTraining", summary="no gold trees: the best of several sampled ones"
        ),
        Component(
            "gold-trees", f"{here}:GoldTrees", summary="labels, and decisions supervised on gold trees"
        ),
    ]


@hookimpl
def crvnn_optimizers() -> Iterable[Component]:
    here = "crvnn_parts.optimizers"
    return [
        Component("ranger", f"{here}:ranger", summary="RAdam and Lookahead, as in the paper", default=True),
        Component("radam", f"{here}:radam", summary="rectified Adam with decoupled weight decay"),
        Component("adamw", f"{here}:adamw", summary="Adam with decoupled weight decay"),
    ]


@hookimpl
def crvnn_observers() -> Iterable[Component]:
    here = "crvnn_parts.observers"
    return [
        Component(
            "progress",
            f"{here}.progress:Progress",
            summary="a progress bar, or plain lines in a pipe",
            default=True,
        ),
        Component(
            "jsonl",
            "crvnn_core.training.observers:JsonLines",
            summary="one JSON object a step, in a file",
            example={"path": "metrics.jsonl"},
        ),
        Component(
            "tensorboard",
            f"{here}.tensorboard:TensorBoard",
            summary="curves for TensorBoard (needs the extra 'track')",
        ),
        Component(
            "wandb",
            f"{here}.wandb:WandB",
            summary="metrics, spec and results in Weights & Biases (needs the extra 'wandb')",
        ),
        Component(
            "mlflow",
            f"{here}.mlflow:MLflow",
            summary="metrics, spec and results in MLflow (needs the extra 'mlflow')",
        ),
    ]


@hookimpl
def crvnn_kernels() -> Iterable[Library]:
    from crvnn_parts.operations.library import PARTS

    return [PARTS]


@hookimpl
def crvnn_presets() -> Iterable[Preset]:
    return PRESETS
