"""``crvnn predict --trees`` and ``crvnn trees``."""

import json
import re

import pytest
from attrs import evolve

import small
from calling import run
from crvnn_core.inference.trained import load
from crvnn_core.training.trainer import train
from crvnn_core.trees import Tree
from crvnn_core.trees.scoring import f1

TEXT = "[MAX 2 9 [MIN 4 7 ] 0 ]"
DRAWING = """\
        ┌──── [MAX
      ┌─┴──── 2
    ┌─┴────── 9
    │     ┌── [MIN
    │   ┌─┴── 4
    │ ┌─┴──── 7
  ┌─┴─┴────── ]
┌─┴────────── 0
┴──────────── ]
"""
ROWS = "9\t[MAX 2 9 ]\n1\t[MIN 4 [MIN 1 7 ] ]\n3\t3\n"


def crvnn(*args, **more):
    return run("--plugin", small.PLUGIN, *args, **more)


def predict(*args):
    """What ``crvnn predict`` prints."""
    return crvnn("predict", *args).stdout


def refused(*args):
    return " ".join(crvnn(*args, code=2).stderr.split())


def trained(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp(encoder) / "run"
    train(small.variant("training.steps=1", f"model.encoder={encoder}"), path)
    return path


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """A run whose encoder composes along no tree."""
    return trained("lstm", tmp_path_factory)


@pytest.fixture(scope="module")
def balanced_run(tmp_path_factory):
    """A run whose encoder has a structure of its own."""
    return trained("balanced", tmp_path_factory)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text(ROWS)
    return path


# predict --trees


def test_a_terminal_gets_a_drawing(monkeypatch):
    monkeypatch.setattr("crvnn_core.cli.predict._on_terminal", lambda: True)
    label, drawing = predict("listops", TEXT, "--trees").split("\n", 1)
    assert label.split("\t")[0] == "9"
    assert drawing == DRAWING


@pytest.mark.parametrize("form", ["brackets", "svg"])
def test_a_form_can_be_asked_for(form):
    shown = predict("listops", TEXT, "--format", form)
    assert shown == load("listops").predict([TEXT])[0].tree.to(form).rstrip("\n") + "\n"


@pytest.mark.parametrize(
    ("name", "form"),
    [("t.svg", "svg"), ("t.tex", "latex"), ("t.JSON", "json"), ("t.ptb", "nltk"), ("t.txt", "brackets")],
)
def test_the_suffix_of_a_file_says_the_form(tmp_path, name, form):
    result = crvnn("predict", "listops", TEXT, "--out", tmp_path / name)
    assert result.stdout == ""
    written = load("listops").predict([TEXT])[0].tree.to(form)
    assert (tmp_path / name).read_text(encoding="utf-8").rstrip("\n") == written.rstrip("\n")


def test_several_trees_go_into_one_file_a_line_each_or_into_numbered_files(tmp_path):
    texts = [TEXT, "[SM 1 2 ]", "[SM 3 4 ]"]
    crvnn("predict", "listops", *texts, "--format", "json", "--out", tmp_path / "trees.jsonl")
    lines = (tmp_path / "trees.jsonl").read_text().splitlines()
    assert [" ".join(Tree.read(line, "json").tokens) for line in lines] == texts
    crvnn("predict", "listops", *texts, "--out", tmp_path / "trees.json")  # as one list
    found = json.loads((tmp_path / "trees.json").read_text())
    assert [" ".join(tree["tokens"]) for tree in found] == texts
    assert "wrote 3 trees" in crvnn("predict", "listops", *texts, "--out", tmp_path / "tree.svg").stderr
    for number, text in enumerate(texts, 1):
        picture = (tmp_path / f"tree-{number}.svg").read_text(encoding="utf-8")
        assert re.findall('data-token="([^"]*)"', picture) == text.split()
    assert not (tmp_path / "tree.svg").exists()


def test_a_text_that_is_no_unicode_can_be_kept(tmp_path, letters_run):
    path = tmp_path / "trees.json"  # as an operating system hands over a byte that it cannot decode
    crvnn("predict", letters_run, "a \udcff", "--out", path)
    assert Tree.read(path.read_text(encoding="utf-8"), "json").tokens == ("a", "\udcff")


def test_several_drawings_have_an_empty_line_between_them():
    shown = predict("listops", TEXT, "[SM 1 2 ]", "--format", "terminal")
    first, second = shown.split("\n\n")
    assert first + "\n" == DRAWING
    assert [line.split()[-1] for line in second.splitlines()] == ["[SM", "1", "2", "]"]


def test_unknown_tokens_are_marked_and_named(letters_run):
    result = crvnn("predict", letters_run, "a zebra b", "--format", "terminal")
    assert "crvnn: text 1: unknown to the model: 'zebra'" in result.stderr
    assert next(line for line in result.stdout.splitlines() if "╌" in line).endswith("╌ zebra")
    (answer,) = json.loads(predict(letters_run, "a zebra b", "--trees", "--json"))
    (tree,) = answer["trees"]
    assert (tree["tokens"], tree["unknown"]) == (["a", "zebra", "b"], [1])
    assert Tree.read(tree["brackets"], "brackets").same(Tree.read(json.dumps(tree), "json"))
    assert all(0 <= node["chance"] <= 1 for node in tree["nodes"])


def test_pairs_give_two_trees_each(pairs_run):
    shown = predict(pairs_run, "a b", "c d e", "--format", "brackets").splitlines()
    assert [Tree.read(line, "brackets").tokens for line in shown] == [("a", "b"), ("c", "d", "e")]
    assert "3 cannot be paired" in refused("predict", pairs_run, "a", "b", "c")


def test_trees_are_those_of_hard_decisions_and_of_an_encoder_with_its_own(balanced_run):
    shown = predict("listops-guided", TEXT, "--hard", "--format", "brackets")
    assert shown == "((((([MAX 2) 9) ((([MIN 4) 7) ])) 0) ])\n"
    assert predict(balanced_run, "a b c d", "--format", "brackets") == "((a b) (c d))\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["listops", TEXT, "--out", "tree.png"],
            "end in .csv or .jsonl, and trees to .txt .json",
        ),
        (["listops", TEXT, "--format", "bracket"], "'bracket' is not one of"),
        (["listops", TEXT, "--json", "--format", "svg"], "it goes with neither"),
        (["listops", ""], "text 1: this is not one whole expression"),
        (["listops", "[MAX 2 zebra ]"], "token 3, 'ZEBRA', does not fit"),
        (["nowhere", TEXT], "there is no such run directory"),
    ],
)
def test_what_cannot_be_parsed_is_refused_with_a_reason(arguments, message):
    assert message in refused("predict", *arguments)


