"""A classifier of texts for scikit-learn: pipelines, cross-validation, grid search (extra ``sklearn``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, Literal

import numpy as np
import torch
from attrs import evolve

from crvnn.training import train
from crvnn_core.errors import CrvnnError, Origin
from crvnn_core.inference.trained import Trained
from crvnn_core.spec.layers import merge_tables, read_tables
from crvnn_tasks.in_memory import InMemory, read_rows

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError as error:
    raise ImportError("crvnn.sklearn needs scikit-learn: pip install 'crvnn[sklearn]'") from error

Part = str | Mapping[str, Any]
_PARTS = ("encoder", "embedding", "retriever", "scorer", "decision", "cell", "halting")


class CRvNNClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies texts, or pairs of texts, with a continuous recursive neural network.

    ``X`` is a list, an array or a series of texts; for pairs a list of pairs, or an array or a frame of two columns.
    A part of the model is given by its name, or by a dictionary of its name and settings; ``None`` is the preset's.

    :param width: of the sentence vectors.
    :param preset: the variant to start from; ``paper`` by default.
    :param tokens: what a token is: ``words``, ``spaces`` (substrings between spaces) or ``characters``.
    :param lower: convert texts to lower case.
    :param min_count: tokens that are rarer than this share the unknown token's vector.
    :param epochs: maximal number of epochs.
    :param batch_size: texts per optimizer step.
    :param learning_rate: of the optimizer, AdamW.
    :param dev_share: the share of the texts that is held out to choose the best epoch; 0 to keep the last one.
    :param patience: stop after so many epochs without improvement on these; 0 for never.
    :param settings: any other settings of a spec, such as ``{"training.clip": 0.5}``; they win.
    :param device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
    :param random_state: of all random numbers.
    :param verbose: whether to show progress.
    """

    def __init__(
        self,
        *,
        width: int = 64,
        cell: Part | None = None,
        retriever: Part | None = None,
        decision: Part | None = None,
        scorer: Part | None = None,
        halting: Part | None = None,
        encoder: Part | None = None,
        embedding: Part | None = None,
        preset: str | None = None,
        tokens: Literal["words", "spaces", "characters"] = "words",
        lower: bool = True,
        min_count: int = 1,
        epochs: int = 10,
        batch_size: int = 32,
        learning_rate: float = 0.002,
        dev_share: float = 0.1,
        patience: int = 0,
        settings: Mapping[str, Any] | None = None,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.width = width
        self.cell = cell
        self.retriever = retriever
        self.decision = decision
        self.scorer = scorer
        self.halting = halting
        self.encoder = encoder
        self.embedding = embedding
        self.preset = preset
        self.tokens = tokens
        self.lower = lower
        self.min_count = min_count
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dev_share = dev_share
        self.patience = patience
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Iterable[Any], y: Iterable[Any]) -> CRvNNClassifier:  # noqa: N803
        """Train on texts and labels.

        :return: itself, with ``classes_``, ``model_`` (a ``crvnn.Trained``) and ``results_`` (on held-out texts).
        """
        texts = self._texts(X)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        check_consistent_length(texts, labels)
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {classes.tolist()}")
        names = [str(label) for label in classes.tolist()]
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        with torch.random.fork_rng():  # torch's own random numbers go on as if nothing had happened
            model = _valued(train, self._spec(), texts, [names[i] for i in numbers], seed=int(seed))
        self.classes_ = classes
        self._columns = [tuple(model.task.classes).index(name) for name in names]
        self.model_: Trained = evolve(model, task=_without_rows(model))
        self.results_ = model.results
        return self

    def predict(self, X: Iterable[Any]) -> Any:  # noqa: N803
        """The most probable class of each text."""
        chances = self.predict_proba(X)
        return self.classes_[chances.argmax(1)]

    def predict_proba(self, X: Iterable[Any]) -> Any:  # noqa: N803
        """Probabilities [texts, classes], with the classes in the order of ``classes_``."""
        check_is_fitted(self)
        found = _valued(self.model_.probabilities, self._texts(X), progress=self.verbose > 0)
        return found.double().cpu().numpy()[:, self._columns]

    def encode(self, X: Iterable[Any]) -> Any:  # noqa: N803
        """Sentence vectors [texts, width] as an array; of pairs [pairs, 2, width]."""
        check_is_fitted(self)
        return _valued(self.model_.encode, self._texts(X), progress=self.verbose > 0).cpu().numpy()

    def _spec(self) -> dict[str, Any]:
        """The parameters as the tables of a spec."""
        parts = {name: getattr(self, name) for name in _PARTS if getattr(self, name) is not None}
        task = {name: getattr(self, name) for name in ("tokens", "lower", "min_count", "dev_share")}
        training = {
            "epochs": self.epochs,
            "batch": self.batch_size,
            "patience": self.patience,
            "accelerator": self.device,
            "optimizer": {"name": "adamw", "learning_rate": self.learning_rate},
            "observers": ["progress"] if self.verbose else [],
        }
        spec: dict[str, Any] = {"task": task, "model": {"width": self.width, **parts}, "training": training}
        if self.preset is not None:
            spec["preset"] = self.preset
        tables = read_tables(spec, Origin("parameters"))
        merge_tables(tables, _valued(read_tables, self.settings or {}, Origin("settings")))
        return tables

    def _texts(self, X: Iterable[Any]) -> list[Any]:  # noqa: N803
        """Texts, or pairs of them, as a list."""
        if isinstance(X, str):
            raise ValueError("X is a list of texts, not one text")
        found: Any = X if hasattr(X, "__len__") else list(X)
        rows = _valued(read_rows, found, [0] * len(found))
        return [row.texts[0] if len(row.texts) == 1 else row.texts for row in rows]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags


def _valued(function: Any, *arguments: Any, **settings: Any) -> Any:
    """The result of a function, whose complaints become a ``ValueError``, which scikit-learn's users expect."""
    try:
        return function(*arguments, **settings)
    except CrvnnError as error:
        raise ValueError(str(error)) from error


def _without_rows(model: Trained) -> InMemory:
    """The task without the training data, which a fitted classifier need not carry along."""
    task = InMemory(**model.spec.task.params)
    task.vocabulary, task.classes = tuple(model.task.vocabulary), tuple(model.task.classes)
    return task
