"""Run directories: complete in themselves, never overwritten, and clear about what is wrong with them."""

import errno
import json
import os
import shutil
import tomllib

import pytest
import torch

from crvnn_core import Cell, CrvnnError
from crvnn_core.inference.trained import load
from crvnn_core.runs.directory import RunDirectory, SavedVocabulary, seed_directories, seed_directory
from crvnn_core.spec import read_spec
from crvnn_core.training import checkpoint
from crvnn_core.training.trainer import train
from files import contents
from small import SETTINGS, Letters, catalog_with, variant


@pytest.fixture
def run(letters_run, tmp_path):
    """A copy of a run, to be damaged."""
    return RunDirectory(shutil.copytree(letters_run, tmp_path / "run"))


def test_everything_that_training_makes_is_there(letters_run):
    names = {str(path.relative_to(letters_run)) for path in letters_run.rglob("*") if path.is_file()}
    assert names == {
        "spec.toml",
        "vocabulary.json",
        "environment.json",
        "metrics.jsonl",
        "weights.safetensors",
        "results.json",
        "checkpoints/last.safetensors",
    }


def test_the_resolved_spec_of_a_run_says_what_was_trained(letters_run, small_catalog):
    sets = [*SETTINGS, "training.steps=30", "training.evaluate_every=10"]
    assert read_spec(small_catalog, letters_run / "spec.toml") == read_spec(small_catalog, sets=sets)
    assert tomllib.loads((letters_run / "spec.toml").read_text())["training"]["batch"] == 8


def test_the_vocabulary_of_a_run_has_tokens_classes_and_the_size_of_vectors(letters_run):
    wanted = {"tokens": list("abcdef"), "classes": ["no", "yes"], "vector_size": 8}
    assert json.loads((letters_run / "vocabulary.json").read_text()) == wanted
    saved = RunDirectory(letters_run).read_vocabulary()
    assert saved == SavedVocabulary(tuple("abcdef"), ("no", "yes"), 8)


def test_the_metrics_of_a_run_are_one_json_object_a_line(letters_run):
    rows = [json.loads(line) for line in (letters_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(1, 31))
    assert [row["step"] for row in rows if row["kind"] == "dev"] == [10, 20, 30]
    assert {"loss", "accuracy", "depth", "tokens_per_second", "learning_rate"} < set(rows[0])


def test_the_results_of_a_run_are_those_of_its_best_weights(letters_run, small_catalog):
    found = json.loads((letters_run / "results.json").read_text())
    best = checkpoint.load(RunDirectory(letters_run).last)["position"]["best_step"]
    assert (found["seed"], found["step"]) == (0, best)
    assert list(found["splits"]) == ["dev", "test"]
    trained = load(letters_run, small_catalog)
    again = trained.evaluate(trained.examples("test")).plain()
    for name, score in again["buckets"].items():
        assert found["splits"]["test"]["buckets"][name] == pytest.approx(score, abs=1e-6)
    assert found["splits"]["test"]["total"] == pytest.approx(again["total"], abs=1e-6)


# What may be wrong with a run.


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("spec.toml", "{run} is not a run of 'crvnn train': it has no spec.toml"),
        ("vocabulary.json", "{run} is incomplete: vocabulary.json is missing"),
        ("weights.safetensors", "{run} is incomplete: weights.safetensors is missing"),
    ],
)
def test_a_missing_file_is_one_clear_message(run, small_catalog, name, message):
    (run.path / name).unlink()
    with pytest.raises(CrvnnError) as caught:
        load(run.path, small_catalog)
    assert str(caught.value) == message.format(run=run.path)


