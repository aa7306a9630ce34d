"""Every spec that comes with crvnn assembles and takes a training step, on a few rows in the published formats."""

import json
import re
import warnings
import zipfile
from itertools import islice
from pathlib import Path

import pytest

import crvnn_tasks
from crvnn_core.errors import CrvnnWarning
from crvnn_core.spec import read_spec, spec_dict
from crvnn_core.spec.assembly import assemble
from crvnn_core.training.trainer import train
from crvnn_tasks.listops.language import evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions

SPECS = {spec.name: spec for spec in crvnn_tasks.crvnn_specs()}
WORDS = [
    "a",
    "the",
    "film",
    "is",
    "good",
    "bad",
    "dull",
    "fine",
    "very",
    "not",
    ".",
    "man",
    "sleeps",
    "person",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The published files of every task, with three rows each."""
    home = tmp_path_factory.mktemp("home") / "data"
    home.mkdir()
    for name in ("listops", "logic", "sst", "snli", "mnli", "glove"):
        (home / name).mkdir()
    found = islice(
        expressions(Recipe(max_tokens=9), "rows"), 1010
    )  # more than the published development rows
    rows = [f"{evaluate(tokens)}\t{' '.join(tokens)}\n" for tokens in found]
    (home / "listops" / "train_d20s.tsv").write_text("".join(rows))
    (home / "listops" / "test_d20s.tsv").write_text("".join(rows[:3]))
    for number in range(13):
        (home / "logic" / f"train{number}").write_text(
            "".join(f"#\t( not {v} )\t( {v} ( and {w} ) )\n" for v in "abcdef" for w in "abcdef")
        )
    for split in ("train", "dev", "test"):
        (home / "sst" / f"{split}.txt").write_text(
            f"(3 (2 a) (4 fine))\n(1 (1 {split}) (2 film))\n(0 dull)\n"
        )
        lines = [
            {"gold_label": label, "sentence1": f"A man sleeps {split}.", "sentence2": "A person is good."}
            for label in ("entailment", "neutral", "contradiction")
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (home / "snli" / f"snli_1.0_{split}.jsonl").write_text(text)
        if split == "train":
            (home / "mnli" / "multinli_1.0_train.jsonl").write_text(text)
        else:
            kind = {"dev": "matched", "test": "mismatched"}[split]
            (home / "mnli" / f"multinli_1.0_dev_{kind}.jsonl").write_text(text)
    for size, name in ((300, "glove.840B.300d.zip"), (100, "glove.6B.100d.txt")):
        vectors = [
            f"{word} " + " ".join(f"{(i * len(word)) % 7 / 7:.3f}" for i in range(size)) for word in WORDS
        ]
        text = "\n".join(vectors) + "\n"
        if name.endswith(".zip"):
            with zipfile.ZipFile(home / "glove" / name, "w") as archive:
                archive.writestr("glove.840B.300d.txt", text)
        else:
            (home / "glove" / name).write_text(text)
    return home


def test_there_are_specs_for_every_task_of_the_paper_and_every_ablation():
    for task in ("listops", "logic", "sst2", "sst5", "snli", "mnli"):
        assert task in SPECS
        assert f"{task}-laptop" in SPECS or f"{task}-soft" in SPECS
    for row in ("sigmoid", "no-transition", "no-structure", "no-halt-penalty", "relu", "lstm", "balanced"):
        for task in ("listops", "logic"):
            assert f"ablation-{task}-{row}" in SPECS
    assert "ablation-mnli-balanced" in SPECS
    assert "from-file" in SPECS


@pytest.mark.parametrize("task", ["listops", "logic"])
def test_the_relu_ablation_changes_the_cell_alone(task, catalog):
    plain, changed = (spec_dict(read_spec(catalog, name)) for name in (task, f"ablation-{task}-relu"))
    assert changed["model"]["cell"].pop("activation") == "relu"
    assert plain["model"]["cell"].pop("activation") == "gelu"
    assert changed == plain


def test_every_file_is_offered_by_a_name_and_every_name_has_a_file(catalog):
    folder = Path(crvnn_tasks.__file__).parent / "specs"
    assert sorted(spec.path for spec in SPECS.values()) == sorted(map(str, folder.rglob("*.toml")))
    assert SPECS.keys() <= catalog.specs.keys()


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_assembles_and_takes_a_training_step(name, catalog, data, monkeypatch):
    monkeypatch.chdir(data.parent)
    plain = read_spec(catalog, name)
    stages = spec_dict(plain).get("stages", [])
    quick = ["training.epochs=0", "training.batch=4", "training.observers=[]", "model.width=16"]
    quick += [f"stages.{number}.training.steps=1" for number in range(1, len(stages) + 1)] or [
        "training.steps=1"
    ]
    if plain.task.name == "listops" and not plain.task.params["directory"]:
        quick += ["task.rows=8", "task.held_out=4", *([] if stages else ["task.growing=[12]"])]
        quick += [
            f"stages.{number}.task.{key}={few}"
            for number, stage in enumerate(stages, 1)
            for key, few in {"rows": 8, "held_out": 4}.items()
            if key in stage.get("task", {})
        ]
    if name == "snli-search":  # which reads a part of the file, made as the spec says
        quick.append("task.train=snli_1.0_train.jsonl")
    with warnings.catch_warnings():  # what a stage has of its own is changed as well
        warnings.simplefilter("ignore", CrvnnWarning)
        spec = read_spec(catalog, name, sets=quick)
    assembly = assemble(spec, catalog)
    before = {name: p.detach().clone() for name, p in assembly.model.named_parameters()}
    outcome = train(assembly, evaluate_splits=[])
    assert outcome.step == (len(stages) or 1)
    changed = [name for name, p in assembly.model.named_parameters() if not p.equal(before[name])]
    assert any(name.startswith("encoder.cell") for name in changed)
    assert any(name.startswith("head") for name in changed)


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_names_the_data_that_it_reads(name, catalog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = read_spec(catalog, name)
    paths = [*spec.task.params.values(), *spec.model.embedding.params.values()]
    here = f"{tmp_path}/"
    read = {path.removeprefix(here) for path in paths if isinstance(path, str) and path.startswith(here)}
    said = {text.partition(" ")[0] for text in SPECS[name].data.split(", ") if text}
    assert {"/".join(path.split("/")[:2]) for path in read} == said


@pytest.mark.parametrize(
    ("task", "width", "dropouts"),
    [
        ("listops", 128, (0.3, 0.2, 0.1)),
        ("logic", 200, (0.1, 0.3, 0.1)),
        ("sst2", 300, (0.3, 0.2, 0.4)),
        ("sst5", 300, (0.3, 0.2, 0.4)),
        ("snli", 300, (0.4, 0.1, 0.1)),
        ("mnli", 300, (0.4, 0.1, 0.1)),
    ],
)
def test_the_papers_hyperparameters_are_those_of_its_table(task, width, dropouts, catalog):
    spec = read_spec(catalog, task)
    model = spec.model
    assert model.width == width
    assert (model.input_dropout, model.output_dropout, model.cell.params["dropout"]) == dropouts
    assert spec.training.batch == 128
    optimizer = spec.training.optimizer
    assert optimizer.name == "ranger"
    assert optimizer.params == {"learning_rate": 1e-3, "weight_decay": 1e-2, "k": 5, "alpha": 0.8}
    assert model.encoder.params["halt_penalty"] == 0.01
    assert model.scorer.params["window"] == 5
    assert model.scorer.params["transition"] == 64


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_spec_says_what_it_is_for_and_points_to_no_page_that_a_wheel_lacks(spec):
    text = Path(spec.path).read_text(encoding="utf-8")
    assert re.match(r"# \w+", text)
    assert "docs/" not in text
    assert spec.summary
    assert spec.duration
