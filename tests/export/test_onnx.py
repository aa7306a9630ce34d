"""ONNX files: the same labels as torch, for batches and lengths that were not seen when they were written."""

import json

import pytest
import torch

import small
from crvnn_core import CrvnnError, Trained
from crvnn_core.inference.trained import load
from crvnn_core.training.data import within_budget
from crvnn_export import formats
from crvnn_export.classifier import Exportable
from crvnn_export.formats import export

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra 'export')")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (the extra 'export')")


@pytest.fixture(scope="module")
def letters_onnx(letters, small_catalog, tmp_path_factory):
    """Hard inference of the model that knows its letters, as ONNX."""
    path = tmp_path_factory.mktemp("onnx") / "letters.onnx"
    export(Exportable.of(letters, small_catalog, hard=True), "onnx", path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def metadata(session):
    found = session.get_modelmeta().custom_metadata_map
    return {key.removeprefix("crvnn."): json.loads(value) for key, value in found.items()}


def labels(session, sequences):
    """What a program without crvnn does: tokens to numbers, padding, and the class with the highest logit."""
    facts = metadata(session)
    number = {token: index for index, token in enumerate(facts["tokens"], facts["first_token"])}
    rows = [[number.get(token, facts["unknown"]) for token in sequence] for sequence in sequences]
    longest = max(map(len, rows))
    tokens = [row + [facts["padding"]] * (longest - len(row)) for row in rows]
    fed = {
        "tokens": torch.tensor(tokens).numpy(),
        "lengths": torch.tensor([len(row) for row in rows]).numpy(),
    }
    (logits,) = session.run(["logits"], fed)
    return [facts["classes"][index] for index in logits.argmax(-1)]


def test_hard_inference_gives_the_same_labels(letters_onnx, letters):
    sequences = [example.sequences[0] for split in ("dev", "test") for example in letters.examples(split)]
    texts = [" ".join(sequence) for sequence in sequences]
    wanted = [answer.label for answer in letters.predict(texts, hard=True)]
    assert set(wanted) == {"no", "yes"}
    assert labels(letters_onnx, sequences) == wanted
    assert [labels(letters_onnx, [sequence])[0] for sequence in sequences[:5]] == wanted[:5]


def test_long_sequences_and_large_batches_need_no_other_file(letters_onnx, letters):
    sequences = [tuple("abcdefabcdefz" * 5)[:length] for length in range(1, 65)]  # z is unknown
    wanted = [answer.label for answer in letters.predict([" ".join(s) for s in sequences], hard=True)]
    assert labels(letters_onnx, sequences) == wanted


def test_the_metadata_say_how_to_use_the_file(letters_onnx):
    facts = metadata(letters_onnx)
    assert facts["tokens"] == list("abcdef")
    assert facts["classes"] == ["no", "yes"]
    assert facts["inputs"] == ["tokens", "lengths"] == [each.name for each in letters_onnx.get_inputs()]
    assert (facts["inference"], facts["depth"], facts["task"]) == ("hard", None, "letters")
    batch, length = letters_onnx.get_inputs()[0].shape
    assert isinstance(batch, str)
    assert isinstance(length, str)


def test_a_file_that_gives_another_result_is_not_kept(letters, small_catalog, tmp_path, monkeypatch):
    class Other(Exportable):
        def expected(self, inputs):
            return super().expected(inputs) + 0.01

    monkeypatch.setattr(formats, "traced", lambda exportable: None)
    monkeypatch.setattr(formats, "_write_onnx", lambda program, exportable, path: path.write_text("graph"))
    monkeypatch.setattr(
        formats, "_run_onnx", lambda path, exportable: Exportable(letters, True, None).expected
    )
    with pytest.raises(
        CrvnnError, match=r"x\.onnx was not written: on 2 random sequences of up to 5 tokens"
    ) as error:
        export(Other(letters, True, None), "onnx", tmp_path / "x.onnx")
    assert str(error.value).endswith("it gives another result than torch; logits differ by 0.01")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"depth": 6}], ids=["soft", "depth"])
def test_soft_recursion_gives_the_same_labels(options, letters, small_catalog, tmp_path):
    exportable = Exportable.of(letters, small_catalog, **options)
    export(exportable, "onnx", tmp_path / "letters.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "letters.onnx", providers=["CPUExecutionProvider"])
    sequences = [example.sequences[0] for example in letters.examples("test")]
    wanted = [answer.label for answer in exportable.trained.predict([" ".join(s) for s in sequences])]
    assert labels(session, sequences) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("part", ["encoder=lstm", "cell=lstm"])
def test_lstms_are_written_as_onnx(part, tmp_path):
    assembly = small.variant(f"model.{part}")
    trained = Trained(assembly.spec, assembly.task, assembly.model.eval())
    given = Exportable.of(trained, assembly.catalog, hard=part == "cell=lstm")
    assert export(given, "onnx", tmp_path / "lstm.onnx").difference < 1e-3  # from torch's own logits


@pytest.mark.slow
def test_pairs_have_four_inputs(pairs, small_catalog, tmp_path):
    written = export(Exportable.of(pairs, small_catalog), "onnx", tmp_path / "pairs.onnx")
    session = onnxruntime.InferenceSession(written.path, providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["tokens", "lengths", "tokens_2", "lengths_2"]
    assert written.difference < 1e-4


@pytest.mark.slow
def test_the_shipped_listops_model_gives_the_same_labels_on_a_thousand_rows(catalog, tmp_path):
    listops = load("listops", catalog)
    export(Exportable.of(listops, catalog, hard=True), "onnx", tmp_path / "listops.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "listops.onnx", providers=["CPUExecutionProvider"])
    examples = list(listops.examples("test"))[:1000]
    sequences = [example.sequences[0] for example in examples]
    found = {}
    for group in within_budget(examples, 8192):
        found |= dict(zip(group, labels(session, [sequences[i] for i in group]), strict=True))
    wanted = [answer.label for answer in listops.predict([" ".join(s) for s in sequences], hard=True)]
    assert len(wanted) == 1000
    assert [found[i] for i in range(1000)] == wanted
    right = sum(
        listops.task.classes[example.label] == label for example, label in zip(examples, wanted, strict=True)
    )
    assert right > 950
