"""Stages of a spec: what each overrides, how one is changed, how they are written, and what is wrong with them."""

import re

import pytest

from crvnn_core import CrvnnWarning, Preset, SpecError
from crvnn_core.runs.directory import flatten
from crvnn_core.spec import read_spec, spec_dict, stage_changes, stage_summary, write_spec
from crvnn_core.spec.assembly import assemble
from small import Letters, catalog_with
from spec_problems import problems_of, the_problem_of
from stub_plugins import plugin, with_components

BASE = """
seed = 3
[task]
name = "listops"
max_tokens = 50
held_out = 20
[model]
width = 8
decision = {name = "tempered", start = 2.0}
[training]
steps = 100
epochs = 0
optimizer = {name = "adamw", weight_decay = 0.5}
"""
TWO = """
[[stages]]
name = "short"
task.max_tokens = 12

[[stages]]
model = {decision = "stretched"}
[stages.training]
anneal = true
optimizer.learning_rate = 5e-4
"""


@pytest.fixture
def two(spec_file):
    """A spec with two stages."""
    return spec_file(BASE + TWO)


def test_each_stage_is_the_whole_spec_with_its_own_settings_laid_over_it(catalog, two):
    spec = read_spec(catalog, two)
    short, long = spec.stage_specs
    assert [stage.name for stage in spec.stages] == ["short", ""]
    assert (short.task.params["max_tokens"], long.task.params["max_tokens"]) == (12, 50)
    assert short.task.params["held_out"] == 20
    assert (short.model.decision.name, short.model.decision.params["start"]) == ("tempered", 2.0)
    assert (long.model.decision.name, "start" in long.model.decision.params) == ("stretched", False)
    assert (short.training.anneal, long.training.anneal) == (False, True)
    assert long.training.optimizer.params == {"learning_rate": 5e-4, "weight_decay": 0.5}
    assert {(stage.seed, stage.model.width, stage.training.steps) for stage in (short, long)} == {(3, 8, 100)}


def test_a_spec_without_stages_is_its_own_only_stage(catalog, spec_file):
    spec = read_spec(catalog, spec_file(BASE))
    assert spec.stage_specs == (spec,)
    assert "stages" not in spec_dict(spec)


def test_a_written_spec_has_its_stages_and_reads_the_same(catalog, two, tmp_path):
    spec = read_spec(catalog, two, sets=["stages.2.task.max_tokens=50"])
    write_spec(spec, tmp_path / "written.toml")
    again = read_spec(catalog, tmp_path / "written.toml")
    assert again == spec
    assert stage_changes(again) == stage_changes(spec)
    assert stage_changes(spec)[0] == {"name": "short", "task": {"max_tokens": 12}}
    assert stage_changes(spec)[1]["task"] == {
        "max_tokens": 50
    }  # the same as in the base, but set by the stage
    assert stage_changes(spec)[1]["model"]["decision"]["name"] == "stretched"


def test_a_summary_has_what_a_stage_sets(catalog, two):
    spec = read_spec(catalog, two, sets=["stages.2.model.decision=sigmoid"])
    assert stage_summary(spec, 0) == "task.max_tokens=12"
    assert (
        stage_summary(spec, 1)
        == "model.decision=sigmoid, training.anneal=true, training.optimizer.learning_rate=0.0005"
    )
    empty = read_spec(catalog, two, sets=["stages=[{}]"])
    assert stage_summary(empty, 0) == "the spec as it is"


def test_the_command_line_changes_a_stage_by_its_number(catalog, two):
    sets = [
        "stages.1.model.decision.start=3.0",
        "stages.1.model.decision=straight-through",
        "stages.2.name=long",
    ]
    with pytest.raises(SpecError, match="has no parameter 'start'"):  # naming comes first, whatever the order
        read_spec(catalog, two, sets=sets)
    spec = read_spec(catalog, two, sets=[sets[0], sets[2]])
    assert spec.stages[0].model.decision.params["start"] == 3.0
    assert [stage.name for stage in spec.stages] == ["short", "long"]


