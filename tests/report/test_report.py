"""``crvnn report``: one page that needs nothing else, whatever stands in the data."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import small
from calling import run
from crvnn_core import CrvnnError, Example, InputError, train
from crvnn_core.cli.session import counting
from crvnn_core.trees import Tree
from crvnn_report.collection import gather
from crvnn_report.page import page
from small import PLUGIN, Letters

EVIL = '<img src=x onerror="alert(1)">'
VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}


class Outline(HTMLParser):
    """Every element with its attributes and the text in it; complains of tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found = [], []
        self.feed(text)
        self.close()
        assert not self.open, f"<{self.open[-1][0]}> is never closed"

    def handle_starttag(self, tag, attributes):
        element = [tag, dict(attributes), ""]
        self.found.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1][0] == tag, f"</{tag}> closes <{self.open[-1][0]}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element[2] += data

    def all(self, tag, **attributes):
        """Elements of one kind."""
        wanted = attributes.items()
        return [element for element in self.found if element[0] == tag and wanted <= element[1].items()]

    def section(self, name):
        """The text of a part of the page."""
        (found,) = self.all("section", id=name)
        return found[2]


def report(catalog, *runs, **options):
    """The page of some runs, taken apart."""
    return Outline(page(gather([str(each) for each in runs], catalog, counting, **options)))


class Evil(Letters):
    """Letters, and markup for tokens and classes."""

    vocabulary = ("a", "b", "c", "d", "e", "f", EVIL)
    classes = ("</svg><script>alert(2)</script>", "&amp; yes")

    def examples(self, split, seed):
        for example in super().examples(split, seed):
            yield Example(((EVIL, "</title>", "\u202e\x00", *example.sequences[0]),), example.label)

    def tokenize(self, text):  # one token has spaces itself
        return tuple(EVIL if part == "EVIL" else part for part in text.replace(EVIL, "EVIL").split(" "))


@pytest.fixture(scope="session")
def variant_run(tmp_path_factory):
    """A run that differs in its cell."""
    path = tmp_path_factory.mktemp("variant") / "lstm"
    train(small.variant("model.cell=lstm", "training.steps=12", "training.evaluate_every=4"), path)
    return path


@pytest.fixture(scope="session")
def both(small_catalog, letters_run, variant_run):
    """A page about two variants, and its text."""
    text = page(gather([str(letters_run), str(variant_run)], small_catalog, counting, texts=["a b zz"]))
    return Outline(text), text


# The page.


def test_the_page_has_every_part(both):
    outline, _ = both
    parts = ["overview", "differences", "learning", "groups", "depth", "confusion", "examples", "spec"]
    assert [element[1]["id"] for element in outline.all("section")] == parts
    assert [element[1]["href"] for element in outline.all("a")] == [f"#{part}" for part in parts[1:]]


def test_the_page_needs_nothing_else(both):
    outline, text = both
    assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)\w", text)
    assert not re.search(r"@import|url\(", text)
    assert not [
        e for e in outline.found if e[0] in ("link", "img", "iframe", "object", "embed") or "src" in e[1]
    ]
    (policy,) = outline.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy[1]["content"].startswith(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"
    )


def test_the_script_is_the_one_that_the_policy_allows(both):
    import base64
    import hashlib

    outline, _ = both
    (script,) = outline.all("script")
    digest = base64.b64encode(hashlib.sha256(script[2].encode()).digest()).decode()
    (policy,) = outline.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert f"'sha256-{digest}'" in policy[1]["content"]


def test_every_picture_says_what_it_shows(both):
    outline, text = both
    pictures = outline.all("svg")
    assert len(pictures) > 20
    assert all(element[1].get("role") == "img" for element in pictures)
    starts = re.findall(r"<svg[^>]*>\s*<title>([^<]+)</title>\s*<desc>([^<]+)</desc>", text)
    assert len(starts) == len(pictures)


def test_every_table_has_a_caption_and_its_heads_a_scope(both):
    outline, _ = both
    assert len(outline.all("table")) == len(outline.all("caption")) > 3
    assert all(element[1].get("scope") in ("row", "col") for element in outline.all("th"))


def test_what_differs_is_shown_and_marked_in_the_whole(both):
    outline, _ = both
    assert "model.cellgatedlstm" in outline.section("differences")
    assert "3 more, which not all of them have" in outline.section("differences")
    marked = [element[2] for element in outline.all("tr", **{"class": "marked"})]
    assert "model.cellgatedlstm" in marked
    assert not any("model.width" in each for each in marked)
    assert "model.width" in outline.section("spec")
    assert "torch" in outline.section("spec")


