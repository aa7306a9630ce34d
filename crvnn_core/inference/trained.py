"""A trained model, loaded from its run directory: predictions, scores and trees."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from crvnn_core.errors import CrvnnError, InputError, SpecError
from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.inference.model import Model, expect_hard_inference
from crvnn_core.inference.texts import Text
from crvnn_core.inference.weights import load_weights, saved_weights
from crvnn_core.interfaces import Example, Task
from crvnn_core.runs.directory import RunDirectory, find_run
from crvnn_core.spec import RunSpec
from crvnn_core.spec.assembly import assemble
from crvnn_core.spec.layers import override, read_toml
from crvnn_core.spec.resolve import resolve
from crvnn_core.training.data import checked, split_examples
from crvnn_core.training.evaluation import Result, evaluate
from crvnn_core.training.memory import TOKEN_BUDGET, within_budget
from crvnn_core.trees import Tree, trees_of


@frozen
class Prediction:
    """A model's prediction for one text, or for one pair of texts."""

    label: str
    probabilities: dict[str, float]
    #: One for each sequence; ``None`` from an encoder that composes along no tree.
    trees: tuple[Tree | None, ...]
    text: Text
    #: The tokens of each sequence.
    tokens: tuple[tuple[str, ...], ...]
    #: The tokens outside the model's vocabulary, each of them once, in order of appearance.
    unknown: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree | None:
        """The tree of the (first) sequence."""
        return self.trees[0]

    def plain(self) -> dict[str, Any]:
        """For JSON; trees in brackets."""
        return {
            "text": self.text,
            "label": self.label,
            "probabilities": self.probabilities,
            "trees": [None if tree is None else str(tree) for tree in self.trees],
            "tokens": self.tokens,
            "unknown": self.unknown,
        }


