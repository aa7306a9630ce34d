"""A trained model, loaded from its run directory: predictions, scores and trees."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from attrs import evolve, field, frozen
from torch import Tensor

from crvnn_core.display.progress import shown
from crvnn_core.documents import read_toml
from crvnn_core.errors import CrvnnError, InputError, nearest
from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.host.runs import find_run, naming_missing_files
from crvnn_core.inference.predictions import Prediction, Predictions, Text, as_text, listed, tokenized
from crvnn_core.interfaces import Example, Task
from crvnn_core.model.model import Model, expect_hard_inference
from crvnn_core.runs.directory import RunDirectory, identity, keep_plugin_files, kept_plugin_files
from crvnn_core.runs.results import Result, Results
from crvnn_core.runs.seeds import best_seed, holds_seeds, trained_seeds
from crvnn_core.spec import RunSpec, spec_dict, write_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.spec.resolve import read_resolved
from crvnn_core.training import checkpoint
from crvnn_core.training.data import TOKEN_BUDGET, checked, grouped, split_examples
from crvnn_core.training.evaluation import evaluate
from crvnn_core.training.run import (
    environment,
    load_best_weights,
    read_results,
    vocabulary_of,
    write_results,
)
from crvnn_core.trees import Tree, trees_of
from crvnn_core.trees.extraction import Extraction

if TYPE_CHECKING:
    import pandas

    from crvnn_core.inference.inspection import Inspection


@frozen(eq=False, repr=False)
class Trained:
    """A trained model with its task, its spec and its results."""

    spec: RunSpec
    task: Task
    model: Model
    #: Of the best weights, by split, as measured when training ended; empty if they are not known.
    results: Results = field(factory=Results, converter=Results)
    #: The run directory that it was loaded from.
    directory: RunDirectory | None = None
    #: The packages that its components come from, with their versions.
    packages: tuple[str, ...] = ()
    #: How trees are extracted from traces, as ``tree_of`` takes it; ``attrs.evolve`` gives a model with another.
    extraction: Extraction = "cumulative"

    def __repr__(self) -> str:
        spec, parameters = self.spec, sum(p.numel() for p in self.model.parameters())
        parts = f"encoder '{spec.model.encoder.name}', width {spec.model.width}, {parameters:,} parameters"
        return f"Trained(task '{spec.task.name}', {parts})"

    def _repr_html_(self) -> str:
        from crvnn_core.display.notebook import line, page, table
        from crvnn_core.inference.cost import part_of

        encoder = self.model.encoder
        slots = ("encoder", "retriever", "scorer", "decision", "cell", "halting", "embedding")
        own = [
            slot for slot in slots if slot in ("encoder", "embedding") or part_of(encoder, slot) is not None
        ]
        components = [(slot, getattr(self.spec.model, slot).name) for slot in own]
        scores = [self.results.table()] if self.results else []
        return page(line(self), table(("slot", "component"), components), *scores)

    def to_pandas(self) -> pandas.DataFrame:
        """Its results as a pandas DataFrame."""
        return self.results.to_pandas()

    def to(self, device: torch.device | str) -> Trained:
        """Itself, with the model moved to a device: ``cuda``, ``mps``, ``cpu``."""
        self.model.to(device)
        return self

    def save(self, directory: Path | str) -> Path:
        """Write a run directory that ``load`` reads; what training needs to be resumed is not in it.

        Of a model that was loaded, the records of its training are copied.
        """
        path, before = Path(directory), self.directory
        run = RunDirectory(path)
        if run.spec.exists() or run.seeds.exists():
            raise CrvnnError(f"{path} holds a run already; choose another directory")
        path.mkdir(parents=True, exist_ok=True)
        vocabulary = vocabulary_of(self.model, self.task)
        run.write_json(run.vocabulary, vocabulary)
        weights = {name: tensor.cpu() for name, tensor in self.model.state_dict().items()}
        spec = spec_dict(self.spec) if before is None else read_toml(before.spec)
        checkpoint.save(run.weights, {"model": weights, "identity": identity(vocabulary, spec)})
        if before is not None:
            keep_plugin_files(run, kept_plugin_files(before))
            for name in ("environment.json", "metrics.jsonl", "results.json", "MODEL.md", "spec.toml"):
                if (before.path / name).exists():
                    shutil.copyfile(before.path / name, path / name)
            return path
        run.write_json(run.environment, environment(self.packages))
        if self.results:
            development = self.task.development if self.task.development in self.results else ""
            write_results(run, self.results, development, {"seed": self.spec.seed})
        write_spec(self.spec, run.spec)  # last, because a directory with a spec is a run
        return path

    def predict(
        self,
        texts: Iterable[Text | Example],
        done: Callable[[int], None] | None = None,
        *,
        hard: bool = False,
        batch_size: int | None = None,
        progress: bool = False,
    ) -> Predictions:
        """Label, probabilities and trees for each text; for a task on pairs, for each pair of texts.

        :param texts: or examples, whose labels do not matter.
        :param done: called after each batch with the number of its texts.
        :param hard: hard inference: binary decisions, composition along one tree.
        :param batch_size: texts of a forward pass; by default as many as have 2,048 tokens together.
        :param progress: show how many texts are done.
        """
        self.expect_hard_inference(hard)
        texts = listed(texts, "predict")
        examples = [self.example(text, number) for number, text in enumerate(texts)]
        found: dict[int, Prediction] = {}
        for group in _batches(examples, batch_size, "predicting", progress, done):
            columns = list(zip(*(examples[i].sequences for i in group), strict=True))
            output = self.model.predict(*columns, trace=True, hard=hard)
            extracted = [
                trees_of(encoding, column, self.extraction)
                for encoding, column in zip(output.encodings, columns, strict=True)
            ]
            chances = output.logits.float().softmax(-1).tolist()
            for i, *facts in zip(group, chances, zip(*extracted, strict=True), strict=True):
                found[i] = self._prediction(texts[i], examples[i], *facts)
        return Predictions(found[i] for i in range(len(texts)))

    def probabilities(
        self,
        texts: Iterable[Text],
        *,
        hard: bool = False,
        batch_size: int | None = None,
        progress: bool = False,
    ) -> Tensor:
        """The probabilities [texts, classes] of the task's classes, without the trees that ``predict`` makes.

        The parameters are those of ``predict``.
        """
        self.expect_hard_inference(hard)
        examples = [self.example(text, number) for number, text in enumerate(listed(texts, "probabilities"))]
        found = torch.zeros(len(examples), len(self.task.classes))
        for group in _batches(examples, batch_size, "predicting", progress):
            columns = zip(*(examples[i].sequences for i in group), strict=True)
            found[group] = self.model.predict(*columns, hard=hard).logits.float().softmax(-1).cpu()
        return found

    def encode(
        self,
        texts: Iterable[Text],
        *,
        hard: bool = False,
        batch_size: int | None = None,
        progress: bool = False,
    ) -> Tensor:
        """The sentence vectors [texts, d] of texts, in their order; of pairs of texts [pairs, 2, d].

        The tensor is on the model's device and has no gradient. The parameters are those of ``predict``.
        """
        self.expect_hard_inference(hard)
        rows = [tokenized(text, self.task, number) for number, text in enumerate(listed(texts, "encode"))]
        if len({len(row) for row in rows}) > 1:
            raise InputError("encode takes texts, or pairs of texts, not both at once")
        arity = len(rows[0]) if rows else 1
        examples = [Example((tokens,), 0) for row in rows for tokens in row]
        vectors = self.model.embed.weight.new_zeros(len(examples), self.model.encoder.width)
        for group in _batches(examples, batch_size, "encoding", progress):
            vectors[group] = self.model.encode([examples[i].sequences[0] for i in group], hard=hard)
        return vectors if arity == 1 else vectors.view(len(rows), arity, -1)

    def inspect(self, text: Text, *, hard: bool = False, weights: bool = False) -> Inspection:
        """The prediction for one text, or one pair of texts, with every step of the encoder.

        :param hard: hard inference: binary decisions, composition along one tree.
        :param weights: keep the weights of neighbours as well, two [n, n] matrices a step, where the encoder has them.
        """
        from crvnn_core.inference.inspection import inspect

        return inspect(self, text, hard=hard, weights=weights)

    def examples(self, split: str = "", path: Path | str = "", seed: int = 0) -> list[Example]:
        """The examples of a split of its task, or of a file of the form that its task reads.

        :param seed: of what is random about a split.
        """
        if path:
            return list(checked(self.task, self.task.read(Path(path)), str(path)))
        return list(split_examples(self.task, split, seed))

    def evaluate(
        self,
        examples: Sequence[Example] | Sequence[Text],
        done: Callable[[int], None] | None = None,
        *,
        labels: Iterable[Any] | None = None,
        hard: bool = False,
        progress: bool = False,
    ) -> Result:
        """Accuracy, loss and steps on examples, or on texts and their labels; in total and by the task's groups.

        :param done: called after each batch with the number of its examples.
        :param labels: of texts; those of examples are known.
        :param hard: hard inference: binary decisions, composition along one tree.
        :param progress: show how many examples are done.
        """
        self.expect_hard_inference(hard)
        found = examples if labels is None else self._labelled(examples, labels)
        with shown(progress, len(found), "evaluating", done) as count:
            return evaluate(self.model, self.task, found, tokens=TOKEN_BUDGET, done=count, hard=hard)  # type: ignore[arg-type]

    def trees(
        self, examples: Sequence[Example], done: Callable[[int], None] | None = None, *, hard: bool = False
    ) -> list[tuple[Tree, ...]]:
        """The tree of each sequence of the examples; an error if the encoder composes along none.

        :param done: called after each batch with the number of its examples.
        :param hard: hard inference: binary decisions, composition along one tree.
        """
        return [self.whole_trees(answer) for answer in self.predict(examples, done, hard=hard)]

    def unknown(self, tokens: Sequence[str]) -> frozenset[int]:
        """The positions of tokens that the model has no vector for."""
        return frozenset(place for place, token in enumerate(tokens) if token not in self.model.vocabulary)

    def expect_hard_inference(self, hard: bool = True) -> None:
        """An error that names the encoder, if ``hard`` inference is asked of one that does not offer it."""
        if hard:
            expect_hard_inference(self.model.encoder, self.spec.model.encoder.name)

    def example(self, text: Text | Example, number: int = 0) -> Example:
        """A text, or a pair of texts, as an example whose label means nothing; an example as it is.

        :param number: of the text among those of the user, from 0, for error messages.
        """
        if isinstance(text, Example):
            return text
        return Example(tokenized(text, self.task, number, (self.task.arity,)), 0)

    def _labelled(self, texts: Sequence[Any], labels: Iterable[Any]) -> list[Example]:
        """Texts (or pairs of them) and their labels as examples."""
        numbers = {label: number for number, label in enumerate(self.task.classes)}
        given = [str(label) for label in labels]
        if len(given) != len(texts):
            raise InputError(f"there are {len(texts):,} texts and {len(given):,} labels")
        for label in given:
            if label not in numbers:
                known = f"{nearest(label, numbers)} There are {', '.join(numbers)}."
                raise InputError(f"no class is called '{label}'.{known}")
        pairs = enumerate(zip(texts, given, strict=True))
        return [evolve(self.example(text, place), label=numbers[label]) for place, (text, label) in pairs]

    def gold_label(self, sequences: tuple[tuple[str, ...], ...]) -> str | None:
        """The name of the true class of tokenized texts, if the task can tell it from them."""
        label = self.task.gold_label(sequences)
        return None if label is None else str(self.task.classes[label])

    def whole_trees(self, answer: Prediction) -> tuple[Tree, ...]:
        """The trees of a prediction; an error if there is a sequence without one."""
        trees = tuple(tree for tree in answer.trees if tree is not None)
        if len(trees) < len(answer.trees):
            raise CrvnnError(f"the encoder '{self.spec.model.encoder.name}' composes along no tree")
        return trees

    def _prediction(
        self, text: Text | Example, example: Example, chances: Sequence[float], trees: tuple[Tree | None, ...]
    ) -> Prediction:
        by_class = dict(zip(self.task.classes, chances, strict=True))
        known, sequences = self.model.vocabulary, example.sequences
        if isinstance(text, Example):
            text = as_text([" ".join(tokens) for tokens in sequences])
        return Prediction(
            label=max(by_class, key=by_class.__getitem__),
            probabilities=by_class,
            trees=trees,
            text=text,
            tokens=sequences,
            unknown=tuple(dict.fromkeys(t for tokens in sequences for t in tokens if t not in known)),
        )


def _batches(
    examples: Sequence[Example],
    size: int | None,
    title: str,
    progress: bool,
    done: Callable[[int], None] | None = None,
) -> Iterator[Sequence[int]]:
    """The indices of each batch; ``done`` gets its size, which is shown as well if ``progress`` is wanted."""
    with shown(progress, len(examples), title, done) as count:
        for group in grouped(examples, size):
            yield group
            count(len(group))


def load(run: Path | str, catalog: Catalog | None = None, sets: Sequence[str] = ()) -> Trained:
    """Load the model in a run directory, or one that a plug-in offers, by its name; no training data is needed.

    Of a directory with several seeds it is the model that is best on the development split; ``directory`` says which.

    :param sets: ``task.key=value`` texts that change the task's settings: where its data is now, say.
    """
    catalog = catalog or read_catalog(create_plugin_manager())
    directory = find_run(run, catalog)
    return _load(best_seed(directory)[0] if holds_seeds(directory) else directory, catalog, sets)


def load_seeds(
    run: Path | str, catalog: Catalog | None = None, sets: Sequence[str] = ()
) -> dict[int | None, Trained]:
    """Load the models of a directory with several seeds, by seed; of any other run, its model under ``None``.

    Only seeds that were trained to the end are loaded, unless there is none.

    :param sets: ``task.key=value`` texts that change the task's settings.
    """
    catalog = catalog or read_catalog(create_plugin_manager())
    directory = find_run(run, catalog)
    members = trained_seeds(directory) if holds_seeds(directory) else {None: directory}
    return {seed: _load(member, catalog, sets) for seed, member in members.items()}


def _load(directory: RunDirectory, catalog: Catalog, sets: Sequence[str]) -> Trained:
    directory.check_spec()
    with naming_missing_files(directory, catalog):
        spec = read_resolved(catalog, directory.spec, sets)
    assembly = assemble(spec, catalog, directory.read_vocabulary())
    load_best_weights(assembly.model, directory)
    packages = sorted({offer.source.recorded for offer in assembly.offers.values()})
    results = read_results(directory)
    return Trained(spec, assembly.task, assembly.model.eval(), results, directory, tuple(packages))
