"""Trained models: what they answer, wherever they are."""

import shutil

import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import small
from crvnn_core import (
    Component,
    CrvnnError,
    Encoder,
    Encoding,
    InputError,
    SpecError,
    TrainedModel,
    UnknownNameError,
    create_plugin_manager,
    hookimpl,
    read_catalog,
)
from crvnn_core.inference.inspection import inspect
from crvnn_core.inference.trained import load
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.training.trainer import train
from crvnn_core.trees import Tree
from crvnn_parts.decisions.sigmoids import Sigmoid
from small import SETTINGS, Letters, catalog_with, leaves, variant

TEXTS = ["a b", "c d e f", "f", "b b b", "e a c d", "d", "c c a"]


def test_the_label_is_the_most_probable_class_and_what_was_learnt(letters):
    answers = letters.predict(TEXTS)
    for answer in answers:
        assert set(answer.probabilities) == {"no", "yes"}
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.probabilities[answer.label] == max(answer.probabilities.values())
    assert sum((a.label == "yes") == ("a" in text) for a, text in zip(answers, TEXTS, strict=True)) >= 6


def assert_same(one, two):
    assert one.label == two.label
    assert one.probabilities == pytest.approx(two.probabilities, abs=1e-5)
    assert all(map(Tree.same, one.trees, two.trees))


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.sampled_from("abcdefxyz"), min_size=1, max_size=12), min_size=1, max_size=6),
    st.randoms(),
)
def test_neither_other_texts_nor_their_order_change_an_answer(letters, sequences, generator):
    texts = [" ".join(sequence) for sequence in sequences]
    alone = {text: letters.predict([text])[0] for text in texts}
    shuffled = generator.sample(texts, len(texts))
    for text, answer in zip(shuffled, letters.predict(shuffled), strict=True):
        assert_same(answer, alone[text])


def test_words_never_met_share_one_meaning(letters):
    one, two = letters.predict(["a zebra", "a yak"])
    assert one.probabilities == two.probabilities
    assert (one.tree.nested(), two.tree.nested()) == (("a", "zebra"), ("a", "yak"))


def test_a_prediction_carries_its_text_its_tokens_and_those_that_are_unknown(letters):
    known, unknown = letters.predict(["a  b", "yak a zebra yak"])
    assert (known.text, known.tokens, known.unknown) == ("a  b", (("a", "b"),), ())
    assert unknown.text == "yak a zebra yak"
    assert unknown.tokens == (("yak", "a", "zebra", "yak"),)
    assert unknown.unknown == ("yak", "zebra")


@pytest.mark.parametrize(
    ("which", "text", "message"),
    [
        *(("letters", text, "is empty: there is nothing to predict$") for text in ("", "   ", "\n")),
        *(("pairs", text, ": the task asks for a pair of texts, not for ") for text in ("a b", ("a",))),
        ("letters", ("a", "b"), ": the task asks for a text, not for "),
    ],
)
def test_what_is_no_text_of_the_task_is_refused_by_its_place(which, text, message, request):
    right = "a" if which == "letters" else ("a", "b")
    with pytest.raises(InputError, match=rf"^text 2 ?{message}"):
        request.getfixturevalue(which).predict([right, text])


def test_pairs_are_asked_for_in_pairs(pairs):
    (answer,) = pairs.predict([("a  yak", "zebra b")])
    assert answer.text == ("a  yak", "zebra b")
    assert answer.tokens == (("a", "yak"), ("zebra", "b"))
    assert answer.unknown == ("yak", "zebra")
    questions = [("a b", "a c d"), ("c", "d"), ("e f e f", "e")]
    answers = pairs.predict(questions)
    chances = pairs.model.probabilities(
        *([t.split() for t in column] for column in zip(*questions, strict=True))
    )
    for question, answer, row in zip(questions, answers, chances.tolist(), strict=True):
        assert [leaves(tree) for tree in answer.trees] == [text.split() for text in question]
        assert answer.tree == answer.trees[0]
        assert list(answer.probabilities.values()) == pytest.approx(row, abs=1e-5)


