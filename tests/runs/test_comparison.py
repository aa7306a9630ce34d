"""``crvnn compare``: which runs are one variant, which settings differ, and what cannot be compared."""

import itertools
import json
import math
import random
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calling import run
from crvnn_core import CrvnnError, InputError
from crvnn_core.host.runs import read_runs
from crvnn_core.runs.comparison import (
    Spread,
    compare,
    holm,
    percent,
    permutation_test,
    welch_interval,
    welch_test,
)
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.runs.records import Record, differences, flatten, shortened, variants, with_stages_in_brief
from small import PLUGIN


@pytest.fixture
def made(tmp_path, monkeypatch, letters_run):
    """Makes a run of another seed, with other settings and other results, out of a real one."""
    monkeypatch.chdir(tmp_path)

    def make(name, seed=0, accuracy=0.5, changes=(), examples=20, splits=("dev", "test")):
        shutil.copytree(letters_run, name, ignore=shutil.ignore_patterns("checkpoints"))
        directory = RunDirectory(tmp_path / name)
        text = directory.spec.read_text().replace("seed = 0\n", f"seed = {seed}\n", 1)
        text = re.sub(r"# end \w+\n", "# end\n", text)  # it is changed on purpose
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        directory.spec.write_text(text)
        score = {"examples": examples, "accuracy": accuracy, "loss": 1 - accuracy, "depth": 2.0}
        result = {"total": score, "buckets": {"10": score, "2": score}}
        directory.write_json(
            directory.results, {"seed": seed, "step": 7, "splits": dict.fromkeys(splits, result)}
        )
        return name

    return make


@pytest.fixture
def two_variants(made):
    """Five seeds each of two variants, one in a group of seeds."""
    wide = (("width = 8", "width = 16"),)
    for seed in range(5):
        made(f"wide/seed-{seed}", seed, 0.8 + seed / 100, wide)
    shutil.copy("wide/seed-0/spec.toml", "wide/seeds.toml")
    return [made(f"narrow-{seed}", seed, 0.6 + seed / 100) for seed in range(5)], "wide"


def test_settings_of_stages_are_compared_one_by_one(made, small_catalog):
    stages = (
        "[[stages]]\nname = 'short'\ntask.longest = 2\n[[stages]]\n[stages.training]\nsteps = {}\n# end\n"
    )
    one, two, three = (
        made(name, changes=[("# end\n", stages.format(steps))])
        for name, steps in (("one", "5"), ("two", "7"), ("three", "5\nsave_every = 3"))
    )
    found, _ = variants(read_runs([one, two], small_catalog))
    settings = [variant.runs[0].configuration for variant in found]
    assert settings[0]["stages.1"] == "short"
    assert settings[0]["stages.1.task.longest"] == 2
    assert differences(settings) == {"stages.2.training.steps": (5, 7)}
    (both,), _ = variants(read_runs([one, three], small_catalog))  # checkpoints do not affect the result
    assert both.seeds == 1


# Grouping.


def test_runs_that_differ_only_in_their_seed_are_one_variant(two_variants, small_catalog):
    narrow, wide = two_variants
    found, remarks = variants(read_runs([*narrow, wide], small_catalog))
    assert [(variant.name, variant.seeds) for variant in found] == [("narrow-0 and 4 more", 5), ("wide", 5)]
    assert remarks == []
    assert found[1].values("test") == pytest.approx([0.8, 0.81, 0.82, 0.83, 0.84])


def test_a_version_makes_another_variant_and_how_often_is_saved_does_not(made, small_catalog):
    made("a", 0)
    made("b", 1, changes=[("save_every = 500", "save_every = 7")])
    found, _ = variants(read_runs(["a", "b"], small_catalog))
    assert [variant.seeds for variant in found] == [2]
    path = Path("b/environment.json")
    environment = json.loads(path.read_text())
    environment["packages"]["torch"] = "1.0"
    path.write_text(json.dumps(environment))
    assert list(compare(read_runs(["a", "b"], small_catalog)).differences) == ["versions.torch"]


def test_a_copy_of_a_run_says_nothing_new_and_this_is_said(made, small_catalog):
    made("a", 3)
    made("b", 3)
    found, remarks = variants(read_runs(["a", "b"], small_catalog))
    assert found[0].seeds == 1
    assert remarks == ["b has the same spec and seed as a; it is counted once."]


