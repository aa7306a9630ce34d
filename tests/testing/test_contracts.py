"""The contracts: every built-in component keeps its promises, and each check finds a component that does not."""

import functools
import inspect
import random
from pathlib import Path

import pytest
import torch
from torch import nn

from crvnn_core import (
    Component,
    Encoder,
    Encoding,
    Example,
    Neighbourhood,
    Observer,
    Task,
    checked_lengths,
    create_plugin_manager,
    read_catalog,
)
from crvnn_core.engine.trace import Trace
from crvnn_core.host.description import with_parameters
from crvnn_core.kernels import in_use
from crvnn_core.testing import CHECKS, promise, run_checks
from crvnn_core.testing.common import existences, padded
from crvnn_core.testing.common import random as standard
from crvnn_core.testing.parts import PlainCell, PlainDecision, PlainHalting, PlainRetriever, PlainScorer
from crvnn_core.trees import Tree
from crvnn_core.trees.baselines import left_branching

CATALOG = read_catalog(create_plugin_manager())

_MODULATIONS = ("none", "paper", "reference")

#: Built-in components away from their defaults: slot, name, and what is set.
VARIANTS = [
    ("retriever", "windowed", ("k=2",)),
    ("retriever", "windowed", ("form=log-space",)),
    ("retriever", "windowed", ("k=2", "form=log-space")),
    ("retriever", "adhoc", ("accumulate=float64",)),
    ("retriever", "adhoc", ("accumulate=float32-pairs",)),
    *(("scorer", "window", (f"window={window}",)) for window in (1, 3, 7)),
    ("scorer", "window", ("transition=0",)),
    ("scorer", "window", ("activation=relu",)),
    ("scorer", "window", ("activation=gelu-tanh",)),
    ("decision", "modulated", ("form=reference",)),
    ("decision", "tempered", ("schedule=linear",)),
    *(
        ("decision", name, (f"modulation={modulation}",))
        for name in ("tempered", "gumbel-sigmoid", "straight-through", "stretched")
        for modulation in _MODULATIONS
    ),
    ("decision", "sparsemax", ("modulation=none",)),
    ("decision", "sparsemax", ("share=0.2", "temperature=0.3")),
    ("cell", "gated", ("activation=relu",)),
    ("cell", "gated", ("activation=gelu-tanh",)),
    ("cell", "gated", ("shared_norm=true",)),
    ("cell", "gated", ("hidden=5", "dropout=0.5")),
    ("halting", "threshold", ("epsilon=0.1",)),
    ("halting", "fixed-depth", ("depth=2",)),
    ("encoder", "crvnn", ("boundaries=false",)),
    ("encoder", "crvnn", ("penalise=unhalted",)),
    ("encoder", "crvnn", ("halt_penalty=0.0",)),
    ("encoder", "crvnn", ("extra_steps=2",)),
    ("encoder", "crvnn", ("boundaries=false", "penalise=unhalted", "extra_steps=1")),
    ("embedding", "random", ("size=3",)),
    ("task", "listops", ("max_tokens=0",)),
    ("optimizer", "ranger", ("k=2", "alpha=0.5")),
]

#: Checks that cannot hold, and why.
EXCLUDED = {
    # The pairs are made of float32 numbers, so finite differences of 1e-6 in float64 drown in their rounding.
    # A test below compares their gradients with those of the float64 form instead.
    ("adhoc", "accumulate=float32-pairs"): "check_retriever_has_true_gradients",
}

#: Components that need files, or a network: the tests of each, which have them, put it through its contract.
ELSEWHERE = {
    ("embedding", "glove"): "plugins/test_embeddings.py",
    ("embedding", "torchtext"): "torchtext/test_vectors.py",
    ("task", "from-file"): "tasks/test_from_file.py",
    ("task", "mnli"): "tasks/test_nli.py",
    ("task", "snli"): "tasks/test_nli.py",
    ("task", "sst2"): "tasks/test_sst.py",
    ("task", "sst5"): "tasks/test_sst.py",
    ("task", "torchtext"): "torchtext/test_task.py",
}
#: Packages that not everyone has, by the component that needs them.
NEEDED = {("observer", "tensorboard"): "tensorboard"}


def _reaches_kernels(slot, name, sets):
    """Whether a component has operations with native kernels, which its contract must then hold with and without."""
    if slot == "decision":
        return name != "sigmoid" and "modulation=none" not in sets
    auto = not any(setting.startswith("accumulate=") for setting in sets)
    return (slot, name) in {("scorer", "window"), ("cell", "gated"), ("encoder", "crvnn")} or (
        name == "adhoc" and auto
    )


def _cases():
    defaults = [(slot, name, ()) for slot, offers in CATALOG.components.items() for name in offers]
    for slot, name, sets in [*defaults, *VARIANTS]:
        if CATALOG.find(slot, name).source.package != "crvnn" or (slot, name) in ELSEWHERE:
            continue  # somebody else's, installed beside
        for check in CHECKS[slot]:
            if EXCLUDED.get((name, *sets)) != check.__name__:
                for by in ("kernels", "torch") if _reaches_kernels(slot, name, sets) else ("torch",):
                    case = "-".join([name, *sets, check.__name__, by])
                    yield pytest.param(slot, name, sets, check, by, id=case)