def test_what_a_task_says_against_a_text_names_its_place(letters_run, small_catalog):
    trained = load(letters_run, small_catalog)

    def refuse(text):
        raise InputError("a bracket is missing")

    trained.task.tokenize = refuse
    with pytest.raises(InputError, match=r"^text 1: a bracket is missing$"):
        trained.predict(["a"])


class Flat(Encoder):
    """Has no tree to show."""

    def forward(self, inputs, mask, *, trace=False):
        mean = (inputs * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return Encoding(mean, inputs.new_zeros(len(inputs)), torch.ones(len(inputs), dtype=torch.long))


class Recording(Flat):
    """Offers hard inference, and keeps what it was called with; joins from left to right."""

    hard_inference = True
    calls: list[bool] = []  # noqa: RUF012

    def forward(self, inputs, mask, *, trace=False, hard=False):
        self.calls.append(hard)
        encoding = super().forward(inputs, mask)
        encoding.joins = [list(range(n - 1)) for n in mask.sum(1).tolist()]
        return encoding


def test_an_encoder_of_any_class_that_declares_hard_inference_is_asked_for_it(tmp_path):
    train(variant("training.steps=1", encoder=Recording), tmp_path / "run")
    trained = load(tmp_path / "run", catalog_with(encoder=Recording))
    examples = trained.examples("dev")[:2]
    for hard in (True, False):
        Recording.calls.clear()
        trained.predict(["a b"], hard=hard)
        trained.evaluate(examples, hard=hard)
        trained.trees(examples, hard=hard)
        inspect(trained, "a b", hard=hard)
        assert set(Recording.calls) == {hard}
        assert len(Recording.calls) >= 4


def test_an_encoder_without_hard_inference_is_named_with_what_it_lacks(tmp_path):
    train(variant("training.steps=1", encoder=Flat), tmp_path / "run")
    trained = load(tmp_path / "run", catalog_with(encoder=Flat))
    examples = trained.examples("dev")
    assert trained.evaluate(examples).total.examples == len(examples)
    for ask in (trained.predict, trained.evaluate, trained.trees):
        with pytest.raises(CrvnnError, match=r"'mine' offers no hard inference.*'hard_inference = True'"):
            ask(["a"] if ask == trained.predict else examples, hard=True)


# Where the model and its data are.


class Stored(Letters):
    """Keeps its examples, vocabulary and classes in a file, which is read when they are asked for.

    :param path: of the file.
    """

    splits = ("train", "dev")

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    @property
    def vocabulary(self):
        return self.__dict__.get("words") or sorted(
            {t for e in self.examples("train", 0) for t in e.sequences[0]}
        )

    @vocabulary.setter
    def vocabulary(self, words):
        self.__dict__["words"] = words

    def examples(self, split, seed):
        from pathlib import Path

        return self.read(Path(self.path))


def test_a_run_moved_elsewhere_without_its_data_answers_the_same(tmp_path):
    data, home = tmp_path / "data.tsv", tmp_path / "run"
    data.write_text("".join(f"{'yes' if 'a' in text else 'no'}\t{text}\n" for text in TEXTS * 3))
    train(variant(f"task.path={data}", task=Stored), home)
    catalog = catalog_with(task=Stored)
    here = load(home, catalog)
    before, score = here.predict(TEXTS), here.evaluate(here.examples("dev"))
    moved = tmp_path / "far" / "away"
    moved.parent.mkdir()
    shutil.move(home, moved)
    data.rename(tmp_path / "moved.tsv")
    there = load(moved, catalog)
    for one, two in zip(there.predict(TEXTS), before, strict=True):
        assert one == two  # bit for bit
    with pytest.raises(OSError, match=r"data\.tsv"):
        there.examples("dev")
    found = load(moved, catalog, [f"task.path={tmp_path / 'moved.tsv'}"])
    assert found.evaluate(found.examples("dev")) == score


def test_what_trained_a_model_need_not_be_there_when_it_is_used(tmp_path):
    def descent(params: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=0.1)

    class Silent(small.Notebook):
        pass

    assembly = variant("training.steps=1", optimizer=descent, observer=Silent)
    train(assembly, tmp_path / "run")
    assert 'name = "mine"' in (tmp_path / "run" / "spec.toml").read_text()
    assert load(tmp_path / "run", catalog_with()).predict(["a"])[0].probabilities


def test_a_part_of_the_model_that_is_not_installed_is_named(tmp_path):
    train(variant("training.steps=1", encoder=Flat), tmp_path / "run")
    with pytest.raises(
        UnknownNameError, match=r"spec\.toml:\d+ \[model\.encoder.*no encoder is called 'mine'"
    ):
        load(tmp_path / "run", catalog_with())


# Evaluation.


def test_a_file_that_a_task_cannot_read_is_a_clear_error(letters_run, tmp_path):
    class Closed(Letters):
        read = Letters.__mro__[1].read

    trained = load(letters_run, catalog_with())
    trained.task.__class__ = Closed
    with pytest.raises(CrvnnError, match="this task reads no files"):
        trained.examples(path=tmp_path / "x")


# Models that plug-ins bring along.


def offering(path, name="spellbound"):
    class Brought:
        @hookimpl
        def crvnn_models(self):
            return [TrainedModel(name, str(path), summary="knows its letters")]

    return read_catalog(create_plugin_manager(small, Brought()))


def test_a_model_of_a_plug_in_is_found_by_its_name_after_a_directory(
    letters_run, letters, tmp_path, monkeypatch
):
    assert load("spellbound", offering(letters_run)).predict(TEXTS) == letters.predict(TEXTS)
    nowhere = offering(tmp_path / "nowhere")
    with pytest.raises(CrvnnError, match=r"nowhere: there is no such directory"):
        load("spellbound", nowhere)
    with pytest.raises(
        CrvnnError, match=r"spelbound: there is no such run directory.*installed: .*spellbound"
    ):
        load("spelbound", nowhere)
    shutil.copytree(letters_run, tmp_path / "spellbound")
    monkeypatch.chdir(tmp_path)
    assert load("spellbound", nowhere).predict(["a"])


def test_predictions_are_the_same_after_training_in_64_bits(tmp_path):
    assembly = variant('training.precision="64"')
    train(assembly, tmp_path / "run")
    (answer,) = load(tmp_path / "run", catalog_with()).predict(["a b c"])
    wanted = assembly.model.probabilities([["a", "b", "c"]])[0].tolist()
    assert list(answer.probabilities.values()) == pytest.approx(wanted, abs=1e-5)


class Mine:
    """A plug-in that no package has."""

    @hookimpl
    def crvnn_decisions(self):
        return [Component("mine", Sigmoid)]


def test_a_run_with_a_part_defined_in_memory_says_so_and_how_to_load_it(tmp_path):
    catalog = read_catalog(create_plugin_manager(small, Mine()))
    spec = read_spec(catalog, sets=[*SETTINGS, "model.decision=mine", "training.steps=1"])
    train(assemble(spec, catalog), tmp_path / "run")
    model = load(tmp_path / "run", catalog)
    without = read_catalog(create_plugin_manager(small))
    with pytest.raises(UnknownNameError) as caught:
        load(tmp_path / "run", without)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'run' / 'spec.toml'}:")
    assert f"{tmp_path / 'run'} was trained with parts that were defined in memory, by the program" in message
    assert "(Mine); a run keeps no code of theirs. Load it where they are defined" in message
    assert f"crvnn.load({str(tmp_path / 'run')!r}, crvnn.catalog(PLUGIN))" in message
    assert "no decision is called 'mine'" in message
    evolve(model, directory=None).save(tmp_path / "copy")
    with pytest.raises(UnknownNameError, match="defined in memory"):
        load(tmp_path / "copy", without)
    with pytest.raises(SpecError, match="task 'letters' has no parameter 'longet'") as caught:
        load(tmp_path / "run", catalog, sets=["task.longet=3"])
    assert "in memory" not in str(caught.value)