@frozen(eq=False)
class Trained:
    """A model with its task and spec."""

    spec: RunSpec
    task: Task
    model: Model

    def predict(
        self, texts: Sequence[Text], done: Callable[[int], None] | None = None, *, hard: bool = False
    ) -> list[Prediction]:
        """Label, probabilities and trees for each text; for a task on pairs, for each pair of texts.

        :param done: called after each batch with the number of its texts.
        :param hard: hard inference: binary decisions, composition along one tree.
        """
        if isinstance(texts, str):
            raise InputError(f"predict takes a list of texts: [{texts!r}]")
        questions = [self.question(text, number) for number, text in enumerate(texts)]
        found = dict(self._predictions(questions, done, hard=hard))
        return [evolve(found[i], text=text) for i, text in enumerate(texts)]

    def examples(self, split: str = "", path: Path | str = "", seed: int = 0) -> list[Example]:
        """The examples of a split of its task, or of a file of the form that its task reads.

        :param seed: of what is random about a split.
        """
        if path:
            return list(checked(self.task, self.task.read(Path(path)), str(path)))
        return list(split_examples(self.task, split, seed))

    def evaluate(
        self, examples: Sequence[Example], done: Callable[[int], None] | None = None, *, hard: bool = False
    ) -> Result:
        """Accuracy, loss and steps on examples, in total and by the task's groups.

        :param done: called after each batch with the number of its examples.
        :param hard: hard inference: binary decisions, composition along one tree.
        """
        self.expect_hard_inference(hard)
        return evaluate(self.model, self.task, examples, tokens=TOKEN_BUDGET, done=done, hard=hard)

    def trees(
        self, examples: Sequence[Example], done: Callable[[int], None] | None = None, *, hard: bool = False
    ) -> list[tuple[Tree, ...]]:
        """The tree of each sequence of the examples; an error if the encoder composes along none.

        :param done: called after each batch with the number of its examples.
        :param hard: hard inference: binary decisions, composition along one tree.
        """
        found = {i: self._whole(answer) for i, answer in self._predictions(examples, done, hard=hard)}
        return [found[i] for i in range(len(examples))]

    def unknown(self, tokens: Sequence[str]) -> frozenset[int]:
        """The positions of tokens that the model has no vector for."""
        return frozenset(place for place, token in enumerate(tokens) if token not in self.model.vocabulary)

    def expect_hard_inference(self, hard: bool = True) -> None:
        """An error that names the encoder, if ``hard`` inference is asked of one that does not offer it."""
        if hard:
            expect_hard_inference(self.model.encoder, self.spec.model.encoder.name)

    def question(self, text: Text, number: int = 0) -> Example:
        """A text, or a pair of texts, as an example whose label means nothing.

        :param number: of the text among those of the user, from 0, for error messages.
        """
        parts = text if isinstance(text, (tuple, list)) else (text,)
        if len(parts) != self.task.arity or not all(isinstance(part, str) for part in parts):
            wanted = "a text" if self.task.arity == 1 else "a pair of texts"
            raise InputError(f"text {number + 1}: the task asks for {wanted}, not for {text!r}")
        try:
            sequences = tuple(tuple(self.task.tokenize(part)) for part in parts)
        except InputError as error:
            raise InputError(f"text {number + 1}: {error}") from None
        if not all(sequences):
            raise InputError(f"text {number + 1} is empty: there is nothing to predict")
        return Example(sequences, 0)

    def _predictions(
        self, examples: Sequence[Example], done: Callable[[int], None] | None = None, *, hard: bool
    ) -> Iterator[tuple[int, Prediction]]:
        """The index and the prediction of each example, batch by batch."""
        self.expect_hard_inference(hard)
        for group in within_budget(examples, TOKEN_BUDGET):
            yield from zip(group, self._batch([examples[i] for i in group], hard), strict=True)
            if done is not None:
                done(len(group))

    def _whole(self, answer: Prediction) -> tuple[Tree, ...]:
        """The trees of a prediction; an error if there is a sequence without one."""
        trees = tuple(tree for tree in answer.trees if tree is not None)
        if len(trees) < len(answer.trees):
            raise CrvnnError(f"the encoder '{self.spec.model.encoder.name}' composes along no tree")
        return trees

    def _batch(self, examples: Sequence[Example], hard: bool) -> list[Prediction]:
        columns = list(zip(*(example.sequences for example in examples), strict=True))
        output = self.model.ask(*columns, trace=True, hard=hard)
        trees = zip(*map(trees_of, output.encodings, columns), strict=True)  # those of an example together
        chances = output.logits.float().softmax(-1).tolist()
        return [self._prediction(*each) for each in zip(examples, chances, trees, strict=True)]

    def _prediction(
        self, example: Example, chances: Sequence[float], trees: tuple[Tree | None, ...]
    ) -> Prediction:
        by_class = dict(zip(self.task.classes, chances, strict=True))
        texts = [" ".join(tokens) for tokens in example.sequences]
        known = self.model.vocabulary
        return Prediction(
            label=max(by_class, key=by_class.__getitem__),
            probabilities=by_class,
            trees=trees,
            text=texts[0] if len(texts) == 1 else (texts[0], texts[1]),
            tokens=example.sequences,
            unknown=tuple(dict.fromkeys(t for tokens in example.sequences for t in tokens if t not in known)),
        )


def load(run: Path | str, catalog: Catalog | None = None, sets: Sequence[str] = ()) -> Trained:
    """Load the model in a run directory, or one that a plug-in offers, by its name; no training data is needed.

    :param sets: ``task.key=value`` texts that change the task's settings: where its data is now, say.
    """
    catalog = catalog or read_catalog(create_plugin_manager())
    directory = find_run(run, catalog)
    spec = read_run_spec(directory, catalog, sets)
    assembly = assemble(spec, catalog, directory.read_lexicon())
    if not directory.weights.exists():
        raise CrvnnError(directory.missing(directory.weights))
    load_weights(assembly.model, saved_weights(directory.weights), directory.weights)
    return Trained(spec, assembly.task, assembly.model.eval())


def read_run_spec(directory: RunDirectory, catalog: Catalog, sets: Sequence[str] = ()) -> RunSpec:
    """The spec of a run, in its last stage; how it was trained is left out, since what trained it need not be here."""
    directory.check_spec()
    layers = []
    for data, origins, origin in read_toml(directory.spec):
        kept = copy.deepcopy(data)
        kept.pop("training", None)
        stages = kept.pop("stages", [])
        layers.append((kept, origins, origin))
        for stage in stages[-1:]:
            layers.append(({key: stage[key] for key in ("task", "model") if key in stage}, {}, origin))
    for text in sets:
        data, origin = override(text)
        if list(data) != ["task"]:
            raise SpecError(
                [origin.problem((), "only the task's settings can change, as task.directory=data")]
            )
        layers.append((data, {}, origin))
    return resolve(catalog, layers)
