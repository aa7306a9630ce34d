"""Every form of a tree: what is written can be read again, and what is no tree is refused with a reason."""

import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crvnn_core import InputError
from crvnn_core.trees import FORMATS, Node, Tree
from crvnn_core.trees.formats.bracketed import leaf_of

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


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("text", PAPER.values(), ids=PAPER)
def test_the_trees_in_the_paper_come_back_from_every_form(text, form):
    tree = Tree.read(text, "brackets")
    assert str(tree) == text
    assert Tree.read(tree.to(form), form) == tree


@pytest.mark.parametrize("form", FORMATS)
@given(tree=trees())
def test_any_tree_comes_back_from_every_form(form, tree):
    assert Tree.read(tree.to(form), form).same(tree)
    assert Tree.read(tree.to(form, unknown={0}), form).same(tree)


@pytest.mark.parametrize("form", FORMATS)
def test_awkward_tokens_come_back_from_every_form(form):
    for token in AWKWARD:
        assert Tree.read(Tree.of(token).to(form), form).tokens == (token,)
    whole = Tree.joining(AWKWARD, range(len(AWKWARD) - 1))
    assert Tree.read(whole.to(form), form).same(whole)


@pytest.mark.parametrize("form", ["json", "svg"])
@given(trees())
def test_steps_and_chances_come_back_where_the_form_has_them(form, tree):
    assert Tree.read(tree.to(form), form) == tree


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("order", [range(4999), range(4998, -1, -1)], ids=["left", "right"])
def test_a_very_deep_tree_comes_back_from_every_form(form, order):
    tree = Tree.joining(["x", "y"] * 2500, order)
    assert tree.depth == 4999
    assert Tree.read(tree.to(form), form).same(tree)


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


def test_nested_lists_are_json():
    tree = Tree.of((("a", '"'), "c"))
    assert json.loads(tree.to("nested")) == [["a", '"'], "c"]
    assert json.loads(Tree.of("a").to("nested")) == "a"
    assert Tree.read('\n [ ["a","b"] ,"c" ] ', "nested").nested() == (("a", "b"), "c")


def test_json_has_the_nodes_in_the_order_of_composition():
    tree = Tree.joining("abc", [1, 0], [2, 1], [0.5, 1.0])
    assert json.loads(tree.to("json")) == {
        "tokens": ["a", "b", "c"],
        "nodes": [
            {"start": 1, "split": 2, "end": 3, "step": 1, "chance": 1.0},
            {"start": 0, "split": 1, "end": 3, "step": 2, "chance": 0.5},
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


def test_a_drawing_has_a_token_a_line():
    tree = Tree.of(((("the", "cat"), ("is", "not")), "here"))
    drawing = """\
    ┌── the
  ┌─┴── cat
  │ ┌── is
┌─┴─┴── not
┴────── here"""
    assert tree.to("terminal") == drawing
    assert Tree.read(drawing + "\n", "terminal").same(tree)
    assert tree.to("terminal", unknown={3}).splitlines()[3] == "┌─┴─┴─╌ not"
    assert Tree.of("a").to("terminal") == "─ a"


def test_latex_is_for_forest_with_every_special_character_escaped():
    text = Tree.of(("50%", "a_b & c--")).to("latex", unknown={0})
    assert "[[{50\\%}, edge=dashed] [{a\\_b\\ \\&\\ c-{}-{}}]]" in text
    assert "\\begin{forest}" in text
    assert "\\end{forest}" in text
    assert Tree.read("[[[{a}][{b}]] [{c}]]", "latex").nested() == (("a", "b"), "c")


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


def test_a_long_token_is_cut_in_the_picture_and_whole_in_what_is_read():
    tree = Tree.of(("x" * 100, "y"))
    text = tree.to("svg")
    assert f">{'x' * 23}…<" in text
    assert Tree.read(text, "svg").same(tree)


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
        ("nested", '["a" "b"]', "column 6: a comma is missing"),
        ("nested", '["a",, "b"]', "column 6: a comma stands between"),
        ("nested", '["a", "b",]', "column 11: after a comma comes a tree"),
        ("nested", '["a", b]', "column 7: expected a list or a text"),
        ("nested", '["a", "\\q"]', "column 7: this is not a text as JSON has it"),
        ("nested", '["a", "b"], "c"', "a comma stands between two trees"),
        ("nested", '["a", "b', "expected a list or a text"),
        ("json", "{", "this is not JSON"),
        ("json", "[" * 100000, "nested too deeply|not JSON"),
        ("json", "[]", '"tokens" and "nodes"'),
        ("json", '{"tokens": "ab", "nodes": []}', '"tokens" is a list of texts'),
        ("json", '{"tokens": [], "nodes": []}', "at least one token"),
        ("json", '{"tokens": ["a", "b"], "nodes": []}', "2 tokens has 1 inner nodes, not 0"),
        ("json", '{"tokens": ["a", "b"], "nodes": {}}', '"nodes" is a list'),
        ("json", '{"tokens": ["a", "b"], "nodes": [1]}', "node 1 is no object"),
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
        ("svg", "<svg", "this is not SVG"),
        ("svg", "<svg></svg>", "not the picture of a tree"),
        ("svg", '<svg><text data-position="1" data-token="a"/></svg>', "not in their order"),
        ("latex", "\\begin{forest} [[{a}][{b}]]", "is missing"),
        ("latex", "[[{a}][b]]", "expected brackets, or a token in braces"),
        ("latex", "[[{a}{b}][{c}]]", "two tokens"),
        ("latex", "[{a}[{b}][{c}]]", "has no children"),
        ("latex", "[[{a}][{b}]", "never closed"),
        ("terminal", " \n", "there is no tree"),
        ("terminal", "┌── a\nwhat\n┴── b", "line 2: this is no line of a drawn tree"),
        ("terminal", "┴── a", "line 1: 1 nodes end here"),
        ("terminal", "┌── a\n┌── b", "line 2: the tree is not whole; 2 parts"),
        ("terminal", "┌── a\n│ ┌── b\n┴── c\n┴── d", "line"),
        ("terminal", "  ┌── a\n┴── b", "line 1: the lines do not meet those above"),
    ],
)
def test_what_is_no_tree_is_refused_with_a_reason(form, text, message):
    with pytest.raises(InputError, match=message):
        Tree.read(text, form)