def test_a_text_that_is_too_long_is_refused_before_anything_is_computed(letters_run):
    assert "text 2 has 5,001 tokens; up to 5,000 can be parsed" in refused(
        "predict", letters_run, "a", " ".join("a" * 5001), "--trees"
    )
    assert "text 1 is empty" in refused("predict", letters_run, "  ")


@pytest.mark.parametrize("command", [["predict", "RUN", "a b", "--trees"], ["trees", "RUN"]])
def test_a_run_without_trees_is_named_with_its_encoder(plain_run, command):
    arguments = [str(plain_run) if part == "RUN" else part for part in command]
    assert f"{plain_run}: the encoder 'lstm' composes along no tree" in refused(*arguments)


def test_conflicts_are_told_and_marked(eager_run):
    result = crvnn("predict", eager_run, "a b c d", "--format", "terminal")
    assert result.stdout == "    ┌── a\n  ┌─\u2573── b\n┌─\u2573──── c\n┴────── d\n"
    said = "crvnn: text 1: 2 conflicts: 'a' (token 1, step 1), 'b' (token 2, step 1). "
    assert said in result.stderr
    (found,) = json.loads(predict(eager_run, "a b c d", "--trees", "--json"))
    (tree,) = found["trees"]
    assert [node["conflict"] for node in tree["nodes"]] == [1, 1, None]
    assert tree["conflicts"] in result.stderr
    assert "conflict" not in crvnn("predict", "listops", TEXT, "--trees").stderr


def test_trees_are_extracted_as_one_asks(letters_run):
    model = load(letters_run, small.catalog_with())
    for extraction in ("cumulative", "existence"):
        tree = evolve(model, extraction=extraction).predict(["a b c d"])[0].tree
        (found,) = json.loads(
            predict(letters_run, "a b c d", "--extraction", extraction, "--trees", "--json")
        )
        assert found["trees"][0]["nodes"] == tree.plain()["nodes"]
    assert "'cumulative', 'existence'" in refused("predict", letters_run, "a b", "--extraction", "sum")


# trees


def test_sequences_with_conflicts_are_counted_and_their_trees_are_not_faithful(eager_run):
    args = ("trees", eager_run, "--split", "dev")
    found = json.loads(crvnn(*args, "--json").stdout)
    examples = load(eager_run, small.catalog_with()).examples("dev")
    longer = sum(len(example.sequences[0]) > 2 for example in examples)
    assert found["conflicts"] == {str(eager_run): longer}
    assert 0 < found["faithfulness"][str(eager_run)] < 0.9
    shown = crvnn(*args).stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["trees", "faithful", "conflicts"] in lines
    assert [str(eager_run), f"{found['faithfulness'][str(eager_run)]:.1%}", str(longer)] in lines
    assert "the task 'letters' has no gold trees for these examples" in shown


