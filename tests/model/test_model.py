"""A whole model: vectors of tokens, an encoder and a head."""

import threading

import pytest
import torch
from torch import nn

from crvnn_core import ContractError, CrvnnError, Encoder, Encoding, Head, InputError, Model
from crvnn_core.interfaces import Example
from crvnn_core.model.batch import PADDING, RESERVED, UNKNOWN, collate
from crvnn_core.model.model import Output, TokenVectors
from small import variant


class Mean(Encoder):
    """The mean of the tokens, with a penalty that is known."""

    def forward(self, inputs, mask, *, trace=False):
        mean = (inputs * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return Encoding(mean, mask.sum(1).to(inputs.dtype), mask.sum(1))


@pytest.fixture
def model():
    vectors = TokenVectors(torch.randn(3, 5), trainable=True)
    return Model(["a", "b", "c"], vectors, Mean(4), Head(4, 2), width=4, dropout=0.5)


# Vectors of tokens.


def test_each_token_has_its_vector_and_all_unknown_ones_share_one():
    vectors = TokenVectors(torch.arange(6.0).reshape(3, 2), trainable=True)
    found = vectors(torch.tensor([[RESERVED, RESERVED + 2, UNKNOWN], [UNKNOWN, RESERVED + 1, PADDING]]))
    assert found[0, 0].tolist() == [0, 1]
    assert found[0, 1].tolist() == [4, 5]
    assert found[1, 1].tolist() == [2, 3]
    assert torch.equal(found[0, 2], vectors.unknown)
    assert torch.equal(found[1, 0], vectors.unknown)


@pytest.mark.parametrize("trainable", [True, False])
def test_the_unknown_vector_is_trained_even_when_the_others_are_not(trainable):
    vectors = TokenVectors(torch.randn(3, 2), trainable)
    vectors(torch.tensor([[UNKNOWN, RESERVED + 1, UNKNOWN]])).sum().backward()
    assert vectors.unknown.grad.tolist() == [2, 2]
    if trainable:
        assert vectors.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0]]
    else:
        assert vectors.weight.grad is None


def test_the_unknown_vector_is_about_as_long_as_the_others_and_as_precise():
    large, small = (TokenVectors(torch.randn(200, 300) * scale, True).unknown.std() for scale in (50.0, 0.01))
    assert large.item() == pytest.approx(50, rel=0.2)
    assert small.item() == pytest.approx(0.01, rel=0.2)
    single = TokenVectors(torch.ones(1, 1, dtype=torch.float64), True).unknown
    assert single.isfinite().all()
    assert single.dtype == torch.float64


# Heads.


@pytest.mark.parametrize(("layers", "shapes"), [(1, [(3, 4)]), (2, [(4, 4), (3, 4)])])
def test_a_head_has_one_or_two_layers(layers, shapes):
    head = Head(4, 3, layers=layers)
    assert [tuple(p.shape) for p in head.parameters() if p.dim() == 2] == shapes
    assert head(torch.randn(7, 4)).shape == (7, 3)


def test_a_head_for_pairs_sees_both_their_distance_and_their_product():
    head = Head(2, 2, arity=2, layers=1)
    seen = []
    head.layers[-1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    head.eval()(torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 5.0]]))
    assert seen[0].tolist() == [[1, -2, 3, 5, 2, 7, 3, -10]]


# The whole.


def test_a_loss_is_the_cross_entropy_and_the_mean_penalty_of_the_sequences():
    logits, labels = torch.randn(3, 4), torch.tensor([0, 3, 1])
    encodings = tuple(
        Encoding(torch.zeros(3, 2), torch.tensor(penalty), torch.ones(3))
        for penalty in ([1.0, 2, 3], [0.0, 0, 6])
    )
    wanted = nn.functional.cross_entropy(logits, labels).item() + (2 + 2) / 2
    assert Output(logits, encodings).loss(labels).item() == pytest.approx(wanted)


def sampled(log_probability, penalty=0.0):
    count = len(log_probability)
    vector = torch.zeros(count, 2, dtype=torch.double)
    return Encoding(vector, torch.full((count,), penalty), torch.ones(count), log_probability=log_probability)


@pytest.mark.parametrize("baseline", [None, torch.randn(6, 4, dtype=torch.double)])
def test_the_expected_gradient_of_sampled_decisions_is_that_of_the_expected_loss(baseline):
    """A pair with 2 and 3 possible decisions, all 6 outcomes as the rows of a batch, weighted by probability."""
    torch.manual_seed(0)
    one, two = (torch.randn(k, dtype=torch.double, requires_grad=True) for k in (2, 3))
    logits = torch.randn(6, 4, dtype=torch.double, requires_grad=True)
    labels = torch.full((6,), 2)
    if baseline is not None:
        baseline = baseline[:1].expand(6, 4)  # it does not depend on what is sampled
    chances = (
        one.log_softmax(0).repeat_interleave(3),
        two.log_softmax(0).repeat(2),
    )
    joint = sum(chances).exp()
    expected = (joint * nn.functional.cross_entropy(logits, labels, reduction="none")).sum()
    want = torch.autograd.grad(expected, [one, two, logits], retain_graph=True)
    got = [torch.zeros_like(each) for each in want]
    for row in range(6):
        just = slice(row, row + 1)
        given = None if baseline is None else baseline[just]
        encodings = tuple(sampled(each[just]) for each in chances)
        loss = Output(logits[just], encodings, given, Mean(2).relative_cost).loss(labels[just])
        assert loss.item() == pytest.approx(nn.functional.cross_entropy(logits[just], labels[just]).item())
        found = torch.autograd.grad(loss, [one, two, logits], retain_graph=True)
        got = [total + joint[row].detach() * each for total, each in zip(got, found, strict=True)]
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs)