BROKEN = {
    "cut short": lambda content: content[: content.index(b'"') + 3],
    "garbled": lambda content: content[:200] + b"\xff\xfe[[" + content[204:],
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("how", [*BROKEN, "a directory"])
@pytest.mark.parametrize("name", ["spec.toml", "vocabulary.json", "weights.safetensors"])
def test_a_damaged_file_is_one_clear_message_that_names_it(run, small_catalog, name, how):
    path = run.path / name
    content = path.read_bytes()
    path.unlink()
    if how == "a directory":
        path.mkdir()
    else:
        path.write_bytes(BROKEN[how](content))
    with pytest.raises(CrvnnError, match=name):
        load(run.path, small_catalog)


FORM = "tokens and classes must be lists of strings"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[1, 2]", "it holds no JSON object"),
        ("{}", FORM),
        ('{"tokens": ["a"], "classes": ["x"], "vector_size": "wide"}', FORM),
        ('{"tokens": 3, "classes": ["x"], "vector_size": 8}', FORM),
        ("{", "Expecting property name"),
    ],
)
def test_a_vocabulary_of_another_form_is_damaged(run, content, fault):
    run.vocabulary.write_text(content)
    with pytest.raises(CrvnnError, match=rf"vocabulary\.json is damaged: {fault}"):
        run.read_vocabulary()


def with_changed(key, change):
    """Changes an entry of a run's vocabulary file."""

    def edit(run):
        found = run.read_json(run.vocabulary)
        run.write_json(run.vocabulary, {**found, key: change(found[key])})

    return edit


def with_text(change):
    """Changes the text of a run's spec."""

    def edit(run):
        text = run.spec.read_text()
        assert change(text) != text
        run.spec.write_text(change(text))

    return edit


def without_columns(run):
    """Makes its weights those of another model."""
    other = {name: tensor[..., :1] for name, tensor in checkpoint.load(run.weights)["model"].items()}
    checkpoint.save(run.weights, {"model": other})


