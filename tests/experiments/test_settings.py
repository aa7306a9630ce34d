"""The table [sweep] of a spec, and what is said about mistakes in it."""

import pytest

from crvnn_core import SpecError
from crvnn_core.spec import read_spec
from crvnn_experiments.space import Choice, Range
from sweeps import BASE, sweep_of, write


def problems_of(catalog, path, *sets):
    with pytest.raises(SpecError) as caught:
        sweep_of(catalog, path, *sets)
    return [str(problem) for problem in caught.value.problems]


def test_lists_ranges_and_components_with_settings_of_their_own_are_read(small_catalog, tmp_path):
    text = """
[sweep]
trials = 20
pruner = "median"

[sweep.space]
"model.decision" = ["sigmoid", {name = "stretched", stretch = {low = 0.05, high = 0.3}}]
"training.optimizer.learning_rate" = {low = 1e-4, high = 1e-2, log = true}
model.width = {low = 8, high = 16, step = 4}
"""
    sweep = sweep_of(small_catalog, write(tmp_path, text))
    assert (sweep.sampler, sweep.trials, sweep.pruner) == ("tpe", 20, "median")
    assert (sweep.metric, sweep.seeds) == ("accuracy", 1)
    decision, rate, width = sweep.dimensions
    assert isinstance(decision, Choice)
    assert decision.values() == ["sigmoid", "stretched"]
    (stretch,) = decision.options[1].inner
    assert stretch.name == "model.decision.stretched.stretch"
    assert stretch.path == ("model", "decision", "stretch")
    assert isinstance(rate, Range)
    assert (rate.log, rate.integer) == (True, False)
    assert (width.name, width.values(), width.integer) == ("model.width", [8, 12, 16], True)


def test_a_space_of_lists_is_a_grid_of_all_combinations(small_catalog, tmp_path):
    sweep = sweep_of(small_catalog, write(tmp_path))
    assert (sweep.sampler, sweep.trials) == ("grid", 4)


def test_all_stands_for_every_component_that_is_installed_now(small_catalog, tmp_path):
    sweep = sweep_of(small_catalog, write(tmp_path, '[sweep.space]\n"model.retriever" = "all"\n'))
    assert sweep.plain()["space"] == {"model.retriever": list(small_catalog.components["retriever"])}


def test_one_component_may_be_listed_with_several_settings(small_catalog, tmp_path):
    text = (
        '[sweep.space]\n"model.retriever" = ["adhoc", {name = "windowed", k = 2}, {name = "windowed", k = 3}]'
    )
    sweep = sweep_of(small_catalog, write(tmp_path, text))
    assert sweep.dimensions[0].values() == ["adhoc", "windowed (k=2)", "windowed (k=3)"]


def test_parts_are_searched_only_for_encoders_that_take_them(small_catalog, tmp_path):
    text = '\n[sweep.space]\n"model.cell" = ["gated", "gru"]\n"model.encoder" = ["lstm", "crvnn"]\n'
    for base in (BASE, BASE.replace("width = 8", 'width = 8\nencoder = "crvnn"')):
        sweep = sweep_of(small_catalog, write(tmp_path, text, base))
        assert sweep.trials == 3


def test_a_file_that_extends_another_adds_to_its_space(small_catalog, tmp_path):
    write(tmp_path)
    more = tmp_path / "more.toml"
    more.write_text(
        'extends = "letters.toml"\n[sweep]\nseeds = 2\n[sweep.space]\n"model.cell" = ["gru", "rnn"]\n'
    )
    sweep = sweep_of(small_catalog, more)
    assert sweep.seeds == 2
    assert sweep.space == {"model.cell": ["gru", "rnn"], "model.decision": ["sigmoid", "modulated"]}


def test_options_change_the_table(small_catalog, tmp_path):
    sweep = sweep_of(
        small_catalog, write(tmp_path), "sweep.sampler=random", "sweep.trials=3", "sweep.metric=loss"
    )
    assert (sweep.sampler, sweep.trials, sweep.metric, sweep.maximised) == ("random", 3, "loss", False)