def test_an_installed_model_is_compared_by_its_name(small_catalog):
    found = compare(read_runs(["listops-self-training", "listops-guided"], small_catalog))
    assert [variant.name for variant in found.variants] == ["listops-self-training", "listops-guided"]
    assert found.differences["model.decision.stretch"] == (1.0, 0.1)


# Settings that differ.


def test_stages_that_only_some_have_are_one_line_each():
    some = {"stages.1": "short", "stages.1.task.longest": 2, "stages.1.training.steps": 1500}
    some |= {"stages.2.training.warmup": 5}
    other = {**some, "model.width": 8, "stages.1.training.steps": 7}
    found = with_stages_in_brief(differences([some, {"model.width": 8}, other]))
    assert found == {
        "model.width": (None, 8, 8),
        "stages.1": ("short, 1,500 steps", None, "short, 7 steps"),
        "stages.1.training.steps": (1500, None, 7),
        "stages.2": ("a stage", None, "a stage"),
    }
    both = differences([{"stages.1.training.steps": 1}, {"stages.1.training.steps": 2}])
    assert with_stages_in_brief(both) == both


def test_the_stages_of_one_run_do_not_fill_the_screen():
    shown = run("compare", "listops-self-training", "listops-guided").stdout.splitlines()
    assert [line.split()[:5] for line in shown if line.startswith("stages.5")] == [
        ["stages.5", "12", "tokens,", "1,500", "steps"]
    ]
    assert sum(line.startswith("stages.") for line in shown) == 10
    assert "Stages that only some have are summarised; --json has all their settings." in shown


def test_a_components_name_stands_in_its_place():
    spec = {"seed": 1, "model": {"width": 8, "cell": {"name": "gated", "hidden": 0}}}
    assert flatten(spec) == {"seed": 1, "model.width": 8, "model.cell": "gated", "model.cell.hidden": 0}


def test_differences_keep_the_settings_of_a_part_together():
    one = {"model.cell": "a", "model.width": 1, "training.steps": 1}
    two = {"model.cell": "b", "model.width": 1, "training.steps": 2, "model.cell.hidden": 0}
    assert list(differences([one, two]).items()) == [
        ("model.cell", ("a", "b")),
        ("model.cell.hidden", (None, 0)),
        ("training.steps", (1, 2)),
    ]


def test_names_lose_the_directories_that_they_share():
    assert shortened(["runs/a/x", "runs/a/y"]) == ["x", "y"]
    assert shortened(["runs/a", "runs/a"]) == ["a", "a"]
    assert shortened(["x", "runs/x"]) == ["x", "runs/x"]
    assert shortened(["runs/only/"]) == ["only"]
    assert shortened([]) == []


# Tests.


def test_two_variants_are_tested_against_each_other(two_variants, small_catalog):
    narrow, wide = two_variants
    found = compare(read_runs([*narrow, wide], small_catalog))
    (row,) = (row for row in found.rows if (row.split, row.group, row.metric) == ("test", "", "accuracy"))
    first, test = row.tests
    assert first is None
    assert test.difference == pytest.approx(0.2)
    assert test.p == test.p_adjusted == test.p_min == 2 / 252
    low, high = test.interval
    assert 0.17 < low < 0.2 < high < 0.23
    assert [spread.std for spread in row.spreads] == pytest.approx([0.0158114] * 2, rel=1e-4)


def test_one_seed_a_side_is_refused_with_advice(made, small_catalog):
    made("a")
    made("b", changes=[("width = 8", "width = 16")])
    found = compare(read_runs(["a", "b"], small_catalog))
    assert {test.reason for row in found.rows for test in row.tests if test} == {
        "1 against 1 seeds: a test needs two per variant"
    }
    assert "Only one seed: a, b." in found.remarks[0]
    assert "--seeds 5" in found.remarks[0]


def test_several_variants_are_corrected_for_their_number(two_variants, made, small_catalog):
    narrow, wide = two_variants
    third = [made(f"third-{seed}", seed, 0.7 + seed / 100, [("width = 8", "width = 9")]) for seed in range(5)]
    found = compare(read_runs([*narrow, wide, *third], small_catalog))
    row = found.rows[0]
    assert [test and test.p_adjusted for test in row.tests] == [None, 4 / 252, 4 / 252]


def test_groups_come_in_the_order_of_their_numbers(made, small_catalog):
    made("a")
    found = compare(read_runs(["a"], small_catalog))
    assert [row.group for row in found.rows if row.split == "dev" and row.metric == "loss"] == [
        "",
        "2",
        "10",
    ]


