"""The trained model that comes with the package."""

import json
import re
import tomllib
from itertools import islice
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner

import crvnn_tasks
from crvnn_core.cli import main
from crvnn_core.inference.trained import load
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.trees.extraction import trees_of
from crvnn_tasks.listops.task import ListOps
from crvnn_tasks.logic.language import groups
from crvnn_tasks.logic.task import Logic

HOME = Path(crvnn_tasks.__file__).parent / "models" / "listops"


@pytest.mark.parametrize("name", ["listops", "listops-guided", "listops-self-training", "logic"])
def test_its_card_points_to_nothing_that_a_wheel_lacks(name):
    shown = CliRunner().invoke(main, ["list", "model", name]).stdout
    assert shown.startswith(f"model {name}: ")
    assert "docs/" not in shown
    commands = [line.split("`")[1].split() for line in shown.splitlines() if "| `crvnn " in line]
    assert commands
    context = click.Context(main)
    assert all(main.get_command(context, command[1]) is not None for command in commands)


@pytest.mark.parametrize(
    ("name", "seed", "story"),
    [("listops", 4, ""), ("listops-guided", None, "It was supervised on gold trees at first")],
)
def test_it_comes_with_its_spec_its_seed_and_its_story(name, seed, story):
    run = RunDirectory(HOME.parent / name)
    run.check_spec()
    assert seed in (None, run.read_json(run.results)["seed"])
    assert story in (run.path / "MODEL.md").read_text()
    assert not run.last.exists()  # only training needs checkpoints
    assert sum(path.stat().st_size for path in HOME.rglob("*")) < 3_000_000


@pytest.fixture(scope="module")
def shipped():
    return load("listops")


@pytest.mark.parametrize(
    ("text", "answer"),
    [("[MAX 2 9 [MIN 4 7 ] 0 ]", "9"), ("[MIN 8 3 7 ]", "3"), ("[SM 7 5 ]", "2"), ("[MED 1 5 9 ]", "5")],
)
def test_it_answers_simple_questions(text, answer, shipped):
    assert shipped.predict([text])[0].label == answer


def test_the_command_line_knows_it_by_name_and_refuses_a_mistake_with_the_nearest_operator():
    result = CliRunner().invoke(main, ["predict", "listops", "[MAX 2 9 [MIN 4 7 ] 0 ]", "--json"])
    (answer,) = json.loads(result.stdout)
    assert answer["label"] == "9"
    assert answer["trees"][0].count("(") == 8  # nine tokens
    result = CliRunner().invoke(main, ["predict", "listops", "[MIX 2 9 ]"])
    assert result.exit_code == 2
    assert re.search(r"'\[MIX'.*Did you mean '\[M", result.stderr, re.DOTALL)


def test_it_is_right_on_expressions_that_it_never_saw_and_sure_of_their_trees(shipped):
    examples = list(islice(ListOps(held_out=400).examples("dev", 5), 400))
    soft, hard = (shipped.evaluate(examples, hard=hard).total for hard in (False, True))
    assert soft.examples == 400
    assert soft.accuracy > 0.99
    assert hard.accuracy == pytest.approx(soft.accuracy, abs=0.005)


def test_it_is_right_on_expressions_longer_than_any_it_was_trained_on(shipped):
    task = ListOps(held_out=60, test_min_tokens=200, test_max_tokens=300)
    assert shipped.evaluate(list(task.examples("test", 5))).total.accuracy > 0.9


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ("( a ( or b ) )", "( b ( or a ) )", "="),
        ("( a ( and b ) )", "a", "<"),
        ("a", "( not a )", "^"),
        ("a", "( b ( or c ) )", "#"),
    ],
)
def test_the_logic_model_knows_simple_relations(first, second, relation):
    result = CliRunner().invoke(main, ["predict", "logic", first, second, "--json"])
    assert json.loads(result.stdout)[0]["label"] == relation


def test_the_logic_card_has_the_figures_of_the_published_test_files():
    home = HOME.parent / "logic"
    found = json.loads((home / "results.json").read_text())["splits"]["test"]["buckets"]
    assert [found[str(n)]["examples"] for n in range(7, 13)] == [4707, 3347, 2230, 1444, 864, 853]
    figures = [f"{100 * found[str(n)]['accuracy']:.1f}" for n in range(7, 13)]
    card = " ".join((home / "MODEL.md").read_text().split())
    assert f"{', '.join(figures[:-1])} and {figures[-1]}% of the published test files" in card


def test_the_logic_model_is_right_on_generated_pairs():
    examples = list(islice(Logic(held_out=300).examples("dev", 5), 300))
    assert load("logic").evaluate(examples).total.accuracy > 0.97  # 99.5% of the published development pairs


def test_the_logic_model_is_right_on_longer_pairs_than_any_it_was_trained_on():
    examples = list(Logic(held_out=240).examples("test", 5))  # 40 each of 7 to 12 operations
    soft, hard = (load("logic").evaluate(examples, hard=hard).total for hard in (False, True))
    assert soft.accuracy > 0.88
    assert hard.accuracy == pytest.approx(soft.accuracy, abs=0.02)


def test_the_logic_model_composes_sentences_within_sentences():
    examples = list(Logic(held_out=60).examples("test", 5))
    sentences = [sequence for example in examples for sequence in example.sequences if len(sequence) > 2]
    encoding = load("logic").model.predict(sentences, sentences, trace=True, hard=True).encodings[0]
    inner, found = 0, 0
    for tokens, tree in zip(sentences, trees_of(encoding, sentences), strict=True):
        spans = {(start, end) for start, end in groups(tokens) if tokens[start + 1] not in ("and", "or")}
        spans.discard((0, len(tokens)))  # every tree has it
        inner += len(spans)
        found += len(spans & tree.spans())
    assert inner > 200
    assert found / inner > 0.97


@pytest.fixture(scope="module")
def guided():
    return load("listops-guided")


def test_the_guided_model_is_sure_so_that_hard_decisions_are_its_own(guided):
    examples = list(islice(ListOps(held_out=300).examples("dev", 5), 300))
    soft, hard = (guided.evaluate(examples, hard=hard) for hard in (False, True))
    assert soft.total.accuracy > 0.98  # all of 2,000 when it was made
    assert abs(soft.total.accuracy - hard.total.accuracy) < 0.005
    assert soft.total.depth == pytest.approx(hard.total.depth, abs=0.1)


def test_leaving_out_what_is_nothing_does_not_change_the_guided_model(guided):
    tokens = [
        example.sequences[0] for example in ListOps(held_out=60, test_max_tokens=100).examples("test", 5)
    ]
    encoder = guided.model.encoder
    assert encoder.shortcuts
    quick = guided.model.predict(tokens, trace=True).encodings[0]
    try:
        encoder.shortcuts = False
        plain = guided.model.predict(tokens, trace=True).encodings[0]
    finally:
        encoder.shortcuts = True
    assert (quick.vector - plain.vector).abs().max() < 1e-4
    assert torch.equal(quick.steps, plain.steps)
    alive = quick.trace.exists[:-1] > 0
    assert ((quick.trace.compose == 0) | (quick.trace.compose == 1))[alive].float().mean() > 0.999


def test_it_learnt_from_labels_by_backpropagation_in_every_stage():
    spec = tomllib.loads((HOME / "spec.toml").read_text())
    assert spec["training"]["objective"] == {"name": "labels"}
    assert {stage["training"].get("objective") for stage in spec["stages"]} == {None}