MISFITS = {
    "another token": (
        with_changed("tokens", lambda tokens: [*tokens, "g"]),
        "{weights}: these weights know 6 tokens, but the vocabulary has 7; they belong to different runs",
    ),
    "another size": (
        with_changed("vector_size", lambda size: size + 1),
        "{weights}: these weights do not fit the model:\n  wrong shape: ",
    ),
    "another class": (
        with_changed("classes", lambda classes: [*classes, "maybe"]),
        "{weights}: these weights do not fit the model:\n  wrong shape: ",
    ),
    "another model": (without_columns, "{weights}: these weights do not fit the model:"),
    "tokens swapped": (
        with_changed("tokens", lambda tokens: [tokens[1], tokens[0], *tokens[2:]]),
        "{vocabulary}: changed since weights.safetensors was saved",
    ),
    "another setting": (
        with_text(lambda text: text.replace('activation = "gelu"', 'activation = "relu"')),
        "{spec}: changed since weights.safetensors was saved",
    ),
    "spec cut short": (  # which defaults must not fill up
        with_text(lambda text: text[: text.index("[training]")]),
        "{spec} is damaged",
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_weights_vocabulary_and_spec_that_do_not_belong_together_are_refused(run, small_catalog, misfit):
    edit, message = MISFITS[misfit]
    edit(run)
    with pytest.raises(CrvnnError) as caught:
        load(run.path, small_catalog)
    paths = {name: getattr(run, name) for name in ("weights", "vocabulary", "spec")}
    assert str(caught.value).startswith(message.format(**paths))


class Scaling(Cell):
    """Has one weight, called by a name that changed."""

    name = "before"

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_parameter(self.name, torch.nn.Parameter(torch.ones(1)))

    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        return (left + right) * getattr(self, self.name)


class Renamed(Scaling):
    name = "after"


def test_weights_of_another_variant_are_refused_name_by_name(tmp_path):
    train(variant("training.steps=1", cell=Scaling), tmp_path / "run")
    with pytest.raises(CrvnnError) as caught:
        load(tmp_path / "run", catalog_with(cell=Renamed))
    lines = ["missing: encoder.cell.after", "unknown: encoder.cell.before"]
    assert str(caught.value).splitlines()[1:] == [f"  {line}" for line in lines]


def test_a_path_that_is_no_directory_is_refused(tmp_path, small_catalog):
    with pytest.raises(CrvnnError, match=r"nowhere: there is no such run directory"):
        load(tmp_path / "nowhere", small_catalog)
    with pytest.raises(CrvnnError, match=rf"{tmp_path} is not a run of 'crvnn train': it has no spec\.toml"):
        load(tmp_path, small_catalog)


def test_a_run_whose_checkpoint_is_damaged_is_not_taken_up_and_not_lost(run):
    content = bytearray(run.last.read_bytes())
    content[-9] ^= 1
    run.last.write_bytes(content)
    before = contents(run.path)
    with pytest.raises(CrvnnError, match=r"last\.safetensors is damaged"):
        train(variant("training.steps=40", "training.evaluate_every=10"), run.path, resume=True)
    assert contents(run.path) == before


def test_a_run_whose_data_has_other_tokens_now_is_not_taken_up(run):
    class Longer(Letters):
        vocabulary = tuple("abcdefg")

    with pytest.raises(
        CrvnnError, match="the data has other tokens or classes than when this run was started"
    ):
        train(variant("training.steps=40", task=Longer), run.path, resume=True)


def test_seeds_are_found_in_the_order_of_their_numbers_and_nothing_else_is(tmp_path):
    for seed in (10, 9, 0):
        seed_directory(tmp_path, seed).mkdir()
    (tmp_path / "seed-x").mkdir()
    (tmp_path / "seed-11").write_text("a file")
    assert seed_directories(tmp_path) == {seed: tmp_path / f"seed-{seed}" for seed in (0, 9, 10)}
    assert list(seed_directories(tmp_path)) == [0, 9, 10]
    assert seed_directories(tmp_path / "nowhere") == {}


def test_json_is_written_for_people_and_for_any_script(tmp_path):
    run = RunDirectory(tmp_path)
    run.write_json(run.results, {"text": "größer \N{SNOWMAN}"})
    assert "größer \N{SNOWMAN}" in run.results.read_text(encoding="utf-8")
    assert run.read_json(run.results) == {"text": "größer \N{SNOWMAN}"}


# One process at a time.


def test_two_processes_cannot_train_in_one_directory(run):
    longer = variant("training.steps=40")
    with run.lock(), pytest.raises(CrvnnError, match="another process is training in"):
        train(longer, run.path, resume=True)
    assert train(longer, run.path, resume=True).step == 40


def test_a_run_that_cannot_be_written_is_not_resumed(run, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with (
        pytest.raises(CrvnnError, match=r"nothing can be written here: .*Permission denied"),
        run.lock(),
    ):
        pass


def test_what_a_killed_process_left_half_written_is_removed(run):
    rests = [run.last.parent / ".last.safetensors.0123abcd", run.path / ".metrics.jsonl.89abcdef"]
    for rest in rests:
        rest.write_bytes(b"half")
    train(variant("training.steps=31"), run.path, resume=True)
    assert not any(rest.exists() for rest in rests)
    assert not (run.path / ".lock").exists()


def test_a_finished_run_without_its_checkpoints_is_not_begun_anew(run):
    run.last.unlink()
    before = run.weights.read_bytes()
    with pytest.raises(
        CrvnnError, match=r"last.safetensors is missing; without it this run cannot be resumed"
    ):
        train(variant("training.steps=40"), run.path, resume=True)
    assert run.weights.read_bytes() == before


# Weights, vocabulary and spec belong together.


def test_weights_that_do_not_say_what_they_belong_to_are_loaded(run):
    checkpoint.save(run.weights, {"model": checkpoint.load(run.weights)["model"]})
    assert load(run.path, catalog_with()).model is not None


def test_settings_that_are_changed_when_resuming_belong_to_the_weights_from_then_on(run):
    train(variant("training.steps=31", "model.cell.dropout=0.5"), run.path, resume=True)
    assert load(run.path, catalog_with()).spec.model.cell.params["dropout"] == 0.5


def test_a_saved_model_belongs_to_the_files_beside_it(run, tmp_path):
    load(run.path, catalog_with()).save(tmp_path / "saved")
    saved = RunDirectory(tmp_path / "saved")
    assert checkpoint.load(saved.weights)["identity"] == saved.identity() == run.identity()
    assert load(saved.path, catalog_with()).model is not None


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda run: run.weights.unlink(), " is missing"),
        (without_columns, ": these weights do not fit the model"),
    ],
)
def test_best_weights_that_are_gone_or_of_another_model_are_named_when_they_are_needed(run, damage, fault):
    damage(run)
    with pytest.raises(CrvnnError, match=rf"weights\.safetensors{fault}"):
        train(variant(), run.path, resume=True)