@pytest.mark.parametrize(("slot", "name", "sets", "check", "by"), list(_cases()), indirect=["by"])
def test_built_in_components_keep_their_promises(slot, name, sets, check, by, monkeypatch):
    if (
        slot == "decision" and in_use()
    ):  # neighbours from a retriever with kernels, so that decisions reach theirs
        adhoc = CATALOG.find("retriever", "adhoc").component.load()()
        neighbours = functools.partial(_neighbours, adhoc)
        monkeypatch.setattr("crvnn_core.testing.contracts.decision.matrices", neighbours)
    pytest.importorskip(NEEDED.get((slot, name), "torch"))
    check(with_parameters(CATALOG.find(slot, name), sets))


def _neighbours(retriever, exists):
    return retriever(exists, torch.ones_like(exists, dtype=torch.bool))


@pytest.mark.parametrize("file", sorted(set(ELSEWHERE.values())))
def test_components_that_need_files_are_put_through_their_contract_elsewhere(file):
    assert "run_checks(" in (Path(__file__).parents[1] / file).read_text()


def test_float32_pairs_have_the_gradients_of_the_float64_form():
    mask = padded((30, 12))
    gradients = []
    for form in ("float64", "float32-pairs"):
        exists, values = existences(mask).requires_grad_(), standard(*mask.shape, 3).requires_grad_()
        near = CATALOG.find("retriever", "adhoc").component.load()(accumulate=form)(exists, mask)
        weights = standard(*mask.shape, 3, seed=8)
        ((near.left(values) + 2 * near.right(values)) * weights)[mask].sum().backward()
        gradients.append((exists.grad, values.grad))
    for exact, paired in zip(*gradients, strict=True):
        torch.testing.assert_close(paired, exact, atol=1e-4, rtol=1e-4)


def test_every_check_says_what_it_promises():
    for checks in CHECKS.values():
        assert len({promise(check) for check in checks}) == len(checks)
        assert all(promise(check).endswith(".") and check.__doc__ for check in checks)


# Below: a component that keeps every promise for each slot, and for each check one that does not.


class Bent(Neighbourhood):
    """A neighbourhood with something done to each of its answers."""

    def __init__(self, near, bend):
        self.near, self.bend = near, bend

    def left(self, values):
        return self.bend(values, self.near.left(values))

    def right(self, values):
        return self.bend(values, self.near.right(values))


def bent_retriever(bend):
    class Broken(PlainRetriever):
        def forward(self, exists, mask):
            return Bent(super().forward(exists, mask), bend)

    return Broken


class SidewaysRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(torch.ones_like(exists), mask)


class PaddingRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(exists, torch.ones_like(mask))


class SociableRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(exists * exists.mean(), mask)


class DetachedRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(exists.detach(), mask)


class CpuRetriever(PlainRetriever):
    def forward(self, exists, mask):
        return super().forward(exists * torch.ones(exists.shape[1]), mask)


class ForgetfulRetriever(PlainRetriever):
    def __init__(self):
        super().__init__()
        self.secret = torch.rand(())

    def forward(self, exists, mask):
        return super().forward(exists * self.secret, mask)


def bent_scorer(bend):
    class Broken(PlainScorer):
        def forward(self, vectors, near, left_c):
            return bend(super().forward(vectors, near, left_c), vectors)

    return Broken


