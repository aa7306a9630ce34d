"""pandas DataFrames."""

import sys

import pytest
import torch

import crvnn
from crvnn_core.inference.tree_scores import score_trees
from crvnn_core.trees import Tree

pytest.importorskip("pandas")


def test_predictions_are_rows_with_a_column_for_each_class(letters):
    texts = ["a b", "zebra f"]
    found = letters.predict(texts)
    frame = found.to_pandas()
    assert list(frame.columns) == ["text", "label", "p_no", "p_yes", "tree", "unknown"]
    assert list(frame["text"]) == texts
    assert list(frame["unknown"]) == ["", "zebra"]
    assert list(frame["label"]) == [prediction.label for prediction in found]
    assert frame["p_yes"][1] == found[1].probabilities["yes"]
    assert found[1].to_pandas().iloc[0].equals(frame.iloc[1])


def test_pairs_have_columns_for_both_texts_and_trees(pairs):
    frame = pairs.predict([("a b", "c d")]).to_pandas()
    assert frame.loc[0, ["text_a", "text_b", "tree_a", "tree_b"]].tolist() == ["a b", "c d", "(a b)", "(c d)"]


def test_a_tree_has_a_row_for_each_node():
    frame = Tree.of((("a", "b"), "c")).to_pandas()
    assert frame[["start", "split", "end", "text"]].values.tolist() == [[0, 1, 2, "a b"], [0, 2, 3, "a b c"]]
    assert list(Tree.of("a").to_pandas().columns) == list(frame.columns)


def test_an_inspection_has_a_row_for_each_step_and_token(letters):
    shown = letters.inspect("a b c")
    frame = shown.to_pandas()
    (sequence,) = shown.sequences
    assert len(frame) == 3 * len(sequence.exists)
    assert list(frame["token"][:3]) == ["a", "b", "c"]
    for step in range(1, len(sequence.exists)):
        rows = frame[frame["step"] == step]
        assert rows["exists"].tolist() == sequence.exists[step]
        assert rows["compose"].tolist() == sequence.compose[step - 1]


def test_a_trace_has_rows_for_tokens_only():
    mask = torch.arange(4) < torch.tensor([[4], [2]])
    trace = crvnn.CRvNN(8).eval()(torch.randn(2, 4, 8), mask, trace=True).trace
    frame = trace.to_pandas()
    assert "token" not in frame.columns
    for row, n in enumerate((4, 2)):
        own = frame[frame["sequence"] == row]
        assert len(own) == n * (int(trace.steps[row]) + 1)
        last = own[own["step"] == int(trace.steps[row])]
        assert torch.tensor(last["exists"].tolist()).allclose(trace.exists[-1, row, :n])


def test_results_have_a_row_for_each_split_and_group(letters):
    frame = letters.results.to_pandas()
    assert letters.to_pandas().equals(frame)
    assert frame[frame["group"] == "all"]["split"].tolist() == list(letters.results)
    assert frame.iloc[0]["accuracy"] == letters.results["dev"].total.accuracy
    assert list(letters.results["dev"].to_pandas()["group"]) == ["all", *letters.results["dev"].buckets]
    assert list(crvnn.Results().to_pandas().columns) == ["split", "group"]


def test_tree_scores_have_a_row_for_each_run_and_baseline():
    model = crvnn.load("listops", sets=["task.test_max_tokens=20"])
    scores = score_trees({"mine": model}, model.examples("test")[:5], hard=True)
    frame = scores.to_pandas()
    assert frame["trees"].tolist() == [*scores.scores, "mine"]
    assert frame["hard"].tolist() == [False] * len(scores.scores) + [True]
    assert "mine" in scores._repr_html_()


def test_without_pandas_the_message_says_how_to_install_it(letters, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        crvnn.CrvnnError,
        match=r"to_pandas needs pandas, which is not installed: pip install 'crvnn\[pandas\]'",
    ):
        letters.results.to_pandas()