def test_other_settings_of_the_task_numbers_of_examples_and_splits_are_remarked_on(made, small_catalog):
    made("a")
    made("b", changes=[("longest = 4", "longest = 5")], examples=10, splits=("dev",))
    found = compare(read_runs(["a", "b"], small_catalog))
    assert "Settings of the task differ (task.longest)" in found.remarks[0]
    same = "The split 'dev' does not have the same number of examples everywhere: a 20, b 10."
    assert same in found.remarks
    rows = [row for row in found.rows if row.split == "test"]
    assert rows
    assert all(row.spreads[1] is None and row.tests[1] is None for row in rows)


# What cannot be compared.


def test_runs_of_different_tasks_are_refused(made, pairs_run, small_catalog):
    made("a")
    with pytest.raises(
        InputError, match=r"runs of different tasks cannot be compared(.|\n)*'letters': a; 'pairs': "
    ):
        compare(read_runs(["a", pairs_run], small_catalog))


def test_a_run_without_results_is_left_out_and_named(made, small_catalog):
    made("a")
    made("b", 1)
    Path("b/results.json").unlink()
    found = compare(read_runs(["a", "b"], small_catalog))
    assert (
        "b has no results: interrupted or still training ('crvnn train --resume b' resumes it)"
        in found.remarks[0]
    )
    with pytest.raises(CrvnnError, match="b has no results"):
        compare(read_runs(["b"], small_catalog))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "no JSON object"),
        ("{", "damaged"),
        ('{"splits": {"dev": {"total": 3, "buckets": {}}}}', "lacks the scores"),
    ],
)
def test_damaged_results_are_named(made, content, said):
    made("a")
    Path("a/results.json").write_text(content)
    result = run("compare", "a", "--plugin", PLUGIN, code=2)
    assert "results.json is damaged" in result.stderr
    assert said in result.stderr


def test_what_is_no_run_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert "there is no such run directory" in run("compare", "nothing", code=2).stderr
    assert "is not a run of 'crvnn train'" in run("compare", "empty", code=2).stderr
    (tmp_path / "empty" / "seeds.toml").write_text("")
    assert "none of its seeds has started" in run("compare", "empty", code=2).stderr


def test_a_figure_that_is_no_number_is_left_out(made, small_catalog):
    made("a")
    made("b", 1)
    path = Path("b/results.json")
    path.write_text(path.read_text().replace('"loss": 0.5', '"loss": NaN'))
    found = compare(read_runs(["a", "b"], small_catalog))
    assert {row.metric: len(row.spreads[0].values) for row in found.rows if not row.group} == {
        "accuracy": 2,
        "loss": 1,
        "depth": 2,
    }
    json.dumps(found.to_dict(), allow_nan=False)


# In words.


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 3))
def test_not_quite_all_is_not_called_all(share, digits):
    assert float(percent(share, digits)) < 100
    assert float(percent(share, digits)) == pytest.approx(100 * share, abs=0.51 * 10**-digits)


def test_all_is_called_all_and_a_spread_has_its_standard_deviation():
    assert percent(1.0) == "100.0"
    assert percent(0.9995) == "99.95"
    assert Spread((0.9, 0.8)).format("accuracy", 1) == "85.0 ± 7.1"
    assert Spread((0.25,)).format("loss", 2) == "0.25"


# The command.


def test_the_table_has_a_line_for_each_variant_with_mean_and_spread_and_groups_when_asked_for(two_variants):
    narrow, wide = two_variants
    text = run("compare", *narrow, wide, "--plugin", PLUGIN).stdout
    assert "10 runs of the task 'letters'" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["wide", "20", "5", "82.0", "±", "1.6"] in [line[:6] for line in lines]
    assert "0.0079 (smallest possible)" in text
    assert "permutation test" in text
    assert ["model.width", "8", "16"] in lines
    assert "\ntest   10 " not in text
    text = run("compare", wide, "--groups", "--plugin", PLUGIN).stdout
    assert ["test", "10", "wide"] in [line.split()[:3] for line in text.splitlines()]
    assert "permutation test" not in text