def with_unused_parameter(kind):
    class Broken(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.unused = nn.Parameter(torch.zeros(3))

    return _keeping_signature(Broken, kind)


def with_secret(kind):
    """Adds a random number that is not saved to whatever the module gives."""

    class Broken(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.secret = torch.rand(())

        def forward(self, *args):
            return super().forward(*args) * self.secret

    return _keeping_signature(Broken, kind)


def _keeping_signature(broken, kind):
    broken.__signature__ = inspect.signature(kind)
    return broken


def nan_in_half_precision(result, *_):
    return result * torch.nan if torch.is_autocast_enabled("cpu") else result


def noisy(result, *_):
    return result + 1e-3 * torch.rand_like(result)


def on_the_cpu(result, *_):
    return result + torch.zeros(result.shape)


def decision(decide):
    class Broken(PlainDecision):
        def forward(self, scores, near, eligible, exists):
            return decide(scores, eligible)

    return Broken


def sigmoid(scores, eligible):
    return torch.sigmoid(scores) * eligible


def cell(compose):
    class Broken(PlainCell):
        def forward(self, left, right):
            return compose(super().forward(left, right), left, right)

    return Broken


def leaf(bend):
    class Broken(PlainCell):
        def leaf(self, inputs):
            return super().leaf(bend(inputs))

    return Broken


class TrainingCounter(PlainCell):
    """Counts its calls in training, in a number that is not saved."""

    calls = 0

    def forward(self, left, right):
        self.calls += self.training
        return super().forward(left, right) * (1 - 0.001 * self.calls)


class CallCounter(PlainCell):
    """Gives something else after some calls."""

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


class BatchHalting(PlainHalting):
    def forward(self, exists, vectors, step):
        return exists.sum(1) >= exists.sum(1).mean()


class MoodyHalting(PlainHalting):
    mood = False

    def forward(self, exists, vectors, step):
        self.mood = not self.mood
        return super().forward(exists, vectors, step) & self.mood


class SeededHalting(PlainHalting):
    def __init__(self):
        super().__init__()
        self.secret = torch.initial_seed() == 0

    def forward(self, exists, vectors, step):
        return super().forward(exists, vectors, step) & self.secret


class PeekingHalting(PlainHalting):
    needs_vectors = False

    def forward(self, exists, vectors, step):
        return super().forward(exists, vectors, step) & (vectors.abs().amax((1, 2)) > 0.01)


class MeanHalting(PlainHalting):
    """Stops by the mean over positions, of which shortcuts take out some."""

    def forward(self, exists, vectors, step):
        return exists.mean(1) > 0.1


class LargestVector(PlainHalting):
    """Stops by a vector that may be one of a position that is gone."""

    def forward(self, exists, vectors, step):
        return vectors.abs().amax((1, 2)) > 0.01


class LimitedHalting(PlainHalting):
    limit = 0


def halting(answer):
    class Broken(PlainHalting):
        def forward(self, exists, vectors, step):
            return answer(super().forward(exists, vectors, step))

    return Broken


class MeanEncoder(Encoder):
    """The mean of what a linear map makes of the tokens: it keeps every promise."""

    def __init__(self, width: int):
        super().__init__(width)
        self.map = nn.Linear(width, width)

    def forward(self, inputs, mask, *, trace=False):
        lengths = mask.sum(1)
        checked_lengths(inputs, mask)
        return self.encoding(inputs.masked_fill(~mask.unsqueeze(-1), 0), mask, lengths, trace)

    def encoding(self, inputs, mask, lengths, trace):
        tokens = torch.tanh(self.map(inputs)) * mask.unsqueeze(-1)
        vector = tokens.sum(1) / lengths.unsqueeze(1)
        return Encoding(vector, vector.new_zeros(len(vector)), lengths)


def encoder(bend):
    class Broken(MeanEncoder):
        def encoding(self, inputs, mask, lengths, trace):
            plain = super().encoding(inputs, mask, lengths, trace)
            return Encoding(bend(plain.vector, inputs), plain.penalty, plain.steps)

    return Broken


class CarelessEncoder(MeanEncoder):
    def forward(self, inputs, mask, *, trace=False):
        return self.encoding(inputs.masked_fill(~mask.unsqueeze(-1), 0), mask, mask.sum(1), trace)


class PaddedEncoder(MeanEncoder):
    def forward(self, inputs, mask, *, trace=False):
        checked_lengths(inputs, mask)
        return self.encoding(inputs, mask, mask.sum(1), trace)


class PenalisingEncoder(MeanEncoder):
    def encoding(self, inputs, mask, lengths, trace):
        plain = super().encoding(inputs, mask, lengths, trace)
        return Encoding(plain.vector, plain.penalty.sum(), plain.steps)


class ForgetfulEncoder(MeanEncoder):
    def __init__(self, width: int):
        super().__init__(width)
        self.secret = torch.rand(())

    def encoding(self, inputs, mask, lengths, trace):
        return super().encoding(inputs * self.secret, mask, lengths, trace)


class ChangedByTracing(MeanEncoder):
    def encoding(self, inputs, mask, lengths, trace):
        plain = super().encoding(inputs, mask, lengths, trace)
        return Encoding(plain.vector + trace, plain.penalty, plain.steps)


class UnlikelyTrace(MeanEncoder):
    def encoding(self, inputs, mask, lengths, trace):
        plain = super().encoding(inputs, mask, lengths, trace)
        steps = torch.ones_like(lengths)
        seen = Trace(2.0 * mask.unsqueeze(0), torch.stack([mask, mask]).float(), mask, steps)
        return Encoding(plain.vector, plain.penalty, plain.steps, seen if trace else None)


def joining(joins):
    """An encoder with a tree of its own, from the lengths of a batch."""

    class Joining(MeanEncoder):
        def encoding(self, inputs, mask, lengths, trace):
            plain = super().encoding(inputs, mask, lengths, trace)
            plain.joins = joins(lengths.tolist()) if trace else None
            return plain

    return Joining


class GreedyEncoder(MeanEncoder):
    """Hard inference and neighbours of its own, which keep every promise: joins go from left to right."""

    hard_inference = True

    def forward(self, inputs, mask, *, trace=False, hard=False):
        encoding = super().forward(inputs, mask, trace=trace)
        return self.hardened(encoding, inputs, mask, trace) if hard else encoding

    def hardened(self, encoding, inputs, mask, trace):
        encoding.joins = [range(n - 1) for n in mask.sum(1).tolist()] if trace else None
        return encoding

    def neighbours(self, exists, *, hard=False):
        return adjacent_weights(exists)

    def step_limit(self, length):
        return length


def adjacent_weights(exists):
    """Each token's neighbours are the adjacent tokens, as far as they exist."""
    left = torch.diag(torch.ones(len(exists) - 1), -1)
    return left * exists, left.T * exists


def with_neighbours(bend):
    class Broken(GreedyEncoder):
        def neighbours(self, exists, *, hard=False):
            return bend(*adjacent_weights(exists))

    return Broken


class HardOverTheBatch(GreedyEncoder):
    def hardened(self, encoding, inputs, mask, trace):
        encoding.vector = encoding.vector - encoding.vector.mean(0)
        return encoding


class HardByGradient(GreedyEncoder):
    """Looks for what matters most by the gradient."""

    def hardened(self, encoding, inputs, mask, trace):
        (gradient,) = torch.autograd.grad(encoding.vector.sum(), self.map.weight)
        encoding.vector = encoding.vector.detach() + gradient.abs().amax()
        return encoding


class HardHalfWay(GreedyEncoder):
    """A trace of hard inference that is soft."""

    def hardened(self, encoding, inputs, mask, trace):
        exists = torch.stack([mask, mask]).float()
        encoding.trace = Trace(0.5 * mask.unsqueeze(0), exists, mask, torch.ones_like(encoding.steps))
        return encoding


class HastyEncoder(GreedyEncoder):
    def step_limit(self, length):
        return length // 2


def with_live_setting(kind):
    """Declares a setting that it does not have."""
    return _keeping_signature(type("Broken", (kind,), {"live_settings": ("temprature",)}), kind)


class CountingTask(Task):
    """Is a row of letters of even length? Rows of one split are never as long as those of another."""

    vocabulary = ("a", "b")
    classes = ("no", "yes")

    def examples(self, split, seed):
        place = self.splits.index(split)
        for number in range(60):
            length = 3 * number + place + 1
            yield Example((("a", "b")[number % 2 :][:1] * length,), length % 2)


def task(**changed):
    return type("Broken", (CountingTask,), changed)


class SameEverywhere(CountingTask):
    def examples(self, split, seed):
        return super().examples("train", seed)


class EmptyTest(CountingTask):
    def examples(self, split, seed):
        return iter(()) if split == "test" else super().examples(split, seed)


class StrangeLabels(CountingTask):
    def examples(self, split, seed):
        return (Example(example.sequences, 2) for example in super().examples(split, seed))


class ChangingTask(CountingTask):
    def examples(self, split, seed):
        yield Example((("a",) * random.SystemRandom().randrange(1000, 100000),), 0)


def with_head(head):
    return task(head=lambda self, width, dropout: head(width))


class CpuHead(nn.Linear):
    def forward(self, vectors):
        return super().forward(vectors) + torch.ones(len(vectors), 2)


class DeafHead(nn.Linear):
    def __init__(self, width):
        super().__init__(width, 2)
        self.unused = nn.Parameter(torch.zeros(2))


def descent(params: list) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=0.05, momentum=0.9)


class Ascent(torch.optim.SGD):
    def __init__(self, params: list):
        super().__init__(params, lr=0.05, maximize=True)


class Jittery(torch.optim.SGD):
    def __init__(self, params: list):
        super().__init__(params, lr=0.05)
        self.generator = random.SystemRandom()

    def step(self, closure=None):
        self.param_groups[0]["lr"] = self.generator.uniform(0.01, 0.1)
        return super().step(closure)


class Unsaved(torch.optim.SGD):
    """Its learning rate depends on a count that is not part of its state."""

    def __init__(self, params: list):
        super().__init__(params, lr=0.05)
        self.taken = 0

    def step(self, closure=None):
        self.taken += 1
        self.param_groups[0]["lr"] = 0.05 / self.taken
        return super().step(closure)


class Quiet(Observer):
    pass


class OnlyOnce(Observer):
    begun = False

    def started(self, steps, facts):
        assert not self.begun, "started twice"
        self.begun = True


class FromTheBeginning(Observer):
    """Takes every run for one that begins with its first step."""

    def started(self, steps, facts):
        self.losses = []

    def stepped(self, step, metrics):
        self.losses.append(metrics["loss"])
        assert len(self.losses) == step, "a step is missing"


class Impatient(Observer):
    last = None

    def stepped(self, step, metrics):
        self.last = metrics["loss"]

    def finished(self, facts):
        self.last + 0.0


class Greedy(Observer):
    def stepped(self, step, metrics):
        metrics.pop("loss", None)


KEEPING = {
    "retriever": PlainRetriever,
    "scorer": PlainScorer,
    "decision": PlainDecision,
    "cell": PlainCell,
    "halting": PlainHalting,
    "encoder": MeanEncoder,
    "task": CountingTask,
    "optimizer": descent,
    "observer": Quiet,
}


#: Check, a component that breaks its promise, and words of the reason that is given.
class SteepDecision(PlainDecision):
    """Hard forward, soft backward, and silent about it."""

    gradient_vanishes = True

    def forward(self, scores, near, eligible, exists):
        return ((scores > 0).float() + (scores - scores.detach())) * eligible


class StraightThrough(PlainDecision):
    """A threshold forward, a sigmoid backward, declared to have no gradient at 0 and 1."""

    gradient_vanishes = True

    def forward(self, scores, near, eligible, exists):
        soft = sigmoid(scores, eligible)
        return (soft > 0.5).float() + soft - soft.detach()


class TopK(PlainDecision):
    """Composes what scores as high as the second highest of the row, whether that is still there or not."""

    def forward(self, scores, near, eligible, exists):
        filled = torch.nn.functional.pad(scores.masked_fill(~eligible, -100.0), (0, 2), value=-100.0)
        return torch.sigmoid(scores - filled.topk(2, 1).values[:, 1:]) * eligible


class RowSoftmax(PlainDecision):
    """A softmax over the row, in which positions that are gone take part."""

    def forward(self, scores, near, eligible, exists):
        return torch.softmax(scores.masked_fill(~eligible, -1e9), 1) * eligible


class SureDecision(SteepDecision):
    gradient_vanishes = False
    can_saturate = False


BROKEN = [
    ("retriever_has_its_live_settings", with_live_setting(PlainRetriever), "live_settings has temprature"),
    ("decision_has_its_live_settings", with_live_setting(PlainDecision), "live_settings has temprature"),
    ("halting_has_its_live_settings", with_live_setting(PlainHalting), "live_settings has temprature"),
    ("encoder_has_its_live_settings", with_live_setting(MeanEncoder), "live_settings has temprature"),
    ("encoder_keeps_its_step_limit", HastyEncoder, "took 7 steps; step_limit(7) is 3"),
    ("encoder_infers_hard_alone_as_in_a_batch", HardOverTheBatch, "the vector of sequence 0"),
    ("encoder_infers_hard_without_gradients", HardByGradient, "does not require grad"),
    ("encoder_infers_hard_along_one_tree", HardHalfWay, "c of hard inference is neither 0 nor 1"),
    (
        "encoder_shows_neighbours_as_probabilities",
        with_neighbours(lambda left, right: (left, right[:, :-1])),
        "neighbours to the right are [5, 4]; expected [5, 5]",
    ),
    (
        "retriever_keeps_shape_and_type",
        bent_retriever(lambda v, near: near.float()),
        "torch.float64 became torch.float32",
    ),
    ("retriever_keeps_shape_and_type", bent_retriever(lambda v, near: near[:, :-1]), "became"),
    ("retriever_is_linear", bent_retriever(lambda v, near: near.abs()), "left of a sum: differs"),
    ("retriever_finds_the_nearest_when_existence_is_binary", SidewaysRetriever, "should see"),
    ("retriever_gives_probabilities", bent_retriever(lambda v, near: 2 * near), "weights sum to"),
    ("retriever_gives_probabilities", bent_retriever(lambda v, near: -near), "a weight is -"),
    (
        "retriever_looks_to_its_own_side",
        bent_retriever(lambda v, near: near + 0.1 * v),
        "at and after the position",
    ),
    ("retriever_ignores_padding", PaddingRetriever, "with other padding"),
    (
        "retriever_ignores_positions_that_are_gone",
        bent_retriever(lambda v, near: near * (1 - 1 / v.shape[1])),
        "without the positions that have e = 0, which still count",
    ),
    ("retriever_treats_each_sequence_alone", SociableRetriever, "left of sequence 0"),
    ("retriever_has_true_gradients", DetachedRetriever, "gradcheck found a difference"),
    ("retriever_runs_on_any_device", CpuRetriever, "fails on the meta device"),
    (
        "retriever_works_under_autocast",
        bent_retriever(lambda v, near: near.float() if v.dtype == torch.bfloat16 else near),
        "bfloat16 became torch.float32",
    ),
    (
        "retriever_works_under_autocast",
        bent_retriever(
            lambda v, near: near.bfloat16().to(v.dtype) if torch.is_autocast_enabled("cpu") else near
        ),
        "in torch.float32: differs",
    ),
    ("retriever_learns", with_unused_parameter(PlainRetriever), "no gradient reaches the parameter 'unused'"),
    ("retriever_is_deterministic", bent_retriever(lambda v, near: noisy(near)), "call 2 with the same input"),
    ("retriever_can_be_saved", ForgetfulRetriever, "state that is not saved"),
    (
        "scorer_gives_one_score_a_position",
        bent_scorer(lambda scores, v: scores.unsqueeze(-1)),
        "expected [3, 7]",
    ),
    (
        "scorer_gives_one_score_a_position",
        bent_scorer(lambda scores, v: scores * torch.nan),
        "NaN or infinity",
    ),
    (
        "scorer_treats_each_sequence_alone",
        bent_scorer(lambda scores, v: scores - scores.mean()),
        "sequence 0",
    ),
    (
        "scorer_ignores_padding",
        bent_scorer(lambda scores, v: scores + v.mean((1, 2))[:, None]),
        "with other padding",
    ),
    (
        "scorer_ignores_positions_that_are_gone",
        bent_scorer(lambda scores, v: scores + v.roll(1, 1).mean(-1)),
        "positions that have e = 0, which are seen other than through near",
    ),
    ("scorer_learns", with_unused_parameter(PlainScorer), "no gradient reaches the parameter 'unused'"),
    ("scorer_runs_on_any_device", bent_scorer(on_the_cpu), "fails on the meta device"),
    ("scorer_works_under_autocast", bent_scorer(nan_in_half_precision), "the scores has NaN or infinity"),
    ("scorer_is_deterministic", bent_scorer(noisy), "call 2 with the same input"),
    ("scorer_can_be_saved", with_secret(PlainScorer), "state that is not saved"),
    ("decision_gives_probabilities", decision(lambda u, may: 1.5 * sigmoid(u, may)), "a probability is 1."),
    ("decision_gives_probabilities", decision(lambda u, may: torch.exp(u) / (1 + torch.exp(u))), "c has NaN"),
    (
        "decision_leaves_the_ineligible_alone",
        decision(lambda u, may: torch.sigmoid(u)),
        "an ineligible position",
    ),
    ("decision_gradient_vanishes_if_declared", SteepDecision, "where c is exactly 0 or 1 it has a gradient"),
    ("decision_gradient_vanishes_if_declared", StraightThrough, "as a straight-through estimate has"),
    ("decision_saturates_only_if_declared", SureDecision, "though can_saturate is false"),
    ("decision_ignores_positions_that_are_gone", TopK, "positions that have e = 0, which still compete"),
    (
        "decision_ignores_positions_that_are_gone",
        RowSoftmax,
        "positions that have e = 0, which still compete",
    ),
    ("decision_follows_the_scores", decision(lambda u, may: sigmoid(-u, may)), "c falls while u rises"),
    ("decision_follows_the_scores", decision(lambda u, may: 0.5 * may), "c does not depend on u"),
    (
        "decision_treats_each_sequence_alone",
        decision(lambda u, may: sigmoid(u - u.mean(), may)),
        "sequence 0",
    ),
    (
        "decision_ignores_padding",
        decision(lambda u, may: sigmoid(u - u.mean(1, keepdim=True), may)),
        "with other padding",
    ),
    (
        "decision_passes_gradients",
        decision(lambda u, may: (u > 0) * may * torch.ones((), requires_grad=True)),
        "no gradient reaches the scores",
    ),
    (
        "decision_passes_gradients",
        decision(lambda u, may: sigmoid(u * 0, may)),
        "the gradient of the scores is 0",
    ),
    (
        "decision_gives_probabilities",
        decision(lambda u, may: sigmoid(u, may) * (1 + 1e-6)),
        "a probability is 1.000001",
    ),
    ("decision_learns", with_unused_parameter(PlainDecision), "no gradient reaches the parameter 'unused'"),
    (
        "decision_runs_on_any_device",
        decision(lambda u, may: on_the_cpu(sigmoid(u, may))),
        "fails on the meta device",
    ),
    (
        "decision_works_under_autocast",
        decision(lambda u, may: sigmoid(u, may) * (0.5 if torch.is_autocast_enabled("cpu") else 1)),
        "under autocast: differs",
    ),
    (
        "decision_is_deterministic",
        decision(lambda u, may: noisy(0.5 * sigmoid(u, may)) * may),
        "call 2 with the same input",
    ),
    ("decision_can_be_saved", with_secret(PlainDecision), "state that is not saved"),
    (
        "cell_keeps_its_shapes",
        cell(lambda new, left, right: new[..., :-1]),
        "a parent has the shape [5]; expected [6]",
    ),
    ("cell_keeps_its_shapes", NarrowReadout, "the read-out has the shape [5]"),
    (
        "cell_makes_each_leaf_alone",
        leaf(lambda x: x - x.mean(0)),
        "the leaves of sequence 0 depend on other sequences of the batch",
    ),
    (
        "cell_makes_each_leaf_alone",
        leaf(lambda x: x.cumsum(-2) if x.dim() > 1 else x),
        "the leaf of token 1 of sequence 0 depends on other positions of the sequence",
    ),
    (
        "cell_composes_each_pair_alone",
        cell(lambda new, left, right: new + new.mean()),
        "the parent of pair 0",
    ),
    (
        "cell_sees_both_children",
        cell(lambda new, left, right: torch.sin(left)),
        "does not depend on its right child",
    ),
    (
        "cell_bears_a_child_of_zeros",
        cell(lambda new, left, right: new + left / left.norm(dim=-1, keepdim=True)),
        "a parent has NaN or infinity",
    ),
    (
        "cell_bears_a_child_of_zeros",
        cell(lambda new, left, right: new + right.norm(dim=-1, keepdim=True).sqrt()),
        "the gradient of a child has NaN or infinity",
    ),
    ("cell_learns", RaisesInTraining, "not in training"),
    (
        "cell_runs_on_any_device",
        cell(lambda new, left, right: new @ torch.eye(new.shape[-1])),
        "was given tensors on cpu and meta",
    ),
    ("cell_learns", with_unused_parameter(PlainCell), "no gradient reaches the parameter 'unused'"),
    (
        "cell_learns",
        cell(lambda new, left, right: new.detach() + left),
        "no gradient reaches the parameter 'compose",
    ),
    ("cell_stays_finite_when_deep", GrowingCell, "the root has NaN or infinity"),
    ("cell_runs_on_any_device", cell(on_the_cpu), "fails on the meta device"),
    ("cell_works_under_autocast", cell(nan_in_half_precision), "a parent has NaN or infinity"),
    ("cell_is_deterministic", cell(noisy), "call 2 with the same input"),
    ("cell_can_be_saved", TrainingCounter, "state that is not saved"),
    ("cell_is_deterministic", CallCounter, "keeps state between calls"),
    ("cell_can_be_saved", with_secret(PlainCell), "state that is not saved"),
    (
        "halting_answers_for_each_sequence",
        halting(lambda going: going.float()),
        "expected bool, got torch.float32",
    ),
    ("halting_answers_for_each_sequence", halting(lambda going: going.any()), "expected [3], got []"),
    ("halting_treats_each_sequence_alone", BatchHalting, "goes on: "),
    ("halting_ignores_positions_that_are_gone", MeanHalting, "depends on positions with e = 0"),
    ("halting_ignores_positions_that_are_gone", LargestVector, "depends on positions with e = 0"),
    ("halting_lets_fresh_sequences_go_on", halting(torch.zeros_like), "stops before anything was composed"),
    ("halting_has_a_sensible_limit", LimitedHalting, "limit is 0"),
    ("halting_runs_on_any_device", halting(lambda going: torch.ones(len(going), dtype=torch.bool)), ""),
    (
        "halting_works_under_autocast",
        halting(lambda going: ~going if torch.is_autocast_enabled("cpu") else going),
        "under autocast the answer is another",
    ),
    ("halting_is_deterministic", MoodyHalting, "keeps state between calls"),
    ("halting_needs_vectors_only_if_declared", PeekingHalting, "needs_vectors must be true"),
    ("halting_can_be_saved", SeededHalting, "state that is not saved"),
    (
        "encoder_gives_one_vector_a_sequence",
        encoder(lambda vector, x: vector.unsqueeze(1)),
        "vectors are [3, 1, 6]",
    ),
    ("encoder_gives_one_vector_a_sequence", PenalisingEncoder, "penalty and steps must be [B]"),
    (
        "encoder_treats_each_sequence_alone",
        encoder(lambda vector, x: vector - vector.mean(0)),
        "the vector of sequence 0",
    ),
    ("encoder_ignores_padding", PaddedEncoder, "with NaN for padding"),
    (
        "encoder_ignores_the_order_of_the_batch",
        encoder(lambda vector, x: vector + torch.arange(len(vector), device=vector.device)[:, None]),
        "turned round",
    ),
    (
        "encoder_sees_every_token",
        encoder(lambda vector, x: 2 * x[:, 0]),
        "the vector of sequence 0 does not depend on its token 1",
    ),
    ("encoder_learns", with_unused_parameter(MeanEncoder), "no gradient reaches the parameter 'unused'"),
    ("encoder_refuses_what_it_cannot_encode", CarelessEncoder, "no InputError was raised"),
    ("encoder_traces_truly", ChangedByTracing, "the vector, traced"),
    ("encoder_traces_truly", UnlikelyTrace, "c is not a probability"),
    (
        "encoder_joins_every_position_once",
        joining(lambda lengths: [range(n) for n in lengths]),
        "sequence 0 has 7 tokens and the joins [0, 1, 2, 3, 4, 5, 6]; expected 0 to 7 - 2, each once",
    ),
    (
        "encoder_joins_every_position_once",
        joining(lambda lengths: [[0] * (n - 1) for n in lengths]),
        "expected 0 to 7 - 2, each once",
    ),
    (
        "encoder_joins_every_position_once",
        joining(lambda lengths: [range(lengths[0] - 1)]),
        "there are joins of 1 sequences; expected 3",
    ),
    (
        "encoder_joins_every_position_once",
        joining(lambda lengths: [torch.arange(n - 1) for n in lengths]),
        "the joins of sequence 0 are not whole numbers",
    ),
    ("encoder_runs_on_any_device", encoder(on_the_cpu), "fails on the meta device"),
    ("encoder_works_under_autocast", encoder(nan_in_half_precision), "in bfloat16: differs by up to nan"),
    ("encoder_is_deterministic", encoder(noisy), "call 2 with the same input"),
    ("encoder_can_be_saved", ForgetfulEncoder, "state that is not saved"),
    ("task_names_its_parts", task(vocabulary=("a", "a")), "repeats a token"),
    ("task_names_its_parts", task(classes=("no",)), "the classes are ['no']"),
    ("task_names_its_parts", task(arity=3), "arity is 3"),
    ("task_names_its_parts", task(splits=()), "there are no splits"),
    ("task_takes_a_saved_vocabulary", task(vocabulary=property(lambda self: ("a",))), "cached_property"),
    ("task_gives_examples_in_every_split", EmptyTest, "the split 'test' is empty"),
    ("task_gives_examples_in_every_split", StrangeLabels, "has the label 2"),
    ("task_gives_examples_in_every_split", task(arity=2), "has 1 sequences"),
    ("task_repeats_itself", ChangingTask, "differs from time to time"),
    ("task_keeps_its_splits_apart", SameEverywhere, "'dev' and 'train' share"),
    ("task_reads_back_its_own_text", task(tokenize=lambda self, text: tuple(text)), "is tokenised otherwise"),
    ("task_reads_back_its_own_text", task(vocabulary=("x", "y")), "not one token of the examples"),
    ("task_gold_trees_fit", task(gold=lambda self, example: ()), "has 1 sequences, 0 gold trees"),
    (
        "task_gold_trees_fit",
        task(gold=lambda self, example: (Tree.of("a b"),)),
        "example 0: a\\sb is no tree over ('a',)",
    ),
    (
        "task_gold_trees_fit",
        task(
            gold=lambda self, example: (left_branching(*example.sequences),),
            constituents=lambda self, example: (frozenset({(0, 2), (1, 3)}),),
        ),
        "the gold tree does not have the constituents [(0, 2), (1, 3)]",
    ),
    ("task_head_gives_logits_that_learn", with_head(lambda width: nn.Linear(width, 3)), "logits are [50, 3]"),
    ("task_head_gives_logits_that_learn", with_head(DeafHead), "no gradient reaches the parameter 'unused'"),
    ("task_head_gives_logits_that_learn", with_head(lambda width: None), "head is None"),
    ("task_head_runs_on_any_device", with_head(lambda width: CpuHead(width, 2)), "meta"),
    ("optimizer_is_an_optimizer", lambda params: object(), "object is not a torch.optim.Optimizer"),
    ("optimizer_is_an_optimizer", lambda params: descent(params[:1]), "does not hold the parameters"),
    ("optimizer_makes_the_loss_fall", Ascent, "the loss went from"),
    ("optimizer_is_deterministic", Jittery, "two equal runs differ"),
    ("optimizer_can_be_saved", Unsaved, "resuming from a saved state gives other weights"),
    ("observer_is_an_observer", object, "subclass crvnn_core.Observer"),
    ("observer_survives_a_training_run", OnlyOnce, "started twice"),
    ("observer_survives_a_run_that_is_taken_up", FromTheBeginning, "a step is missing"),
    ("observer_survives_an_interrupted_run", Impatient, "TypeError"),
    ("observer_changes_nothing", Greedy, "the metrics became"),
]

_BY_NAME = {check.__name__.removeprefix("check_"): check for checks in CHECKS.values() for check in checks}


@pytest.mark.parametrize("slot", KEEPING)
def test_a_plain_component_keeps_every_promise(slot):
    component = Component("plain", KEEPING[slot])
    assert [outcome.reason for outcome in run_checks(component, CHECKS[slot]) if not outcome.kept] == []


@pytest.mark.parametrize(("check", "build", "reason"), BROKEN, ids=[check for check, _, _ in BROKEN])
def test_a_broken_promise_is_found_out_and_the_reason_is_given(check, build, reason):
    (outcome,) = run_checks(Component("broken", build), [_BY_NAME[check]])
    assert not outcome.kept
    assert outcome.reason
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("bend", "reason"),
    [
        (lambda left, right: (2 * left, right), "sum to 2 in a row"),
        (lambda left, right: (-left, right), "negative weights"),
        (lambda left, right: (right, left), "on the other side"),
        (lambda left, right: (left, (right > -1).triu(1) / 5), "tokens that do not exist"),
    ],
)
def test_neighbours_that_are_no_probabilities_are_found_out(bend, reason):
    check = _BY_NAME["encoder_shows_neighbours_as_probabilities"]
    (outcome,) = run_checks(Component("broken", with_neighbours(bend)), [check])
    assert reason in outcome.reason


