"""Formats of trees: what is written, what can be read again, and what is refused with a reason."""

import json
import re
from importlib import import_module
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crvnn_core import InputError
from crvnn_core.trees import FORMATS, READABLE, Tree
from crvnn_core.trees.formats.brackets import leaf_of
from crvnn_core.trees.formats.escapes import token_of

#: Table 1 of the paper, and the two sentences of its table of parses, as printed there.
PAPER = {
    "table 1": "((x1 (x2 x3)) (x4 (x5 x6)))",
    "i did not": "((((i did) not) like) (((a single) minute) ((of this) (film .))))",
    "roger dodger": "(((roger dodger) ((is (one of)) (the most))) (compelling (variations (of (this theme)))))",
}
# fmt: off
AWKWARD = [
    "(", ")", "-LRB-", "-RRB-", "-LRB(", "--LRB-", "[MAX", "]", "{", "}", "{}", "\\", "\\\\", "\\s", "\\e", "",
    " ", "a b", " a", "b ", "\n", "\t", "\r\n", "\x00", "\x1f", "\x85", "\xa0", "\u2028", "\u202e", "\ufeff",
    '"', "'", "`", "''", "&", "&amp;", "<b>", "]]>", "<!--", "%", "$", "#", "_", "~", "^", "|", "--", ",,", "=", ",",
    "─", "┌─", "│ x", "╌", "naïve", "你好", "👩‍🚀", "é", "\\u{41}", "\\textless{}", "-{}", "null", "\uffff", "\ud800",
]
# fmt: on


@st.composite
def trees(draw, most=8):
    """Any tree over any tokens, with steps and chances here and there."""
    n = draw(st.integers(1, most))
    known = draw(st.booleans())
    steps = draw(st.lists(st.integers(1, 9) | st.none(), min_size=n, max_size=n)) if known else None
    chances = draw(st.lists(st.floats(0, 1) | st.none(), min_size=n, max_size=n)) if known else None
    order = draw(st.permutations(range(n - 1)))
    tokens = st.sampled_from(AWKWARD) | st.text(max_size=5)
    return Tree.joining(draw(st.lists(tokens, min_size=n, max_size=n)), order, steps, chances)


@pytest.mark.parametrize("form", READABLE)
@pytest.mark.parametrize("text", PAPER.values(), ids=PAPER)
def test_the_trees_in_the_paper_come_back_from_every_form_that_can_be_read(text, form):
    tree = Tree.read(text, "brackets")
    assert str(tree) == text
    assert Tree.read(tree.to(form), form) == tree