def test_the_table_has_the_model_and_the_baselines(rows):
    shown = crvnn("trees", "listops-guided", "--data", rows).stdout
    lines = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert lines["listops-guided"] == ["100.0%", "100.0%", "100.0%", "100.0%", "4.0", "100.0%", "0"]
    assert {"left-branching", "right-branching", "balanced", "random"} < lines.keys()
    assert "2 of 3 sequences in 3 examples; left out: 1 of fewer than 3 tokens" in shown


def test_without_anything_to_compare_there_is_no_table(tmp_path):
    (tmp_path / "short.tsv").write_text("3\t3\n")
    shown = crvnn("trees", "listops-guided", "--data", tmp_path / "short.tsv").stdout
    assert shown.endswith("0 of 1 sequences in 1 examples; left out: 1 of fewer than 3 tokens\n")
    assert "random" not in shown


def test_machines_get_the_same(rows):
    result = json.loads(crvnn("trees", "listops-guided", "--data", rows, "--hard", "--json").stdout)
    assert result["examples"] == result["sequences"] == 3
    assert (result["too_short"], result["without_gold_tree"], result["agreement"]) == (1, 0, None)
    assert result["scores_hard"]["listops-guided"]["exact"] == 1
    # [MAX 2 9 ] branches to the left all through; of the other's five nontrivial spans, [MIN 4 and all but ] do.
    left = result["scores"]["left-branching"]
    assert left["f1"] == pytest.approx((1 + 2 / 5) / 2)
    assert left["corpus_f1"] == pytest.approx(4 / 7)
    assert (left["exact"], left["constituents"]) == (0.5, 0)


def test_examples_and_seed_choose_what_is_looked_at():
    arguments = ["trees", "listops-guided", "--examples", 20, "--set", "task.test_max_tokens=12", "--json"]
    one, same, other = (
        json.loads(crvnn(*arguments, *more).stdout) for more in ([], ["--seed", 0], ["--seed", 1])
    )
    assert one == same
    assert one["examples"] == 20
    assert one["scores"]["random"] != other["scores"]["random"]


def test_several_runs_agree_more_or_less(letters_run, balanced_run):
    arguments = ["trees", letters_run, balanced_run, "--split", "dev"]
    found = json.loads(crvnn(*arguments, "--json").stdout)
    models = [load(run, small.catalog_with()) for run in (letters_run, balanced_run)]
    rows = models[0].examples("dev")
    both = zip(*(model.trees(rows) for model in models), strict=True)
    scores = [f1(one, two) for (one,), (two,) in both if len(one.tokens) >= 3]
    assert found["scores"] == {}
    assert found["agreement"] == pytest.approx(sum(scores) / len(scores))
    shown = crvnn(*arguments).stdout
    assert f"agreement, the mean F1 of every two runs: {found['agreement']:.1%}" in shown
    assert "dev: no scores, since the task 'letters' has no gold trees for these examples" in shown


def test_hard_decisions_agree_among_themselves(rows):
    arguments = ["trees", "listops", "listops-guided", "--data", rows, "--hard"]
    found = json.loads(crvnn(*arguments, "--json").stdout)
    assert list(found["scores"])[:2] == list(found["scores_hard"]) == ["listops", "listops-guided"]
    # The guided one finds the gold trees, so the other agrees with it as far as with these.
    assert found["agreement"] == pytest.approx(found["scores"]["listops"]["f1"])
    assert found["agreement_hard"] == pytest.approx(found["scores_hard"]["listops"]["f1"])
    shown = crvnn(*arguments).stdout
    assert "listops-guided, hard" in shown
    assert "agreement, hard" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["listops", "--split", "test", "--data", "x"], "give --data or --split"),
        (["listops", "listops"], "the same run is there twice"),
        (["listops", "--split", "tests"], "tests"),
        (["listops", "--examples", "0"], "--examples"),
        (["listops", "--data", "nowhere.tsv"], "nowhere.tsv"),
        ([], "RUN"),
    ],
)
def test_mistakes_are_named(arguments, message):
    assert message in refused("trees", *arguments)


def test_runs_on_pairs_and_on_single_texts_do_not_go_together(letters_run, pairs_run):
    assert "takes 2 texts at a time" in refused("trees", letters_run, pairs_run)


def test_the_shipped_models_find_lists_that_no_tree_without_a_model_finds():
    models = ("listops", "listops-guided", "listops-self-training")
    arguments = ["trees", *models, "--examples", 100, "--seed", 2024, "--json"]
    scores = json.loads(crvnn(*arguments, "--set", "task.test_max_tokens=40").stdout)["scores"]
    assert all(scores[name]["constituents"] > 0.98 for name in models)
    assert scores["listops"]["exact"] == scores["listops-guided"]["exact"] == 1
    baselines = ("left-branching", "right-branching", "balanced", "random")
    assert all(scores[name]["constituents"] < 0.15 for name in baselines)
    # It reads a list from both ends at once: the published order is a convention of gold trees.
    assert scores["random"]["f1"] < scores["listops-self-training"]["f1"] < 0.9