def test_an_encoder_that_declares_what_it_can_do_keeps_every_promise():
    component = Component("greedy", GreedyEncoder)
    assert [outcome.reason for outcome in run_checks(component, CHECKS["encoder"]) if not outcome.kept] == []


#: Parts with one fault each that is easily made, and the one check that finds it.
FAULTS = [
    ("decision", TopK, "check_decision_ignores_positions_that_are_gone"),
    ("decision", RowSoftmax, "check_decision_ignores_positions_that_are_gone"),
    ("decision", StraightThrough, "check_decision_gradient_vanishes_if_declared"),
    ("cell", leaf(lambda x: x - x.mean(0)), "check_cell_makes_each_leaf_alone"),
    ("cell", leaf(lambda x: x.cumsum(-2) if x.dim() > 1 else x), "check_cell_makes_each_leaf_alone"),
    ("cell", TrainingCounter, "check_cell_can_be_saved"),
]


@pytest.mark.parametrize(("slot", "part", "check"), FAULTS)
def test_a_part_with_one_fault_breaks_one_promise(slot, part, check):
    outcomes = run_checks(Component("faulty", part), CHECKS[slot])
    assert [outcome.check for outcome in outcomes if not outcome.kept] == [check]


def test_an_encoder_with_a_tree_of_its_own_keeps_every_promise():
    component = Component("joining", joining(lambda lengths: [range(n - 1)[::-1] for n in lengths]))
    assert [outcome.reason for outcome in run_checks(component, CHECKS["encoder"]) if not outcome.kept] == []