WRITTEN = {
    "nested": '[[["roger", "dodger"], [["is", ["one", "of"]], ["the", "most"]]], '
    '["compelling", ["variations", ["of", ["this", "theme"]]]]]',
    "latex": r"""% \usepackage[T1]{fontenc} \usepackage{forest}
\begin{forest}
  for tree={parent anchor=south, child anchor=north, l sep=6pt, s sep=6pt},
  where n children=0{tier=token, font=\ttfamily}{coordinate},
  [[[[{roger}] [{dodger}]] [[[{is}] [[{one}] [{of}]]] [[{the}] [{most}]]]] """
    r"""[[{compelling}] [[{variations}] [[{of}] [[{this}] [{theme}]]]]]]
\end{forest}
""",
    "terminal": """\
    ┌────── roger
  ┌─┴────── dodger
  │   ┌──── is
  │   │ ┌── one
  │ ┌─┴─┴── of
  │ │ ┌──── the
┌─┴─┴─┴──── most
│ ┌──────── compelling
│ │ ┌────── variations
│ │ │ ┌──── of
│ │ │ │ ┌── this
┴─┴─┴─┴─┴── theme""",
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_tree_in_the_paper_is_written_as_it_should_be(form):
    assert Tree.read(PAPER["roger dodger"], "brackets").to(form) == WRITTEN[form]


@pytest.mark.parametrize("form", READABLE)
@given(tree=trees())
@example(tree=Tree.joining(AWKWARD, range(len(AWKWARD) - 1)))
@example(tree=Tree.of(""))
def test_any_tree_comes_back_from_every_form_that_can_be_read(form, tree):
    assert Tree.read(tree.to(form), form).same(tree)
    assert Tree.read(tree.to(form, unknown={0}), form).same(tree)
    assert form != "json" or Tree.read(tree.to(form), form) == tree  # with steps and chances


def in_svg(text):
    """The tokens of a picture, and the span and split of its nodes, as its attributes say."""
    parts = list(ElementTree.fromstring(text).iter())
    tokens = [token_of(part.get("data-token")) for part in parts if part.get("data-token")]
    nodes = [part for part in parts if part.get("data-split")]
    return tuple(tokens), [
        tuple(int(node.get(f"data-{key}")) for key in ("start", "split", "end")) for node in nodes
    ]


@given(trees())
@example(Tree.joining(AWKWARD, range(len(AWKWARD) - 1)))
def test_a_picture_has_every_token_and_node(tree):
    tokens, nodes = in_svg(tree.to("svg"))
    assert tokens == tree.tokens
    assert nodes == [(node.start, node.split, node.end) for node in tree.nodes]


@given(trees())
def test_nested_lists_are_the_pairs_of_the_tree(tree):
    assert Tree.of(json.loads(tree.to("nested"))).same(tree)


@given(trees())
@example(Tree.joining(AWKWARD, range(len(AWKWARD) - 1)))
def test_a_drawing_has_every_token_on_a_line_of_its_own(tree):
    lines = tree.to("terminal").split("\n")
    shown = [re.fullmatch("[ │┌┴─╌]*?[─╌] (.*)", line)[1] for line in lines]
    assert tuple(map(token_of, shown)) == tree.tokens


@given(trees())
@example(Tree.joining(AWKWARD, range(len(AWKWARD) - 1)))
def test_latex_has_balanced_brackets_around_every_token(tree):
    body = tree.to("latex").split("coordinate},\n")[1].removesuffix("\n\\end{forest}\n")
    outside = re.sub(r"\{(?:[^{}\\]|\\.|\{\})*\}", "x", body)
    assert outside.count("[") == outside.count("]") == 2 * len(tree.tokens) - 1
    assert outside.count("x") == len(tree.tokens)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("order", [range(4999), range(4998, -1, -1)], ids=["left", "right"])
def test_a_very_deep_tree_is_written_in_every_form(form, order):
    tree = Tree.joining(["x", "y"] * 2500, order)
    assert tree.depth == 4999
    text = tree.to(form)
    assert text.count("y") >= 2500
    if form in READABLE:
        assert Tree.read(text, form).same(tree)


@pytest.mark.parametrize("form", FORMATS)
@given(tree=trees())
@example(tree=Tree.joining(AWKWARD, range(len(AWKWARD) - 1)))
def test_what_is_written_is_text_that_a_file_can_hold_and_nothing_that_cannot_be_seen(form, tree):
    text = tree.to(form)
    assert text.encode("utf-8").decode("utf-8") == text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", text)


def test_brackets_are_as_treebanks_have_them():
    assert str(Tree.of("a")) == "a"
    assert str(Tree.of((("a", "b"), ("c", ("d", "e"))))) == "((a b) (c (d e)))"
    assert str(Tree.of(("(", ("f(x)", ")")))) == "(-LRB- (f-LRB-x-RRB- -RRB-))"


def test_json_has_the_nodes_in_the_order_of_composition():
    tree = Tree.joining("abc", [1, 0], [2, 1], [0.5, 1.0])
    assert json.loads(tree.to("json")) == {
        "tokens": ["a", "b", "c"],
        "nodes": [
            {"start": 1, "split": 2, "end": 3, "step": 1, "chance": 1.0, "conflict": None},
            {"start": 0, "split": 1, "end": 3, "step": 2, "chance": 0.5, "conflict": None},
        ],
    }
    assert tree.plain() == json.loads(tree.to("json"))


def test_nltks_form_has_a_label_at_every_node_and_any_labels_are_read():
    tree = Tree.of((("a", "b"), "c"))
    assert tree.to("nltk") == "(X (X (X a) (X b)) (X c))"
    for other in ("(S (NP (D a) (N b)) (V c))", "(3 (2 (2 a) b) c)", "( (S (NP a b) (VP (V c))))"):
        assert Tree.read(other, "nltk").nested() == tree.nested()


@given(trees())
def test_nltks_own_pattern_finds_the_same_brackets_and_leaves(tree):
    # As in nltk.Tree.fromstring, release 3.10: a backslash before a bracket would make the bracket part of a token.
    token = r"(?:\\[\(\)]|[^\s\(\)])+"
    pieces = [found[0] for found in re.finditer(rf"\(\s*(?:{token})?|\)|{token}", tree.to("nltk"))]
    assert pieces.count("(X") == pieces.count(")") == 2 * len(tree.tokens) - 1
    leaves = [piece for piece in pieces if piece not in ("(X", ")")]
    assert tuple(map(leaf_of, leaves)) == tree.tokens


def test_edges_to_unknown_tokens_are_dashed_in_a_drawing():
    tree = Tree.of(((("the", "cat"), ("is", "not")), "here"))
    assert tree.to("terminal", unknown={3}).splitlines()[3] == "┌─┴─┴─╌ not"
    assert Tree.of("a").to("terminal") == "─ a"


def test_latex_is_for_forest_with_every_special_character_escaped():
    text = Tree.of(("50%", "a_b & c--")).to("latex", unknown={0})
    assert "[[{50\\%}, edge=dashed] [{a\\_b\\ \\&\\ c-{}-{}}]]" in text
    assert "\\begin{forest}" in text
    assert "\\end{forest}" in text


def test_a_picture_has_its_colours_where_variables_are_not_known():
    style = ElementTree.fromstring(Tree.of("a").to("svg")).find("{http://www.w3.org/2000/svg}style").text
    light = dict(re.findall(r"--(\w+): (#\w+);", style.partition("@media")[0]))
    used = re.findall(r"(\w+): (#\w+); (\w+): var\(--(\w+)\);", style)
    assert len(used) == style.count("var(") > 5
    for before, colour, what, name in used:
        assert (before, colour) == (what, light[name])


def test_a_picture_is_whole_and_says_what_it_shows():
    tree = Tree.joining(["<b>", "a&b", "zebra"], [1, 0], [None, 1], [0.25, 0.875])
    root = ElementTree.fromstring(tree.to("svg", unknown={2}))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.find(f"{space}title").text == "Tree over 3 tokens"
    assert "(<b> (a&b zebra))" in root.find(f"{space}desc").text
    assert "prefers-color-scheme: dark" in root.find(f"{space}style").text
    told = [part.find(f"{space}title").text for part in root.iter(f"{space}g")]
    assert told[0] == "tokens 2 to 3, joined after token 2; in step 1; 87.5% composed by then"
    assert told[1].endswith("only when all steps were over; 25.0% composed by then")
    texts = list(root.iter(f"{space}text"))
    assert [text.text for text in texts] == ["<b>", "a&b", "zebra"]
    assert ["strange" in text.get("class") for text in texts] == [False, False, True]
    assert len({text.get("y") for text in texts}) == 1


@given(trees(most=12))
def test_no_two_nodes_of_a_picture_lie_on_each_other_and_all_lie_inside(tree):
    root = ElementTree.fromstring(tree.to("svg"))
    width, height = float(root.get("width")), float(root.get("height"))
    circles = [part for part in root.iter() if part.tag.endswith("circle") and part.get("class") is None]
    places = [(float(circle.get("cx")), float(circle.get("cy"))) for circle in circles]
    assert len(set(places)) == len(tree.nodes)
    assert all(0 < x < width and 0 < y < height for x, y in places)


def test_a_long_token_is_cut_in_the_picture_and_whole_in_its_attribute():
    tree = Tree.of(("x" * 100, "y"))
    text = tree.to("svg")
    assert f">{'x' * 23}…<" in text
    assert in_svg(text)[0] == tree.tokens


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("brackets", "", "there is no tree"),
        ("brackets", "((a b)", "column 1: this bracket is never closed; 1 are open"),
        ("brackets", "(a b))", "column 6: this bracket closes nothing"),
        ("brackets", "(a b c)", "column 7: .* hold 3 trees; a node has two children"),
        ("brackets", "(a (b))", "column 6: .* hold one tree"),
        ("brackets", "(a ())", "column 5: .* hold nothing"),
        ("brackets", "(a b) c", "column 7: the tree has ended before this"),
        ("brackets", "(a\n (b))", "line 2, column 4: "),
        ("json", "{", "this is not JSON"),
        ("json", "[" * 100000, "nested too deeply|not JSON"),
        ("json", "[]", '"tokens" and "nodes"'),
        ("json", '{"tokens": "ab", "nodes": []}', '"tokens" is a list of strings'),
        ("json", '{"tokens": [], "nodes": []}', "at least one token"),
        ("json", '{"tokens": ["a", "b"], "nodes": []}', "2 tokens has 1 inner nodes, not 0"),
        ("json", '{"tokens": ["a", "b"], "nodes": {}}', '"nodes" is a list'),
        ("json", '{"tokens": ["a", "b"], "nodes": [1]}', "node 1 is not an object"),
        (
            "json",
            '{"tokens": ["a", "b"], "nodes": [{"start": 0, "split": true, "end": 2}]}',
            '"split" must be',
        ),
        ("json", '{"tokens": ["a", "b"], "nodes": [{"start": 0, "split": 2, "end": 2}]}', "side by side"),
        ("json", '{"tokens": ["a", "b"], "nodes": [{"start": 0, "split": 1, "end": 9}]}', "side by side"),
        (
            "json",
            '{"tokens": ["a", "b"], "nodes": [{"start": 0, "split": 1, "end": 2, "step": 0}]}',
            '"step" must be',
        ),
        (
            "json",
            '{"tokens": ["a", "b"], "nodes": [{"start": 0, "split": 1, "end": 2, "chance": 2}]}',
            '"chance" must be',
        ),
        ("nltk", "a", "column 1: a tree begins with '\\('"),
        ("nltk", "(X (X a) (X b) (X c))", "hold 3 trees"),
        ("nltk", "(X )", "hold nothing"),
    ],
)
def test_what_is_no_tree_is_refused_with_a_reason(form, text, message):
    with pytest.raises(InputError, match=message):
        Tree.read(text, form)


@pytest.mark.parametrize("form", READABLE)
@given(text=st.text(alphabet='([{}])ab ,:"\\┌┴─│<>/\n', max_size=30))
@example(text="\\")
def test_any_text_is_a_tree_or_an_input_error(form, text):
    try:
        tree = Tree.read(text, form)
    except InputError:
        return
    assert Tree.read(tree.to(form), form).same(tree)


@pytest.mark.parametrize("form", sorted(set(FORMATS) - set(READABLE)))
def test_a_form_that_is_only_written_is_named_with_those_that_can_be_read(form):
    with pytest.raises(InputError, match=rf"cannot be read from '{form}'.*There are: brackets, json, nltk"):
        Tree.read(Tree.of("a").to(form), form)


def test_an_unknown_form_is_named_with_those_that_exist():
    with pytest.raises(InputError, match=r"'bracket'\. Did you mean 'brackets'.*terminal"):
        Tree.of("a").to("bracket")


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_is_readable_exactly_if_its_module_reads(form):
    assert hasattr(import_module(f"crvnn_core.trees.formats.{form}"), "read") == (form in READABLE)
