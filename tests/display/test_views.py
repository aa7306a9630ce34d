"""What objects look like in a notebook: HTML with escaped texts and without scripts, for light and dark pages."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import torch

import crvnn
from crvnn_core import Trained
from crvnn_core.inference.tree_scores import score_trees
from crvnn_core.trees import Tree
from small import Averaging, variant

HOSTILE = "a <script>alert(1)</script> & b"


class Page(HTMLParser):
    """Collects tags and texts, and checks that every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if "style" not in self.open:
            self.texts.append(text)

    @property
    def text(self):
        return " ".join("".join(f" {text}" for text in self.texts).split())


@pytest.fixture(scope="module")
def trace():
    torch.manual_seed(0)
    mask = torch.arange(5) < torch.tensor([[5], [2], [1], [3], [4]])
    return crvnn.CRvNN(8).eval()(torch.randn(5, 5, 8), mask, trace=True).trace


@pytest.fixture(scope="module")
def everything(letters, pairs, trace):
    examples = letters.examples("test")
    return {
        "model": letters,
        "results": letters.results,
        "result": letters.results["dev"],
        "prediction": letters.predict([HOSTILE])[0],
        "predictions": letters.predict([HOSTILE, "a b", "f"]),
        "pair": pairs.predict([("a b", HOSTILE)])[0],
        "pairs": pairs.predict([("a b", HOSTILE)]),
        "inspection": letters.inspect(HOSTILE),
        "inspected pair": pairs.inspect(("a b", HOSTILE)),
        "trace": trace,
        "tree scores": score_trees({"one": letters, "two": letters}, examples),
    }


def test_every_view_is_well_formed_and_has_no_script(everything):
    for name, shown in everything.items():
        html = shown._repr_html_()
        for tag, attributes in Page(html).tags:
            assert tag != "script", name
            assert not any(key.startswith("on") for key in attributes), name
        assert "http" not in html.replace("http://www.w3.org/2000/svg", ""), name


def test_a_prediction_shows_text_label_probabilities_tree_and_unknown_tokens(everything):
    page = Page(everything["prediction"]._repr_html_())
    assert HOSTILE in page.text
    assert "not in the vocabulary: <script>alert(1)</script> &" in page.text
    assert re.search(r"(yes|no) \d+\.\d% (yes|no) \d+\.\d%", page.text)
    assert ("svg", "crvnn-tree") in [(tag, attributes.get("class")) for tag, attributes in page.tags]
    assert sum(attributes.get("class") == "strange token" for _, attributes in page.tags) == 2


def test_a_pair_has_two_trees(everything):
    for name in ("pair", "inspected pair"):
        page = Page(everything[name]._repr_html_())
        assert sum(attributes.get("class") == "crvnn-tree" for _, attributes in page.tags) == 2


def test_predictions_are_rows_of_a_table_some_of_which_are_shown_and_the_rest_counted(everything, letters):
    page = Page(everything["predictions"]._repr_html_())
    assert sum(tag == "tr" for tag, _ in page.tags) == 4
    assert "unknown tokens" in page.text
    page = Page(letters.predict(["a"] * 60)._repr_html_())
    assert sum(tag == "tr" for tag, _ in page.tags) == 51
    assert "... and 10 more predictions" in page.text
    assert "unknown tokens" not in page.text  # since there are none


def test_every_step_is_a_row_and_every_token_a_column(letters):
    shown = letters.inspect("a b c d e")
    steps = len(shown.sequences[0].compose)
    page = Page(shown._repr_html_())
    titles = [attributes["title"] for tag, attributes in page.tags if tag == "span" and "title" in attributes]
    assert len(titles) == 5 * (steps + 1)
    first, last = shown.sequences[0].compose[0], shown.sequences[0].exists[-1]
    assert titles[:5] == [f"e 1.000, c {c:.3f}" for c in first]
    assert titles[-5:] == [f"e {e:.3f}, c 0.000" for e in last]


def test_some_sequences_of_a_trace_are_shown_and_the_rest_counted(trace):
    page = Page(trace._repr_html_())
    assert "sequence 1: 5 tokens" in page.text
    assert "sequence 3: 1 token, 0 steps" in page.text
    assert "... and 1 more sequences" in page.text


def test_results_have_a_row_for_each_split_and_group(letters):
    page = Page(letters.results._repr_html_())
    total = letters.results["test"].total
    assert f"test all {total.examples} {total.accuracy:.1%} {total.loss:.3f} {total.depth:.1f}" in page.text
    assert "split" not in Page(letters.results["test"]._repr_html_()).text
    assert "no results are known" in Page(crvnn.Results()._repr_html_()).text


def test_a_result_that_was_just_measured_shows_its_classes_and_their_confusion(letters):
    shown = letters.evaluate(["a", "b", "c"], labels=["yes", "no", "yes"])
    page = Page(shown._repr_html_())
    assert f"macro F1 {shown.classification.macro_f1:.1%}" in page.text
    assert sum(attributes.get("class") == "shade" for _, attributes in page.tags) == 4
    assert "predicted class" not in Page(letters.results["test"]._repr_html_()).text  # only scores were kept


def test_a_model_shows_its_components_and_results(letters):
    page = Page(letters._repr_html_())
    assert repr(letters) in page.text
    assert repr(letters).startswith("Trained(task 'letters', encoder 'crvnn', width 8, ")
    assert "cell gated" in page.text


def test_an_encoder_without_trees_says_so():
    assembly = variant(encoder=Averaging)
    model = Trained(assembly.spec, assembly.task, assembly.model)
    for shown in (model.predict(["a b"])[0], model.inspect("a b"), model):
        page = Page(shown._repr_html_())
        assert ("this encoder shows no tree" in page.text) == (shown is not model)


def test_colours_follow_the_page_light_or_dark(letters):
    html = letters.results._repr_html_()
    for theme in (
        'body[data-jp-theme-light="false"] .crvnn-view',
        "prefers-color-scheme: dark",
        "body.vscode-light",
    ):
        assert theme in html


def test_a_tree_is_a_picture():
    svg = Tree.of((HOSTILE, "b"))._repr_svg_()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "<script" not in svg