def test_curves_groups_and_depth_are_drawn_for_both(both):
    outline, text = both
    titles = [element[2] for element in outline.all("title")]
    for wanted in ("Loss during training", "Accuracy, % during training", "Accuracy, % by group of test"):
        assert wanted in titles
    assert any("development at step 10: " in title for title in titles)
    assert len(re.findall(r"Depth of the recursion against length", text)) == 2
    assert len(re.findall(r"<title>Confusion matrix of ", text)) == 2


def test_the_text_asked_about_is_shown_with_what_is_unknown(both):
    outline, _ = both
    inside = outline.section("examples")
    assert "a b zz" in inside
    assert "Not known to the model: zz" in inside
    assert "Heat map of existence e over steps" in inside


def test_one_run_needs_no_differences(small_catalog, letters_run):
    outline = report(small_catalog, letters_run)
    assert not outline.all("section", id="differences")
    assert f"{letters_run.name} on letters" in outline.all("h1")[0][2]


def test_seeds_are_taken_together(small_catalog, letters_run, tmp_path):
    for seed in (0, 1):
        shutil.copytree(letters_run, tmp_path / f"group/seed-{seed}")
        spec = tmp_path / f"group/seed-{seed}/spec.toml"
        spec.write_text(spec.read_text().replace("seed = 0\n", f"seed = {seed}\n", 1))
    shutil.copy(letters_run / "spec.toml", tmp_path / "group/seeds.toml")
    outline = report(small_catalog, tmp_path / "group")
    assert outline.all("article", **{"class": "card s0"})[0][2].startswith("group")
    assert "± 0.0" in outline.section("overview")
    assert "2 runs" in outline.all("h1")[0][2]
    assert "Of several seeds the first is asked." in outline.section("depth")


def test_a_pair_shows_both_of_its_sequences(small_catalog, pairs_run):
    outline = report(small_catalog, pairs_run, texts=["a b c", "b c"], trees=0)
    trees = [element for element in outline.all("svg") if "crvnn-tree" in element[1]["class"]]
    assert [element[2].split("\n")[1] for element in trees] == ["Tree over 3 tokens", "Tree over 2 tokens"]


def test_an_encoder_without_a_tree_says_so(small_catalog, tmp_path):
    train(
        small.variant("model.encoder=lstm", "training.steps=2", "training.evaluate_every=2"), tmp_path / "a"
    )
    outline = report(small_catalog, tmp_path / "a")
    assert "This encoder makes no tree." in outline.section("examples")
    assert "Heat map" not in outline.section("examples")


def test_groups_that_a_task_does_not_tell_apart_are_lengths(small_catalog, pairs_run):
    outline = report(small_catalog, pairs_run)
    assert outline.section("groups").startswith("By length")
    assert not outline.section("groups").startswith("By length and group")
    assert any(element[2] == "Accuracy, % by tokens" for element in outline.all("title"))


class Gold(Letters):
    """Letters whose right tree goes from left to right, in which only the first two belong together by themselves."""

    def gold(self, example):
        (tokens,) = example.sequences
        nested = tokens[0]
        for token in tokens[1:]:
            nested = (nested, token)
        return (Tree.of(nested),)

    def constituents(self, example):
        return (frozenset({(0, 2), (0, len(example.sequences[0]))}),)


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        ("left-to-right", "This is the right tree."),
        (
            "balanced",
            "Constituents also in the right tree: 1 of 2; of those that the input marks itself: 1 of 1.",
        ),
    ],
)
def test_a_tree_is_held_against_the_right_one(tmp_path, encoder, said):
    settings = ("task=mine", f"model.encoder={encoder}", "training.steps=2", "training.evaluate_every=2")
    train(small.variant(*settings, task=Gold), tmp_path / "a")
    outline = report(small.catalog_with(task=Gold), tmp_path / "a", texts=["a b c d"], trees=0)
    assert said in outline.section("examples")


def test_of_the_examples_one_of_each_kind_is_open_and_texts_all_are(small_catalog, letters_run):
    def opened(**options):
        shown = page(gather([str(letters_run)], small_catalog, counting, **options))
        return re.findall(r'<article class="example"><details( open)?>', shown)

    assert opened(trees=5).count(" open") in (1, 2)
    assert opened(trees=5)[0] == " open"
    assert opened(trees=2, texts=["a b", "a", "c"]) == [" open", " open", " open", "", ""]


def test_groups_of_few_examples_are_marked(both, small_catalog, letters_run, tmp_path):
    path = tmp_path / "many"
    shutil.copytree(letters_run, path)
    results = path / "results.json"
    results.write_text(re.sub(r'"examples": \d+', '"examples": 30', results.read_text()))
    assert "fewer than 30 examples" in both[0].section("groups")
    assert any(re.search(r", \d+ examples?$", element[2]) for element in both[0].all("title"))
    assert "fewer than 30 examples" not in report(small_catalog, path).section("groups")


# Whatever stands in the data.


