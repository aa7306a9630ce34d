"""The way of gold trees from a task to an encoder that needs them: training, evaluation, prediction and trees."""

import copy

import pytest
import torch

from crvnn_core import CrvnnError, Encoder, Encoding, Example, Task, Trained
from crvnn_core.inference.inspection import inspect
from crvnn_core.model.batch import collate
from crvnn_core.model.model import Head, Model, TokenVectors
from crvnn_core.testing.parts import LetterTask
from crvnn_core.training.trainer import train
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import TreeSource, gold_trees, without_structure
from crvnn_parts.objectives import GoldTrees
from small import variant

GOLD = ("model.encoder=gold-tree", "training.steps=150", "training.evaluate_every=75")


class Sums(Task):
    """A task of one's own: is the sum of four numbers in two brackets positive?

    :param read: how many tokens a text has whose tree can be read.
    """

    vocabulary = ("1", "-1", "<", ">")
    classes = ("no", "yes")
    structure_tokens = frozenset("<>")

    def __init__(self, read: int = 8) -> None:
        self.read = read

    def examples(self, split, seed):
        for number in range(16):
            signs = ["1" if number >> place & 1 else "-1" for place in range(4)]
            tokens = ("<", *signs[:2], ">", "<", *signs[2:], ">")
            yield Example((tokens,), int(sum(map(int, signs)) > 0))

    def gold(self, example):
        return tuple(
            Tree.of(tuple(((half[0], half[1]), (half[2], half[3])) for half in (s[:4], s[4:])))
            if len(s) == self.read
            else None
            for s in example.sequences
        )


@pytest.fixture(scope="module")
def sums():
    """A model along the trees of a user's own task, trained."""
    assembly = variant(*GOLD, task=Sums)
    train(assembly)
    return Trained(assembly.spec, assembly.task, assembly.model.eval())


TEXT = "< 1 1 > < 1 -1 >"


def test_a_users_own_task_with_trees_is_trained_evaluated_and_predicted(sums):
    examples = sums.examples("train")
    assert sums.evaluate(examples).total.accuracy == 1
    (answer,) = sums.predict([TEXT])
    assert answer.label == "yes"
    assert str(answer.trees[0]) == "(((< 1) (1 >)) ((< 1) (-1 >)))"
    assert sums.trees(examples[:1])[0][0].same(sums.task.gold(examples[0])[0])
    assert str(inspect(sums, TEXT).sequences[0].tree) == str(answer.trees[0])
    assert sums.probabilities([TEXT])[0].tolist() == pytest.approx(list(answer.probabilities.values()))


def test_sentence_vectors_are_composed_along_the_same_trees(sums):
    (vector,) = sums.encode([TEXT])
    batch = sums.model.batch([sums.example(TEXT)])
    torch.testing.assert_close(vector, sums.model(batch).encodings[0].vector[0].detach())


def test_tokens_of_structure_are_not_composed(sums):
    batch = sums.model.batch([sums.example(TEXT)])
    assert batch.sequences[0].levels.tolist() == [[1, 2, 1, 0]]
    assert batch.sequences[0].ids.shape == (1, 4)
    assert sums.evaluate(sums.examples("train")).total.depth == 2


def test_a_text_whose_tree_cannot_be_read_is_named_with_the_way_out(sums):
    with pytest.raises(CrvnnError, match=r"no gold tree of '1 1'\. The encoders 'crvnn', .* need no trees"):
        sums.predict(["1 1"])
    with pytest.raises(CrvnnError, match="no gold tree of '1 1'"):
        sums.encode(["1 1"])


def test_training_stops_at_an_example_without_a_tree():
    with pytest.raises(CrvnnError, match=r"^the task Sums has no gold tree of '< "):
        train(variant(*GOLD, "task.read=7", task=Sums))


def test_a_task_without_trees_is_refused_at_once():
    with pytest.raises(
        CrvnnError, match=r"'gold-tree' .* along gold trees, and the task Letters has none.*'balanced'"
    ):
        variant(*GOLD)