class Flips(Mean):
    """The mean of the tokens, or in training a random half of it, with the mean itself as baseline."""

    def __init__(self, width):
        super().__init__(width)
        self.score, self.costs = nn.Parameter(torch.zeros(())), []

    def forward(self, inputs, mask, *, trace=False):
        encoding = super().forward(inputs, mask)
        if self.training:
            sign = torch.where(torch.rand(len(inputs)) < 0.5, 1.0, -1.0)
            encoding.log_probability = nn.functional.logsigmoid(self.score * sign)
            encoding.baseline = encoding.vector.detach()
            encoding.vector = encoding.vector * (sign > 0).unsqueeze(1)
        return encoding

    def relative_cost(self, cost, baseline):
        self.costs.append((cost, baseline))
        return super().relative_cost(cost, baseline)


@pytest.mark.parametrize("arity", [1, 2])
def test_the_head_classifies_baselines_without_dropout_and_gradients(arity):
    vectors = TokenVectors(torch.randn(3, 4), trainable=True)
    model = Model(["a", "b", "c"], vectors, Flips(4), Head(4, 2, arity=arity, dropout=0.5), width=4)
    examples = [Example((("a", "b"), ("b",))[:arity], 0), Example((("c",), ("a", "c"))[:arity], 1)]
    batch = collate(examples, model.vocabulary)
    output = model(batch)
    assert model.head.training
    assert not output.baseline.requires_grad
    output.loss(batch.labels).backward()
    assert model.encoder.score.grad.isfinite()
    ((cost, baseline),) = model.encoder.costs  # once, also for a pair
    assert (
        cost.tolist() == nn.functional.cross_entropy(output.logits, batch.labels, reduction="none").tolist()
    )
    evaluated = model.eval()(batch)
    want = nn.functional.cross_entropy(evaluated.logits, batch.labels, reduction="none")
    torch.testing.assert_close(baseline, want.detach())
    evaluated.loss(batch.labels)
    assert len(model.encoder.costs) == 1


def test_vectors_of_any_size_are_mapped_to_the_models_width(model):
    assert model.project.weight.shape == (4, 5)
    output = model(collate([Example((("a", "b"),), 0), Example((("c",),), 1)], model.vocabulary))
    assert output.logits.shape == (2, 2)
    assert output.encodings[0].vector.shape == (2, 4)


def test_probabilities_are_those_of_each_sequence_on_its_own(model):
    sequences = [["a"], ["b", "c", "x"], ["c", "c"]]
    together = model.probabilities(sequences)
    alone = torch.cat([model.probabilities([sequence]) for sequence in sequences])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together.sum(1), torch.ones(3))


@pytest.mark.parametrize("mode", [True, False])
def test_asking_neither_learns_nor_drops_out_nor_changes_the_mode(model, mode):
    model.train(mode)
    one, two = model.predict([["a", "b"]]), model.predict([["a", "b"]])
    assert torch.equal(one.logits, two.logits)
    assert not one.logits.requires_grad
    assert model.training is mode


def test_threads_that_ask_a_model_in_training_mode_get_the_answers_of_evaluation_mode(model):
    expected = model.eval().predict([["a", "b", "c"]]).logits
    model.train()
    model.embed.eval()
    modes = [each.training for each in model.modules()]
    start, found = threading.Barrier(4), []

    def ask():
        start.wait()
        for _ in range(50):
            found.append(model.predict([["a", "b", "c"]]).logits)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200
    assert all(torch.equal(logits, expected) for logits in found)
    assert [each.training for each in model.modules()] == modes


def test_the_mode_of_the_model_does_not_change_while_it_answers(model):
    seen = []
    model.head.register_forward_hook(lambda module, *_: seen.append((module.training, model.head.training)))
    model.predict([["a"]])
    assert seen == [(False, True)]


def test_an_encoder_that_returns_no_encoding_is_named(model):
    model.encoder.forward = lambda *_, **__: None
    with pytest.raises(ContractError, match="encoder Mean returned a NoneType, not an Encoding"):
        model.predict([["a"]])


def test_a_forward_bound_to_a_module_in_training_mode_is_refused(model):
    model.head.forward = model.head.forward
    with pytest.raises(
        CrvnnError, match=r"Head: forward was compiled or replaced; call eval\(\) on the model first"
    ):
        model.predict([["a"]])
    assert model.eval().predict([["a"]]).logits.isfinite().all()


def test_asking_about_nothing_is_an_error(model):
    with pytest.raises(InputError, match="sequence 0 is empty"):
        model.predict([[]])


@pytest.mark.parametrize("task", ["letters", "pairs"])
def test_traces_are_given_when_asked_for(task):
    model = variant(f"task={task}").model
    columns = [[["a", "b", "c"], ["d"]]] * (2 if task == "pairs" else 1)
    assert all(encoding.trace is None for encoding in model.predict(*columns).encodings)
    for encoding in model.predict(*columns, trace=True).encodings:
        assert encoding.trace.mask.tolist() == [[True, True, True], [True, False, False]]


def test_hard_inference_is_refused_where_the_encoder_does_not_offer_it(model):
    with pytest.raises(CrvnnError, match="'Mean' offers no hard inference"):
        model.predict([["a"]], hard=True)
    assert model.training
