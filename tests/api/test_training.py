"""``crvnn.train`` and ``crvnn.resume``: data in memory, and the data of a task."""

import pytest
import torch

import crvnn
from crvnn import training
from crvnn.specs import installed
from sentences import LABELS, PAIRS, SAME, SMALL, TEXTS
from small import differences


@pytest.fixture(scope="module")
def model():
    quick = {"model.width": 16, "training.epochs": 12, "training.batch": 8}
    learning = {"training.optimizer": {"name": "adamw", "learning_rate": 0.02}}
    return crvnn.train(
        {**SMALL, **quick, **learning}, TEXTS, LABELS, dev=(TEXTS, LABELS), test=(TEXTS[:9], LABELS[:9])
    )


def test_texts_and_labels_are_learnt(model):
    assert model.results.keys() == {"dev", "test"}
    assert model.results["dev"].total.accuracy > 0.9
    assert model.results["test"].total.examples == 9
    answers = [prediction.label for prediction in model.predict(TEXTS)]
    assert sum(map(str.__eq__, answers, LABELS)) > 36


def test_a_saved_model_is_the_same_when_loaded(model, tmp_path):
    assert model.save(tmp_path / "run") == tmp_path / "run"
    loaded = crvnn.load(tmp_path / "run")
    assert not differences(model.model.state_dict(), loaded.model.state_dict())
    assert (loaded.results, loaded.spec.task) == (model.results, model.spec.task)
    assert loaded.predict(TEXTS[:3]) == model.predict(TEXTS[:3])
    again = loaded.save(tmp_path / "again")
    assert (again / "spec.toml").read_text() == (tmp_path / "run" / "spec.toml").read_text()
    with pytest.raises(crvnn.CrvnnError, match="holds a run already"):
        loaded.save(tmp_path / "run")


def test_labels_of_every_kind_are_classes_by_their_text():
    model = crvnn.train(SMALL, TEXTS, [len(text) % 3 for text in TEXTS])
    assert tuple(model.task.classes) == ("0", "1", "2")
    model = crvnn.train(SMALL, TEXTS, torch.arange(40).numpy() % 2 == 0)
    assert tuple(model.task.classes) == ("False", "True")


def test_series_and_frames_of_pandas_are_texts_and_pairs():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [a for a, _ in PAIRS], "b": [b for _, b in PAIRS], "same": SAME})
    assert crvnn.train(SMALL, frame["a"], frame["same"]).task.arity == 1
    assert crvnn.train(SMALL, frame[["a", "b"]], frame["same"]).task.arity == 2


def test_pairs_are_trained_on_and_asked_for_in_pairs(tmp_path):
    model = crvnn.train(SMALL, PAIRS, SAME, out=tmp_path / "run")
    assert len(crvnn.load(tmp_path / "run").predict(PAIRS[:2])[0].trees) == 2
    assert model.spec.task.params["pairs"] is True


def test_without_development_rows_some_are_held_out():
    model = crvnn.train({**SMALL, "task.dev_share": 0.25}, TEXTS, LABELS)
    assert model.results["dev"].total.examples == 10
    assert len(model.examples("train")) == 30
    none = crvnn.train({**SMALL, "task.dev_share": 0}, TEXTS, LABELS)
    assert none.results == {}


def test_the_same_seed_gives_the_same_weights_and_another_does_not():
    weights = [crvnn.train(SMALL, TEXTS, LABELS, seed=seed).model.state_dict() for seed in (1, 1, 2)]
    assert not differences(weights[0], weights[1])
    assert differences(weights[0], weights[2])


def test_a_stopped_run_is_resumed_with_the_same_rows(tmp_path):
    whole = crvnn.train({**SMALL, "training.epochs": 4}, TEXTS, LABELS, out=tmp_path / "whole")
    crvnn.train(SMALL, TEXTS, LABELS, out=tmp_path / "run")
    resumed = crvnn.resume(tmp_path / "run", TEXTS, LABELS, changes={"training.epochs": 4})
    assert resumed.results == whole.results
    assert not differences(resumed.model.state_dict(), whole.model.state_dict())
    with pytest.raises(crvnn.InputError, match="not the rows that the run was started with"):
        crvnn.resume(tmp_path / "run", TEXTS[1:], LABELS[1:])
    with pytest.raises(crvnn.CrvnnError, match=r"crvnn.resume\(run, texts=..., labels=...\) continues a run"):
        crvnn.resume(tmp_path / "run")


