"""Objectives: the labels alone, the best of sampled trees, and gold trees."""

import pytest
import torch

from crvnn_core import CrvnnError, Encoding, Example, Recursion
from crvnn_core.model.batch import collate
from crvnn_core.model.model import Head, Model, TokenVectors
from crvnn_core.testing.parts import LetterTask, plain_parts
from crvnn_core.trees.gold import tree_along
from crvnn_parts.objectives import GoldTrees, Labels, SelfTraining
from small import Averaging, Letters

WIDTH = 6
TASK = LetterTask()


class PairTask(LetterTask):
    """Two texts an example, of different lengths."""

    arity = 2

    def examples(self, split, seed):
        rows = list(super().examples(split, seed))
        for one, two in zip(rows, rows[::-1], strict=True):
            yield Example((*one.sequences, *two.sequences), one.label)


BOTH = pytest.mark.parametrize("task", [TASK, PairTask()], ids=["single", "pairs"])


def setting(task=TASK):
    """A model, a batch and its examples."""
    torch.manual_seed(0)
    encoder = Recursion(WIDTH, **plain_parts(WIDTH))
    embed = TokenVectors(torch.randn(len(task.vocabulary), WIDTH), trainable=True)
    model = Model(task.vocabulary, embed, encoder, Head(WIDTH, 2, arity=task.arity), width=WIDTH)
    examples = list(task.examples("train", 0))
    return model, collate(examples, model.vocabulary), examples


def loss_and_levels(objective, model, batch, examples, seed=0):
    """The loss of an objective, and the levels of the trees that the model composed along."""
    given = []

    def forward(batch, levels=None):
        given.append(levels)
        return model(batch, levels=levels)

    torch.manual_seed(seed)
    loss, _ = objective.loss(model, forward, batch, examples)
    return loss, given[0]


def label_probabilities(model, batch, levels):
    """The probability [B] of every label when the model composes along these trees."""
    logits = model(batch, levels=levels).logits
    return logits.softmax(-1).gather(1, batch.labels.unsqueeze(1)).squeeze(1).detach()


def loss_along(model, batch, levels, weights):
    """The loss along these trees, in which the decisions of each example have these weights [B]."""
    output = model(batch, levels=levels)
    decisions = torch.stack([encoding.decision_loss for encoding in output.encodings]).mean(0)
    return output.loss(batch.labels) + (decisions * weights).mean()


def test_labels_give_the_loss_of_the_output():
    model, batch, examples = setting()
    loss, levels = loss_and_levels(Labels(), model, batch, examples)
    assert levels is None
    assert torch.equal(loss, model(batch).loss(batch.labels))


def samples_of(model, examples):
    """The levels of three trees for each sequence, sampled as ``SelfTraining`` does, and the labels' chances [3, B]."""
    torch.manual_seed(0)
    many = collate(examples * 3, model.vocabulary)
    sampled = [encoding.levels for encoding in model.sample(many, 4.0).encodings]
    return sampled, label_probabilities(model, many, sampled).view(3, -1)


@BOTH
def test_self_training_takes_the_sampled_tree_along_which_the_label_is_most_likely(task):
    model, batch, examples = setting(task)
    _, chosen = loss_and_levels(SelfTraining(TASK, samples=3, noise=4.0), model, batch, examples)
    sampled, chances = samples_of(model, examples)
    assert chances[:, 0].unique().numel() > 1  # else there is no choice
    for row, best in enumerate(chances.argmax(0).tolist()):
        for levels, candidates in zip(chosen, sampled, strict=True):
            assert levels[row].tolist() == candidates[best * len(examples) + row].tolist()
    torch.testing.assert_close(label_probabilities(model, batch, chosen), chances.amax(0))


@BOTH
def test_its_loss_is_that_of_the_labels_and_of_the_decisions_from_confidence_on(task):
    model, batch, examples = setting(task)
    _, levels = loss_and_levels(SelfTraining(TASK, confidence=0.0), model, batch, examples)
    chances = label_probabilities(model, batch, levels)
    confidence = chances.sort().values[1:3].mean().item()  # between the second and the third of four
    loss, _ = loss_and_levels(
        SelfTraining(TASK, confidence=confidence, decisions=0.5), model, batch, examples
    )
    torch.testing.assert_close(loss, loss_along(model, batch, levels, 0.5 * (chances > confidence)))


def test_below_the_confidence_no_gradient_reaches_the_scorer():
    model, batch, examples = setting()
    loss, _ = loss_and_levels(SelfTraining(TASK, confidence=1.0), model, batch, examples)
    loss.backward()
    assert not model.encoder.scorer.score.weight.grad.any()
    assert model.encoder.cell.compose.weight.grad.any()