def test_json_has_everything(two_variants):
    narrow, wide = two_variants
    found = json.loads(run("compare", *narrow, wide, "--json", "--plugin", PLUGIN).stdout)
    assert [len(variant["runs"]) for variant in found["variants"]] == [5, 5]
    result = found["results"][0]
    assert result["split"] == "dev"
    assert result["group"] == "all"
    assert result["statistics"]["wide"]["n"] == 5
    assert result["against_first"]["wide"]["p"] == 2 / 252
    assert found["differences"] == {"model.width": {"narrow-0 and 4 more": 8, "wide": 16}}
    assert "permutation" in found["method"]


def test_variants_of_one_name_are_told_apart():
    records = [
        Record(f"g/seed-{seed}", RunDirectory(Path()), {"seed": seed, "width": width}, {}, {})
        for seed, width in ((0, 1), (1, 1), (2, 2), (3, 2))
    ]
    found, _ = variants(records)
    assert [variant.name for variant in found] == ["seed-0 ...", "seed-2 ..."]


def samples(most):
    return st.lists(st.integers(0, 20).map(lambda number: number / 20), min_size=2, max_size=most)


def by_brute_force(one, two):
    """Every order of the values, the first of which go to one side."""
    values = [round(20 * value) for value in (*one, *two)]  # whole numbers: no rounding to think of

    def apart(order):
        first, rest = order[: len(one)], order[len(one) :]
        return abs(sum(first) * len(rest) - sum(rest) * len(first))

    orders = list(itertools.permutations(values))
    return sum(apart(order) >= apart(values) for order in orders) / len(orders)


@given(samples(4), samples(3))
def test_the_permutation_test_agrees_with_trying_every_order(one, two):
    p, p_min = permutation_test(one, two)
    assert p == pytest.approx(by_brute_force(one, two))
    assert p_min <= p <= 1


@given(samples(4), samples(4))
def test_the_sides_can_be_exchanged(one, two):
    assert permutation_test(one, two) == pytest.approx(permutation_test(two, one))


def test_values_that_do_not_overlap_give_the_smallest_possible_p():
    p, p_min = permutation_test([0.1, 0.2, 0.3, 0.15, 0.25], [0.8, 0.9, 0.95, 0.85, 0.7])
    assert p == p_min == 2 / math.comb(10, 5)
    p, p_min = permutation_test([0.1, 0.2], [0.8, 0.9, 0.95])
    assert p == p_min == 1 / math.comb(5, 2)


def test_many_seeds_are_sampled_and_give_the_same_p_every_time():
    generator = random.Random(1)
    one = [generator.gauss(0.0, 1) for _ in range(12)]
    two = [generator.gauss(1.0, 1) for _ in range(12)]
    p, p_min = permutation_test(one, two)
    assert (p, p_min) == permutation_test(one, two)
    assert 0 < p_min <= p < 0.2
    far, _ = permutation_test(one, [value + 50 for value in one])
    assert far == pytest.approx(1 / 20_001)


def test_equal_values_are_no_difference():
    assert permutation_test([0.5, 0.5], [0.5, 0.5])[0] == 1
    assert welch_interval([0.5, 0.5], [0.5, 0.5]) is None


def test_holm_multiplies_the_smallest_most_and_never_goes_back():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5), (16, 16), (501, 400)])
def test_the_interval_of_welch_is_that_of_scipy_stats(sizes):
    stats = pytest.importorskip("scipy.stats")
    generator = random.Random(3)
    one, two = (
        [generator.gauss(0, spread) for _ in range(n)] for n, spread in zip(sizes, (1, 3), strict=True)
    )
    wanted = stats.ttest_ind(two, one, equal_var=False).confidence_interval(0.95)
    assert welch_interval(one, two) == pytest.approx((wanted.low, wanted.high), rel=1e-6)


@pytest.mark.parametrize("margin", [0.0, 0.3, -2.0])
def test_the_one_sided_test_of_welch_is_that_of_scipy_stats(margin):
    scipy_stats = pytest.importorskip("scipy.stats")
    generator = random.Random(5)
    for sizes in itertools.product((2, 3, 5), repeat=2):
        one, two = (
            [generator.gauss(0, spread) for _ in range(n)] for n, spread in zip(sizes, (1, 3), strict=True)
        )
        shifted = [value + margin for value in two]
        wanted = scipy_stats.ttest_ind(one, shifted, equal_var=False, alternative="greater").pvalue
        assert welch_test(one, two, margin) == pytest.approx(wanted, abs=1e-10)


def test_one_value_and_values_that_do_not_vary_are_not_tested():
    assert welch_test([0.5], [0.1, 0.2]) is None
    assert welch_test([0.5, 0.5], [0.1, 0.1]) is None