def test_a_tree_over_other_tokens_is_refused():
    class Short(LetterTask):
        def gold(self, example):
            return (Tree.of(("a", "b")),)

    with pytest.raises(CrvnnError, match="gold tree of 2 tokens for 'a b c', which has 3"):
        gold_trees(Short(), Example((tuple("abc"),), 0), "")
    with pytest.raises(CrvnnError, match=r"Short\.gold returned 1 trees of 2 sequences"):
        gold_trees(Short(), Example((("a", "b"), ("a", "b")), 0), "")


def test_other_encoders_are_given_no_trees():
    seen = []

    class Asking(LetterTask):
        def gold(self, example):
            seen.append(example)
            return super().gold(example)

    assembly = variant("training.steps=1", task=Asking)
    train(assembly)
    assert not seen
    (tokens,) = assembly.model.batch(list(assembly.task.examples("train", 0))).sequences
    assert (tokens.levels, tokens.trees) == (None, None)


def test_an_encoder_of_ones_own_is_given_trees_if_it_declares_that_it_needs_them():
    class Deepest(Encoder):
        """The level of every token, and nothing else."""

        needs_trees = True

        def forward(self, inputs, mask, *, trace=False, levels):
            vector = inputs[:, 0] * 0 + levels.amax(1, keepdim=True)
            return Encoding(vector, vector.new_zeros(len(vector)), levels.amax(1))

    assembly = variant(task=LetterTask, encoder=Deepest)
    batch = assembly.model.batch(list(assembly.task.examples("train", 0)))
    assert assembly.model(batch).encodings[0].steps.tolist() == [4, 0, 2, 3]
    (tokens,) = batch.sequences
    trained = Trained(assembly.spec, assembly.task, assembly.model)
    assert str(trained.predict(["a b c"])[0].trees[0]) == "(a (b c))"
    assert tokens.first(2).levels.tolist() == [[4, 3, 2, 1, 0], [0] * 5]
    assert tokens.to("meta").levels.is_meta


def test_a_batch_without_trees_says_how_to_make_one(sums):
    examples = sums.examples("train")
    with pytest.raises(CrvnnError, match=r"no trees to compose along: make it with Model.batch\(examples\)"):
        sums.model(collate(examples, sums.model.vocabulary))
    embed = TokenVectors(torch.randn(4, 8), trainable=True)
    alone = Model(sums.task.vocabulary, embed, sums.model.encoder, Head(8, 2), width=8)
    with pytest.raises(CrvnnError, match=r"set model\.tree_source"):
        alone.batch(examples)
    alone.tree_source = TreeSource(sums.task)
    assert alone(alone.batch(examples)).logits.shape == (16, 2)


def test_objectives_that_supervise_decisions_say_that_there_are_none(sums):
    with pytest.raises(
        CrvnnError, match=r"always composes along .* gold trees.* 'labels' trains every encoder"
    ):
        GoldTrees(sums.task).expect(sums.model)


def test_a_copy_of_a_model_reads_the_same_task(sums):
    assert copy.deepcopy(sums.model).tree_source.task is sums.task


def test_a_pair_has_the_trees_of_both_texts_and_parentheses_of_logic_are_left_out():
    assembly = variant("model.encoder=gold-tree", "task=logic", "task.rows=8", "task.held_out=6")
    trained = Trained(assembly.spec, assembly.task, assembly.model)
    pair = ("( not b )", "( b ( and d ) )")
    batch = trained.model.batch([trained.example(pair)])
    assert [tokens.levels.tolist() for tokens in batch.sequences] == [[[1, 0]], [[2, 1, 0]]]
    answer = trained.predict([pair])[0]
    gold = trained.task.gold(trained.example(pair))
    assert all(tree.same(right) for tree, right in zip(answer.trees, gold, strict=True))
    assert trained.encode([pair]).shape == (1, 2, 8)
    (parse,) = trained.encode(["( not b )"])
    torch.testing.assert_close(parse, trained.encode([pair])[0, 0])


@pytest.mark.parametrize(
    ("tree", "left"),
    [
        ((("(", "a"), ("b", ")")), ("a", "b")),
        ((("(", ")"), ("a", (")", "b"))), ("a", "b")),
        (("(", ("a", ")")), "a"),
        (("a", "b"), ("a", "b")),
        (("(", ")"), ("(", ")")),
    ],
)
def test_tokens_of_structure_are_cut_out_of_a_tree(tree, left):
    assert without_structure(Tree.of(tree), frozenset("()")).nested() == left