@pytest.fixture(scope="session")
def evil_page(tmp_path_factory):
    """A page about a run whose tokens, classes and name are markup."""
    path = tmp_path_factory.mktemp("evil") / "<script>alert(3)<"
    train(small.variant("task=mine", "training.steps=4", "training.evaluate_every=2", task=Evil), path)
    catalog = small.catalog_with(task=Evil)
    return page(gather([str(path)], catalog, counting, texts=[f"a {EVIL} <!-- b"]))


def test_markup_in_tokens_classes_and_names_is_shown_and_never_run(evil_page):
    outline = Outline(evil_page)
    assert len(outline.all("script")) == 1
    assert outline.all("img") == []
    assert not [e for e in outline.found if any(name.startswith("on") for name in e[1])]
    assert f"{EVIL} </title> " in outline.section("examples")  # from the data
    assert f"a {EVIL} <!-- b" in outline.section("examples")  # from the user
    assert "</svg><script>alert(2)</script>" in outline.section("confusion")
    assert "<script>alert(3)<" in outline.all("h1")[0][2]


def test_what_cannot_be_seen_becomes_a_mark(evil_page):
    assert "\u202e" not in evil_page
    assert "\x00" not in evil_page


# What is missing.


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
    assert "has no results: it was stopped, or still trains" in outline.section("overview")
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
    text = page(gather([str(path)], small_catalog, counting, examples=0))
    assert "nan" not in re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.DOTALL).lower()
    assert "No examples were asked for." in text


# Mistakes.


def test_runs_of_different_tasks_are_refused(small_catalog, letters_run, pairs_run):
    with pytest.raises(InputError, match="different tasks"):
        report(small_catalog, letters_run, pairs_run)


def test_runs_with_different_classes_are_refused(small_catalog, letters_run, variant_run, tmp_path):
    shutil.copytree(variant_run, tmp_path / "b")
    lexicon = json.loads((tmp_path / "b" / "vocabulary.json").read_text())
    lexicon["classes"] = ["nay", "yea"]
    (tmp_path / "b" / "vocabulary.json").write_text(json.dumps(lexicon))
    with pytest.raises(
        InputError, match=r"run tells no, yes apart, .*b nay, yea: they are about different data"
    ):
        report(small_catalog, letters_run, tmp_path / "b")


def test_a_text_that_is_too_long_is_refused_with_the_limit(small_catalog, letters_run):
    with pytest.raises(InputError, match="text 2 has 121 tokens; a report shows texts of up to 120"):
        report(small_catalog, letters_run, texts=["a", "a " * 121])


def test_texts_that_cannot_be_asked_are_refused(small_catalog, letters_run, pairs_run, tmp_path):
    with pytest.raises(InputError, match="is empty"):
        report(small_catalog, letters_run, texts=[" "])
    with pytest.raises(InputError, match="3 cannot be paired"):
        report(small_catalog, pairs_run, texts=["a", "b", "c"])
    path = without(letters_run, tmp_path, "weights.safetensors")
    with pytest.raises(CrvnnError, match="no model to ask"):
        report(small_catalog, path, texts=["a"])


def test_a_split_that_no_task_has_is_a_mistake(letters_run, tmp_path):
    out = tmp_path / "report.html"
    said = run("report", letters_run, "--split", "tset", "--out", out, "--plugin", PLUGIN, code=2).stderr
    assert "Did you mean 'test'?" in said
    assert not out.exists()


def test_a_setting_that_no_task_has_is_a_mistake(letters_run, tmp_path):
    out = tmp_path / "report.html"
    for setting in ("task.longets=3", "model.width=3"):
        said = run("report", letters_run, "--set", setting, "--out", out, "--plugin", PLUGIN, code=2).stderr
        assert f"--set {setting}" in said
        assert not out.exists()


# The command.


def test_the_command_writes_the_page_and_says_so(letters_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("report", letters_run, "--plugin", PLUGIN, "--examples", 10, "--trees", 2, "--split", "dev")
    assert re.match(r"report\.html: \d+ kB, ", result.stdout)
    text = Path("report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "10 of the 20 examples of dev." in text
    assert text.count('<article class="example">') == 2
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_leaves_nothing_behind(letters_run, tmp_path):
    (tmp_path / "file").write_text("")
    said = run(
        "report", letters_run, "--plugin", PLUGIN, "--out", tmp_path / "file" / "a.html", code=2
    ).stderr
    assert "cannot be written" in said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_installed_model_is_reported_on_by_its_name(tmp_path):
    out = tmp_path / "listops.html"
    run("report", "listops-guided", "--examples", 30, "--trees", 3, "--out", out)
    outline = Outline(out.read_text(encoding="utf-8"))
    assert "99.95%" in outline.section("overview")
    assert "30 of the 2,000 examples of test." in outline.section("confusion")
