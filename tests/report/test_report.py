"""The data of a report: what is missing is a reason on the page, and a mistake is an error."""

import json
import re
import shutil

import pytest

import small
from crvnn_core import CrvnnError, InputError
from crvnn_core.training import checkpoint
from crvnn_core.training.trainer import train
from reporting import page_of, report


def without(run, tmp_path, *names):
    """A copy of a run that lacks some files."""
    shutil.copytree(run, tmp_path / "copy")
    for name in names:
        (tmp_path / "copy" / name).unlink()
    return tmp_path / "copy"


def test_a_run_that_still_trains_is_shown_as_far_as_it_got(small_catalog, letters_run, tmp_path):
    path = without(letters_run, tmp_path, "results.json", "weights.safetensors")
    outline = report(small_catalog, path)
    assert "no results yet" in outline.section("overview")
    assert "has no results: interrupted or still training" in outline.section("overview")
    assert "weights.safetensors is missing" in outline.section("confusion")
    assert any(element[2] == "Loss during training" for element in outline.all("title"))


def test_a_run_without_curves_says_so(small_catalog, letters_run, tmp_path):
    outline = report(small_catalog, without(letters_run, tmp_path, "metrics.jsonl"))
    assert "no metrics.jsonl" in outline.section("learning")


def test_data_that_is_not_here_is_a_reason_and_the_rest_works(letters_run, catalog, tmp_path):
    (tmp_path / "my.csv").write_text("text,label\n" + "good film,pos\nbad film,neg\n" * 10)
    spec = (
        f'task={{name="from-file", train="{tmp_path}/my.csv"}}',
        *(text for text in small.SETTINGS if not text.startswith("task")),
    )
    train(small.variant(*spec), tmp_path / "run")
    (tmp_path / "my.csv").unlink()
    outline = report(catalog, tmp_path / "run", texts=["good film"])
    for part in ("depth", "confusion", "examples"):
        assert "my.csv" in outline.section(part)
    assert "good film" in outline.section("examples")


def test_numbers_that_are_none_leave_gaps_in_curves(small_catalog, letters_run, tmp_path):
    path = without(letters_run, tmp_path)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 31, "kind": "train", "loss": null, "accuracy": 1.0}\n')
        file.write('{"step": 32, "kind": "note", "message": "x"}\nno record\n{"step": 33, "kind": "tr')
    text = page_of(small_catalog, path, examples=0)
    assert "nan" not in re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.DOTALL).lower()
    assert "No examples were requested." in text


def test_runs_of_different_tasks_are_refused(small_catalog, letters_run, pairs_run):
    with pytest.raises(InputError, match="different tasks"):
        report(small_catalog, letters_run, pairs_run)


def test_runs_with_different_classes_are_refused(small_catalog, letters_run, variant_run, tmp_path):
    shutil.copytree(variant_run, tmp_path / "b")
    saved = json.loads((tmp_path / "b" / "vocabulary.json").read_text())
    saved["classes"] = ["nay", "yea"]
    (tmp_path / "b" / "vocabulary.json").write_text(json.dumps(saved))
    weights = tmp_path / "b" / "weights.safetensors"
    checkpoint.save(weights, {"model": checkpoint.load(weights)["model"]})  # they belong to any vocabulary
    with pytest.raises(
        InputError,
        match=r"the classes of .*run are no, yes, those of .*b nay, yea: they were trained on different data",
    ):
        report(small_catalog, letters_run, tmp_path / "b")


def test_a_text_that_is_too_long_is_refused_with_the_limit(small_catalog, letters_run):
    with pytest.raises(InputError, match="text 2 has 121 tokens; a report shows texts of up to 120"):
        report(small_catalog, letters_run, texts=["a", "a " * 121])


def test_without_a_model_no_text_can_be_predicted(small_catalog, letters_run, tmp_path):
    path = without(letters_run, tmp_path, "weights.safetensors")
    with pytest.raises(CrvnnError, match="no model to predict a text"):
        report(small_catalog, path, texts=["a"])