def test_under_autocast_sampling_takes_no_gradient_away():
    model, batch, examples = setting()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = loss_and_levels(SelfTraining(TASK, confidence=0.0), model, batch, examples)
    loss.backward()
    assert loss.dtype == torch.float32
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


@BOTH
def test_gold_trees_are_composed_along(task):
    model, batch, examples = setting(task)
    loss, levels = loss_and_levels(GoldTrees(task, decisions=2.0), model, batch, examples)
    for place, found in enumerate(levels):
        for example, row in zip(examples, found.tolist(), strict=True):
            assert tree_along(row, example.sequences[place]).same(task.gold(example)[place])
    torch.testing.assert_close(loss, loss_along(model, batch, levels, torch.full((len(examples),), 2.0)))


def test_an_example_without_a_gold_tree_is_named_with_what_to_do():
    model, batch, examples = setting()
    with pytest.raises(CrvnnError) as caught:
        loss_and_levels(GoldTrees(Letters()), model, batch, examples)
    assert str(caught.value) == (
        "the task Letters has no gold tree of 'a b c d a'. The objectives 'labels' and 'self-training' need none."
    )


def test_an_encoder_that_cannot_compose_along_trees_is_refused_with_what_to_do():
    model, batch, _ = setting()
    model.encoder = Averaging(WIDTH)
    message = r"the encoder Averaging cannot compose along given trees; .*'labels' trains every encoder\."
    with pytest.raises(CrvnnError, match=message):
        SelfTraining(TASK).expect(model)
    for call in (lambda: model.sample(batch, 1.0), lambda: model(batch, levels=[])):
        with pytest.raises(CrvnnError, match="cannot compose along given trees"):
            call()


def test_an_encoding_without_what_was_asked_for_names_the_encoder():
    class Forgetful(Averaging):
        tree_supervision = True

        def sample(self, inputs, mask, noise) -> Encoding:
            return self(inputs, mask)

    model, batch, _ = setting()
    model.encoder = Forgetful(WIDTH)
    with pytest.raises(CrvnnError, match="encoder Forgetful returned an Encoding without levels"):
        model.sample(batch, 1.0)


@BOTH
def test_with_advantages_decisions_count_as_far_as_their_tree_is_better_than_the_mean(task):
    model, batch, examples = setting(task)
    settings = {"samples": 3, "noise": 4.0, "confidence": 0.0}
    loss, chosen = loss_and_levels(
        SelfTraining(TASK, **settings, weighting="advantage"), model, batch, examples
    )
    logs = samples_of(model, examples)[1].log()
    advantages = logs.amax(0) - logs.mean(0)
    assert advantages.max() > 0.001
    torch.testing.assert_close(loss, loss_along(model, batch, chosen, advantages))


class NestedPairs(LetterTask):
    """Pairs of texts of different lengths; with the seed 7, texts that occur in others."""

    arity = 2

    def examples(self, split, seed):
        texts = ["a b", "d a b", "c d a b c"] if seed == 7 else ["a c"]
        for number, (one, two) in enumerate(zip(texts, texts[::-1], strict=True)):
            yield Example((tuple(one.split()), tuple(two.split())), number % 2)


def test_with_substitution_spans_that_are_whole_sequences_elsewhere_are_constituents():
    """In both sequences of a pair, and of the split that the seed of the run gives."""
    task = NestedPairs()
    model, _, _ = setting(task)
    examples = list(task.examples("train", 7))
    batch, long = collate(examples, model.vocabulary), examples[2].sequences[0]

    def spans(number, **options):
        objective = SelfTraining(task, samples=2, noise=8.0, **options)
        _, (first, second) = loss_and_levels(objective, model, batch, examples, number)
        return [tree_along(levels.tolist(), long).spans() for levels in (first[2], second[0])]

    def kept(seed_of_run):
        options = {"substitution": True, "seed": seed_of_run}
        found = [each for number in range(10) for each in spans(number, **options)]
        return all({(1, 4), (2, 4)} <= each for each in found)

    assert kept(7)
    assert not kept(0)
    assert len({spans(number)[0] for number in range(10)}) > 2


def test_an_encoder_that_cannot_limit_its_trees_is_refused_with_substitution():
    class Old(Recursion):
        def sample(self, inputs, mask, noise):
            return super().sample(inputs, mask, noise)

    model, _, _ = setting()
    model.encoder = Old(WIDTH, **plain_parts(WIDTH))
    SelfTraining(TASK).expect(model)
    with pytest.raises(CrvnnError, match="the encoder Old cannot limit the trees that it samples"):
        SelfTraining(TASK, substitution=True).expect(model)


def test_cohesion_for_another_number_of_sequences_is_refused():
    model, batch, _ = setting(PairTask())
    with pytest.raises(CrvnnError, match="cohesion is for 1 columns of sequences, and the batch has 2"):
        model.sample(batch, 1.0, [torch.zeros_like(batch.sequences[0].ids)])
