"""The classifier for scikit-learn: its conventions, pipelines, cross-validation, grid search, pickling."""

import pickle
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra sklearn)")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

import crvnn
from crvnn.sklearn import CRvNNClassifier
from sentences import LABELS, PAIRS, SAME, TEXTS

QUICK = {
    "width": 8,
    "epochs": 1,
    "scorer": {"transition": 4},
    "settings": {"training.threads": 1},
    "device": "cpu",
    "random_state": 0,
}


def quick(**changes):
    return CRvNNClassifier(**{**QUICK, **changes})


@pytest.fixture(scope="module")
def fitted():
    return quick(width=16, epochs=12, batch_size=8, learning_rate=0.02, dev_share=0).fit(TEXTS, LABELS)


def test_it_learns_and_gives_labels_of_the_kind_it_was_given(fitted):
    assert fitted.score(TEXTS, LABELS) > 0.9
    assert list(fitted.classes_) == ["negative", "positive"]
    numbers = quick().fit(TEXTS, np.arange(len(TEXTS)) % 3 * 10)
    assert numbers.predict(TEXTS).dtype == numbers.classes_.dtype
    assert set(numbers.predict(TEXTS)) <= {0, 10, 20}


def test_probabilities_are_in_the_order_of_the_classes(fitted):
    chances = fitted.predict_proba(TEXTS)
    assert chances.shape == (40, 2)
    assert chances.sum(1) == pytest.approx(np.ones(40))
    said = fitted.model_.predict(TEXTS[:5])
    for row, prediction in zip(chances, said, strict=False):
        assert row == pytest.approx([prediction.probabilities[name] for name in fitted.classes_], abs=1e-5)


def test_classes_that_sort_otherwise_as_numbers_keep_their_columns():
    labels = [("10", "9", "2")[place % 3] for place in range(len(TEXTS))]
    model = quick().fit(TEXTS, labels)
    assert list(model.classes_) == ["10", "2", "9"]
    assert tuple(model.model_.task.classes) == ("2", "9", "10")
    by_name = model.model_.predict(TEXTS[:1])[0].probabilities
    assert model.predict_proba(TEXTS[:1])[0] == pytest.approx(
        [by_name[name] for name in model.classes_], abs=1e-5
    )