def test_the_rows_take_the_place_of_the_task_of_a_spec(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(
        '[task]\nname = "from-file"\ntrain = "no.csv"\ntokens = "characters"\n[model]\nwidth = 8\n'
    )
    spec = crvnn.read_spec(path, {key: value for key, value in SMALL.items() if key != "model.width"})
    model = crvnn.train(spec, TEXTS, LABELS)
    assert model.spec.task.name == "in-memory"
    assert model.task.tokenize("ab") == ("a", "b")


def test_without_rows_the_task_of_the_spec_is_trained(small_catalog):
    spec = {**SMALL, "task": {"name": "letters", "rows": 12}}
    model = crvnn.train(spec, catalog=small_catalog)
    assert model.results["test"].total.examples == 20


SHOWN = {
    "model.width": 8,
    "model.scorer.transition": 4,
    "training": {"epochs": 1, "threads": 1, "accelerator": "cpu"},
}


@pytest.mark.parametrize(("rows", "batch"), [(8, 4), (40, 4), (1000, 32), (2048, 128), (9999, 128)])
def test_batches_fit_the_rows_if_the_spec_does_not_set_their_size(rows, batch):
    spec, notes = training._with_fitted_batch(crvnn.read_spec({"task": "in-memory"}), rows)
    assert spec.training.batch == batch
    assert bool(notes) == (batch < 128)


def test_a_dozen_texts_take_several_steps_and_it_is_said_what_is_too_small(capsys):
    model = crvnn.train(SHOWN, TEXTS[:12], LABELS[:12])
    assert model.spec.training.batch == 4
    said = capsys.readouterr().err
    assert "training.batch=4 for 12 texts, rather than 128; set it for another size" in said
    assert "the development split has 1 row, too few to choose the best weights by" in said
    assert "give development rows (dev=...)" in said


def test_a_size_of_batches_that_was_set_is_kept_and_said_to_be_one_step(tmp_path, capsys):
    path = tmp_path / "my.toml"
    path.write_text('[training]\nbatch = 128\n[task]\nname = "in-memory"\n')
    for spec in ({**SHOWN, "training.batch": 128}, crvnn.read_spec(SHOWN | {"task": "in-memory"})):
        assert crvnn.train(spec, TEXTS, LABELS).spec.training.batch == 128
        assert "an epoch has 36 rows, which are one step" in capsys.readouterr().err
    assert training._sets_batch(path, installed())


def test_stages_that_set_the_size_of_batches_keep_theirs():
    stages = [{"training": {"steps": 1}}, {"training": {"steps": 1, "batch": 20}}]
    model = crvnn.train({**SHOWN, "stages": stages}, TEXTS, LABELS, progress=False)
    assert [stage.training.batch for stage in model.spec.stages] == [4, 20]


def test_progress_is_not_shown_if_it_is_not_wanted(capsys):
    spec = {**SMALL, "training": {**SMALL["training"], "observers": ["progress"]}}
    crvnn.train(spec, TEXTS, LABELS, progress=False)
    assert capsys.readouterr().err == ""
    crvnn.train(spec, TEXTS, LABELS)
    assert "development" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((TEXTS, LABELS[1:]), "there are 40 texts and 39 labels"),
        ((None, None, (TEXTS, LABELS)), "give texts and labels as well"),
        (("a text", LABELS), "texts and labels are lists"),
        ((TEXTS, None), "give texts and labels, one label for each text"),
        (([], []), "there are no texts"),
        (
            (["a", None, "b"], [1, 2, 1]),
            "every row has one text, or every row a pair of texts, but text 2 is None",
        ),
        ((["a", ("b", "c")], [1, 2]), r"but text 2 is \('b', 'c'\)"),
        (([("a", "b", "c")], [1]), "but text 1 has 3"),
        (
            (["a", "b", "c"], [1, None, float("nan")]),
            "every text needs a label, but label 2 is None, label 3 is nan",
        ),
        ((["a", "b"], [1, "1"]), "the labels 1 and '1' have the same text"),
        ((["a", "b"], [1, 1]), "the labels are all '1'; at least two classes are needed"),
        ((["a", "  "], [1, 2]), r"text 2 has no token: \('  ',\)"),
        ((["a", "a"], [1, 2]), "too few distinct texts to hold some out for development"),
    ],
)
def test_rows_that_cannot_be_used_are_named(given, message):
    texts, labels, *dev = given
    with pytest.raises(crvnn.CrvnnError, match=message):
        crvnn.train(SMALL, texts, labels, **({"dev": dev[0]} if dev else {}))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"dev": TEXTS}, r"dev is a tuple of texts and labels: dev=\(texts, labels\)"),
        ({"test": (TEXTS, LABELS[:3])}, "test: there are 40 texts and 3 labels"),
        (
            {"test": (["good"], ["postive"])},
            "test: label 1, 'postive', is not one of .* Did you mean 'positive'?",
        ),
        ({"dev": (PAIRS, SAME)}, "there is 1 in train, 2 in dev"),
    ],
)
def test_rows_of_other_splits_are_checked_too(splits, message):
    with pytest.raises(crvnn.InputError, match=message):
        crvnn.train(SMALL, TEXTS, LABELS, **splits)