def test_a_file_may_change_the_stages_of_the_one_it_extends_or_have_its_own(catalog, two, spec_file):
    changed = spec_file('extends = "my.toml"\n[stages.2.task]\nmax_tokens = 99\n', "changed.toml")
    spec = read_spec(catalog, changed)
    assert [stage.task.params["max_tokens"] for stage in spec.stages] == [12, 99]
    assert spec.stages[1].model.decision.name == "stretched"
    own = spec_file('extends = "my.toml"\n[[stages]]\ntask.max_tokens = 7\n', "own.toml")
    assert [stage.task.params["max_tokens"] for stage in read_spec(catalog, own).stages] == [7]


@pytest.mark.parametrize(
    ("option", "key", "value", "said"),
    [
        ({"sets": ["task.max_tokens=9"]}, "task.max_tokens", 9, "task.max_tokens=9"),
        ({"sets": ["training.anneal=false"]}, "training.anneal", False, "training.anneal=false"),
        ({"sets": ["training={anneal=false}"]}, "training.anneal", False, "training={anneal=false}"),
        ({"parts": {"decision": "sigmoid"}}, "model.decision", "sigmoid", "--decision sigmoid"),
    ],
)
def test_an_option_holds_for_every_stage_and_it_is_said(catalog, two, tmp_path, option, key, value, said):
    with pytest.warns(CrvnnWarning, match=f"^{re.escape(said)} holds for all 2 stages$"):
        spec = read_spec(catalog, two, **option)
    assert [flatten(spec_dict(stage))[key] for stage in (spec, *spec.stage_specs)] == [value] * 3
    write_spec(spec, tmp_path / "written.toml")
    assert read_spec(catalog, tmp_path / "written.toml") == spec


def test_nothing_is_said_of_an_option_that_no_stage_sets(catalog, two):
    spec = read_spec(
        catalog, two, sets=["task.held_out=5", "training.threads=1", "seed=4"]
    )  # warnings are errors
    assert [stage.task.params["held_out"] for stage in spec.stages] == [5, 5]


def test_changes_from_python_hold_for_every_stage(catalog, two):
    spec = read_spec(catalog, two, changes={"task.max_tokens": 9})
    assert [stage.task.params["max_tokens"] for stage in spec.stages] == [9, 9]


def test_a_setting_that_the_component_of_a_stage_has_not_is_an_error_that_names_the_stage(catalog, two):
    with pytest.warns(CrvnnWarning, match=r"start=1.5 holds for all"):
        problem = the_problem_of(catalog, two, sets=["model.decision.start=1.5"])
    assert problem.startswith("--set model.decision.start=1.5: decision 'stretched' has no parameter 'start'")
    assert "in stage 2; --set stages.2.KEY=VALUE sets a value of one stage" in problem


def test_an_option_for_one_stage_is_on_top_of_one_for_all(catalog, two):
    sets = ["stages.1.task.max_tokens=5", "task.max_tokens=9", "task.max_tokens=8"]
    spec = read_spec(catalog, two, sets=sets)
    assert [stage.task.params["max_tokens"] for stage in spec.stages] == [5, 8]
    with pytest.warns(CrvnnWarning, match="^training.anneal=false holds for 1 of the 2 stages$"):
        read_spec(catalog, two, sets=["stages.1.training.anneal=true", "training.anneal=false"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stages = []\n", "1 [stages]: the list is empty; leave it out to train in one stage"),
        ("stages = 3\n", "1 [stages]: must be a list of tables, not 3"),
        ("[stages]\nname = 'one'\n", "1 [stages]: must be a list of tables"),
        ("stages = [3]\n", "1 [stages.1]: a stage must be a table, not 3"),
        ("[[stages]]\nname = 4\n", "2 [stages.1.name]: must be a string, not 4"),
        ("[[stages]]\nmodle = {}\n", "2 [stages.1.modle]: a stage has no 'modle'. Did you mean 'model'?"),
        ("[[stages]]\nseed = 4\n", "2 [stages.1.seed]: a stage has no 'seed'. All stages share the seed."),
        ("[[stages]]\npreset = 'paper'\n", "2 [stages.1.preset]: a stage has no 'preset'."),
        ("[[stages]]\n[[stages]]\nmodel.width = 4\n", "3 [stages.2.model.width]: all stages share this"),
        (
            "[[stages]]\n[stages.training]\nclip = 1.0\ndevices = 2\n",
            "4 [stages.1.training.devices]: all stages share this setting; set training.devices for the whole",
        ),
        ("[[stages]]\ntask.max_token = 4\n", "2 [stages.1.task.max_token]: task 'listops' has no parameter"),
        (
            "[[stages]]\n\n[[stages]]\ntraining = {stps = 4}\n",
            "4 [stages.2.training.stps]: [training] has no 'stps'. Did you mean 'steps'?",
        ),
        (
            "[[stages]]\ntraining = {epochs = 0}\n",
            "2 [stages.1.training]: epochs and steps cannot both be without a limit",
        ),
    ],
)
def test_a_mistake_in_the_stages_is_one_problem_with_its_place(catalog, spec_file, text, expected):
    assert f"my.toml:{expected}" in the_problem_of(catalog, spec_file(text))