def test_every_check_has_been_seen_to_fail():
    of_embeddings = {check.__name__.removeprefix("check_") for check in CHECKS["embedding"]}
    # plugins/test_embeddings.py shows the same of those of embeddings
    assert set(_BY_NAME) - of_embeddings == {check for check, _, _ in BROKEN}


def test_a_component_that_cannot_be_built_breaks_every_promise():
    def build():
        raise RuntimeError("out of luck")

    outcomes = list(run_checks(Component("broken", build), CHECKS["halting"]))
    assert not any(outcome.kept for outcome in outcomes)
    assert all("RuntimeError: out of luck" in outcome.reason for outcome in outcomes)


class SmallVectors(PlainHalting):
    """A halting by what the nodes are: legitimate, as it sees only this sequence and what exists of it."""

    def forward(self, exists, vectors, step):
        vectors = vectors * (exists > 0).unsqueeze(-1)
        return super().forward(exists, vectors, step) & (vectors.abs().amax((1, 2)) > 0.01)


@pytest.mark.parametrize("check", CHECKS["halting"], ids=lambda check: check.__name__)
def test_a_halting_may_look_at_the_nodes(check):
    check(Component("small-vectors", SmallVectors))


def test_a_component_that_leaves_the_program_breaks_its_promises():
    def leave(width: int) -> None:
        raise SystemExit(0)

    outcomes = list(run_checks(Component("leaver", leave), CHECKS["cell"]))
    assert len(outcomes) == len(CHECKS["cell"])
    assert not any(outcome.kept for outcome in outcomes)