def test_the_same_state_gives_the_same_model_and_leaves_torchs_random_numbers_alone():
    before = torch.get_rng_state()
    one, two, other = (quick(random_state=state).fit(TEXTS, LABELS) for state in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(one.predict_proba(TEXTS), two.predict_proba(TEXTS))
    assert not np.array_equal(one.predict_proba(TEXTS), other.predict_proba(TEXTS))
    generator = quick(random_state=np.random.RandomState(1))
    assert not np.array_equal(
        generator.fit(TEXTS, LABELS).predict_proba(TEXTS), generator.fit(TEXTS, LABELS).predict_proba(TEXTS)
    )


def test_it_is_pickled_with_its_weights_and_without_the_training_texts(fitted):
    data = pickle.dumps(fitted)
    assert np.array_equal(pickle.loads(data).predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    assert b"the plot is" not in data


def test_its_model_is_saved_and_gives_vectors_like_any_other(fitted, tmp_path):
    loaded = crvnn.load(fitted.model_.save(tmp_path / "run"))
    assert loaded.predict(TEXTS[:1])[0].label == fitted.predict(TEXTS[:1])[0]
    assert np.array_equal(fitted.encode(TEXTS[:3]), fitted.model_.encode(TEXTS[:3]).numpy())


def test_it_works_at_the_end_of_a_pipeline():
    lower = FunctionTransformer(lambda texts: [text.replace("film", "plot") for text in texts])
    pipeline = make_pipeline(lower, quick()).fit(TEXTS, LABELS)
    assert len(pipeline.predict(TEXTS)) == 40
    assert "film" not in pipeline[-1].model_.model.vocabulary


def test_components_and_their_settings_are_searched():
    cells = ["gru", {"name": "gated", "hidden": 8}]
    search = GridSearchCV(quick(), {"cell": cells, "width": [4, 8]}, cv=2, error_score="raise")
    search.fit(np.array(TEXTS, dtype=object), LABELS)
    assert search.best_params_["cell"] in cells
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(TEXTS[:3]).shape == (3,)


def test_parameters_are_set_got_and_cloned():
    model = quick().set_params(cell="lstm", settings={"training.clip": 0.5})
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert twin.fit(TEXTS, LABELS).model_.spec.model.cell.name == "lstm"
    assert twin.model_.spec.training.clip == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'cel'"):
        model.set_params(cel="gru")


def test_settings_win_over_parameters_and_may_be_nested():
    settings = {"training": {"batch": 5}, "model.width": 6, "model.cell": {"hidden": 7}}
    spec = quick(settings=settings, batch_size=9).fit(TEXTS, LABELS).model_.spec
    assert (spec.training.batch, spec.model.width, spec.model.cell.params["hidden"]) == (5, 6, 7)
    assert spec.training.epochs == 1


@pytest.mark.parametrize(
    "contain",
    [
        *(tuple, np.array, iter),
        lambda texts: np.array(texts, dtype=object),
        lambda texts: pytest.importorskip("pandas").Series(texts, index=[7, 5, 3, 1]),
    ],
)
def test_texts_come_in_every_container(contain, fitted):
    texts = TEXTS[:4]
    assert np.array_equal(fitted.predict_proba(contain(texts)), fitted.predict_proba(texts))


def test_pairs_come_as_pairs_or_as_two_columns():
    model = quick().fit(PAIRS, SAME)
    assert model.predict(PAIRS[:3]).dtype == bool
    assert np.array_equal(model.predict_proba(np.array(PAIRS)), model.predict_proba(PAIRS))
    assert model.encode(PAIRS[:3]).shape == (3, 2, 8)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("a text", ["a"], "X is a list of texts, not one text"),
        (["a", 3], ["a", "b"], "text 2 is 3"),
        ([["a", "b", "c"]], ["a"], "text 1 has 3"),
        (["a", "b"], ["a"], "inconsistent numbers of samples"),
        (["a", "b"], ["a", "a"], "only one class is present"),
        (["a", "b"], None, "requires y to be passed"),
        (["a", "b"], [0.5, 0.7], "Unknown label type"),
        (["a", " "], ["a", "b"], "text 2 has no token"),
        ([], [], "there are no texts"),
    ],
)
def test_what_cannot_be_learnt_from_is_a_value_error(texts, labels, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(texts, labels)


@pytest.mark.parametrize(
    ("changes", "message"), [({"cell": "gruu"}, "Did you mean 'gru'"), ({"width": 0}, "at least 1")]
)
def test_a_wrong_parameter_is_a_value_error_of_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        quick(**changes).fit(TEXTS, LABELS)


def test_progress_is_shown_only_if_asked_for(capsys):
    model = quick().fit(TEXTS, LABELS)
    model.predict(TEXTS)
    assert capsys.readouterr().err == ""
    quick(verbose=1).fit(TEXTS, LABELS)
    assert "steps" in capsys.readouterr().err


def test_without_scikit_learn_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.delattr(crvnn, "sklearn")
    monkeypatch.delitem(sys.modules, "crvnn.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"pip install 'crvnn\[sklearn\]'"):
        crvnn.sklearn  # noqa: B018


# scikit-learn's own checks. Their data are numbers, and ``check_estimator`` skips an estimator of texts as a whole. So
# a row of numbers is written as a text here, and every check runs but those of the numbers themselves.


class OnNumbers(CRvNNClassifier):
    """The classifier on rows of numbers: each number, rounded, is a token."""

    def fit(self, X, y):  # noqa: N803
        return super().fit(self._written(validate_data(self, X)), y)

    def predict_proba(self, X):  # noqa: N803
        check_is_fitted(self)
        return super().predict_proba(self._written(validate_data(self, X, reset=False)))

    def _written(self, rows):
        return [" ".join(f"{column}:{value:.0f}" for column, value in enumerate(row)) for row in rows]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        tags.input_tags.two_d_array = True
        tags.classifier_tags.poor_score = True  # after one epoch; that it learns is tested above
        return tags


_NUMBERS = "it is about numbers: NaN, infinity, complex and sparse ones"
_COLUMNS = "it is about the number of columns, and texts have no columns"
DO_NOT_APPLY = {
    "check_complex_data": _NUMBERS,
    "check_dtype_object": _NUMBERS,
    "check_estimators_nan_inf": _NUMBERS,
    "check_estimator_sparse_tag": _NUMBERS,
    "check_estimator_sparse_array": _NUMBERS,
    "check_estimator_sparse_matrix": _NUMBERS,
    "check_array_api_input": _NUMBERS,
    "check_positive_only_tag_during_fit": _NUMBERS,
    "check_n_features_in": _COLUMNS,
    "check_n_features_in_after_fitting": _COLUMNS,
    "check_fit1d": _COLUMNS,
    "check_fit2d_1feature": _COLUMNS,
    "check_fit2d_predict1d": _COLUMNS,
    "check_estimators_partial_fit_n_features": "there is no partial_fit",
    "check_classifiers_one_label_sample_weights": "fit takes no sample weights",
    "check_decision_proba_consistency": "there is no decision_function",
    "check_non_transformer_estimators_n_iter": "there is no max_iter",
}


def all_checks():
    found = estimator_checks_generator(OnNumbers(**QUICK, tokens="spaces"))
    return [(getattr(check, "func", check).__name__, estimator, check) for estimator, check in found]


@pytest.mark.parametrize(
    ("estimator", "check"),
    [pytest.param(*each, id=name) for name, *each in all_checks() if name not in DO_NOT_APPLY],
)
def test_it_keeps_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)