def test_a_problem_of_the_spec_is_not_repeated_for_each_stage(catalog, spec_file):
    path = spec_file("[model]\nwidth = 0\n[[stages]]\ntask.max_token = 3\n[[stages]]\n")
    width, tokens = problems_of(catalog, path)
    assert "[model.width]: must be at least 1" in width
    assert "[stages.1.task.max_token]" in tokens


def test_a_number_without_a_stage_is_an_error_that_says_how_many_there_are(catalog, two, spec_file):
    problem = the_problem_of(catalog, two, sets=["stages.3.task.max_tokens=5"])
    assert "there is no stage 3\n  The spec has 2, numbered from 1." in problem
    problem = the_problem_of(catalog, spec_file(BASE), sets=["stages.1.task.max_tokens=5"])
    assert "there is no stage 1\n  The spec has no stages." in problem


def test_a_preset_has_no_stages():
    problem, *_ = problems_of(
        with_components(plugin(crvnn_presets=[Preset("staged", {"stages": [{}]})])), preset="staged"
    )
    assert "preset 'staged' [model.stages]: [model] has no 'stages'." in problem


# Stages put together.


def assembled(catalog, path, *sets):
    return assemble(read_spec(catalog, path, sets=sets), catalog)


def test_all_stages_are_built_and_the_model_is_that_of_the_last(catalog, two):
    assembly = assembled(catalog, two)
    first, last = assembly.stages
    assert assembly.model is last.model
    assert assembly.task is last.task
    assert (first.task.recipes["train"].max_tokens, last.task.recipes["train"].max_tokens) == (12, 50)
    assert type(first.model.encoder.decision) is not type(last.model.encoder.decision)
    assert len(assembly.observers) == len(first.observers) == 1
    assert last.observers == []


def test_stages_with_the_same_task_share_it(catalog, two):
    first, last = assembled(catalog, two, "stages=[{}, {training={anneal=true}}]").stages
    assert first.task is last.task


@pytest.mark.parametrize(
    ("change", "what"),
    [("model.cell.hidden=5", "is [5, 16] here and [32, 16] in stage 1"), ("model.cell=lstm", " here and [")],
)
def test_weights_of_another_shape_name_the_stage_and_the_setting(catalog, two, change, what):
    with pytest.raises(SpecError) as caught:
        assembled(catalog, two, f"stages.2.{change}")
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"{two}:19 [stages.2]: weights carry over between stages, but encoder.cell.")
    assert what in problem
    key = change.partition("=")[0]
    assert problem.endswith(
        f"Settings that are not those of stage 1: task.max_tokens, model.decision, {key}."
    )


class Numbers(Letters):
    """Letters with other classes."""

    classes = ("0", "1")


@pytest.mark.parametrize(
    ("task", "what"),
    [
        ("listops", "the vocabulary is another than in stage 1"),
        ("mine", "the classes are ['0', '1'], in stage 1 ['no', 'yes']"),
    ],
)
def test_other_tokens_or_classes_name_the_stage(spec_file, task, what):
    path = spec_file(f'[task]\nname="letters"\n[[stages]]\n[[stages]]\ntask = "{task}"\n')
    with pytest.raises(SpecError) as caught:
        assembled(catalog_with(task=Numbers), path)
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"{path}:4 [stages.2]: weights carry over between stages, but {what}")
    assert problem.endswith("Settings that are not those of stage 1: task.")


def test_a_value_that_a_component_of_a_stage_refuses_is_reported_at_the_stage(catalog, two):
    with pytest.raises(SpecError, match=r"--set stages.2.model.decision.stretch=-1.0: "):
        assembled(catalog, two, "stages.2.model.decision.stretch=-1.0")