def test_a_spec_with_a_search_space_is_trained_without_it_and_without_options_about_it(
    small_catalog, tmp_path
):
    assert read_spec(small_catalog, write(tmp_path)).model.cell.name == "gated"
    with pytest.raises(SpecError, match="a spec has no 'sweep'"):
        read_spec(small_catalog, write(tmp_path), sets=["sweep.trials=3"])


MISTAKES = {
    '"model.cel" = ["gated"]': ["letters.toml:19 [model.cel]: [model] has no 'cel'. Did you mean 'cell'?"],
    '"model.cell" = ["gated", "lstn"]': [
        "letters.toml:19 [model.cell]: no cell is called 'lstn'. Did you mean 'lstm'?"
    ],
    '"model.width" = [8, "wide"]': ["letters.toml:19 [model.width]: must be an integer, not 'wide'"],
    '"model.width" = {low = -4, high = 8}': ["letters.toml:19 [model.width]: must be at least 1, not -4"],
    '"model.width" = {low = 8, hihg = 16}': ["a range has no 'hihg'. Did you mean 'high'?"],
    '"model.width" = {low = 8}': ["needs 'high', a number"],
    '"model.width" = {low = 8, high = "9"}': ["high must be a number, not '9'"],
    '"model.width" = {low = 8, high = 4}': ["low must be less than high, not 8 and 4"],
    '"model.width" = {low = 0, high = 4, log = true}': ["low must be above 0 on a logarithmic scale, not 0"],
    '"model.width" = 8': ["must be a list of values, or a table with low and high, not 8"],
    '"model.width" = "all"': ['only components can be "all"; list the values'],
    '"model.width" = []': ["needs a list of one value or more, not []"],
    '"model.width" = [8, 8]': ["lists 8 twice"],
    '"model.cell" = [{hidden = 3}]': ["a table among the choices must name a component"],
    '"model.cell" = [{name = "gated", hiden = 3}]': [
        "cell 'gated' has no parameter 'hiden'. Did you mean 'hidden'?"
    ],
    '"model.cell" = ["gated"]\n"model.cell.hidden" = [3]': [
        "model.cell is searched too, and not every choice has"
    ],
    '"training.clip" = {low = 0.1, high = 2.0}': ["a grid needs a finite number of values"],
}


@pytest.mark.parametrize(("line", "expected"), MISTAKES.items(), ids=list(MISTAKES))
def test_a_mistake_is_reported_with_its_line_and_the_nearest_fix(small_catalog, tmp_path, line, expected):
    found = problems_of(small_catalog, write(tmp_path, f"\n[sweep.space]\n{line}\n"))
    assert len(found) == len(expected)
    for problem, part in zip(found, expected, strict=True):
        assert "letters.toml:" in problem
        assert part in problem


def test_all_mistakes_are_reported_at_once(small_catalog, tmp_path):
    text = '\n[sweep]\nsampler = "gird"\ntrails = 3\nseeds = 0\n[sweep.space]\n"model.width" = 3\n"model.cell" = []\n'
    found = "\n".join(problems_of(small_catalog, write(tmp_path, text)))
    parts = (
        "Did you mean 'grid'?",
        "Did you mean 'trials'?",
        "[sweep.seeds]: must be at least 1",
        "not 3",
        "not []",
    )
    assert all(part in found for part in parts)


def test_a_spec_without_a_space_says_how_to_write_one(small_catalog, tmp_path):
    (problem,) = problems_of(small_catalog, write(tmp_path, ""))
    assert "there is nothing to search: the spec has no table [sweep.space]" in problem
    assert '"model.cell" = ["gated", "lstm"]' in problem


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["sweep.sampler=tpe"], "the sampler 'tpe' needs a number of trials"),
        (["sweep.sampler=grid", "sweep.trials=3"], "the grid has 4 combinations"),
    ],
)
def test_a_number_of_trials_that_does_not_suit_the_sampler_is_refused(small_catalog, tmp_path, sets, message):
    (problem,) = problems_of(small_catalog, write(tmp_path), *sets)
    assert message in problem