@pytest.mark.parametrize("form", FORMATS)
@given(text=st.text(alphabet='([{}])ab ,:"\\┌┴─│<>/\n', max_size=30))
@example(text="\\")
def test_any_text_is_a_tree_or_an_input_error(form, text):
    try:
        tree = Tree.read(text, form)
    except InputError:
        return
    assert Tree.read(tree.to(form), form).same(tree)


def test_an_unknown_form_is_named_with_those_that_exist():
    with pytest.raises(InputError, match=r"'bracket'\. Did you mean 'brackets'.*terminal"):
        Tree.of("a").to("bracket")


def test_a_tree_is_what_its_nodes_say():
    tree = Tree.of((("a", "b"), ("c", ("d", "e"))))
    assert tree.spans() == {(0, 2), (3, 5), (2, 5), (0, 5)}
    assert tree.depth == 3
    assert Tree.of("a").depth == 0
    assert tree.heights() == [1, 1, 2, 3]
    assert tree.children() == [(~0, ~1), (~3, ~4), (~2, 1), (0, 2)]
    assert repr(tree) == "Tree('((a b) (c (d e)))')"
    assert tree.nodes[-1] == Node(0, 2, 5)


@given(trees())
def test_pairs_in_pairs_give_the_same_tree(tree):
    assert Tree.of(tree.nested()).same(tree)


def test_trees_of_other_tokens_or_structure_are_not_the_same():
    tree = Tree.of((("a", "b"), "c"))
    assert not tree.same(Tree.of(("a", ("b", "c"))))
    assert not tree.same(Tree.of((("a", "b"), "d")))
    assert tree.same(Tree.joining("abc", [0, 1], [1, 2, None]))
    assert tree != Tree.joining("abc", [0, 1], [1, 2, None])


@pytest.mark.parametrize(
    "nested", [(), ("a",), ("a", "b", "c"), ("a", 1), None, ("a", None), [["a", "b"], []]]
)
def test_what_is_not_made_of_pairs_is_refused(nested):
    with pytest.raises(InputError, match="a token or a pair of trees"):
        Tree.of(nested)


@pytest.mark.parametrize("positions", [[0, 0], [2, 0], [-1, 0]])
def test_a_position_joins_once_and_only_what_is_to_its_right(positions):
    with pytest.raises(InputError, match="cannot join"):
        Tree.joining("abc", positions)


def test_a_tree_covers_all_its_tokens():
    with pytest.raises(InputError, match="has 2 inner nodes, not 1"):
        Tree.joining("abc", [0])
