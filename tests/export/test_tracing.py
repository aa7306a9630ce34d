"""What can be exported, and what is said about what cannot: the part, and the reason."""

import json
import zipfile

import pytest
import torch
from click.testing import CliRunner

import small
from crvnn_core import Cell, CrvnnError, Decision, Encoder, Encoding, Trained
from crvnn_core.cli import main
from crvnn_export import formats
from crvnn_export.classifier import Exportable
from crvnn_export.formats import export
from crvnn_export.tracing import traced
from engines import Converged, loop_in_python


def model(*sets, **components):
    """An untrained model, as it would be loaded, and its catalog."""
    assembly = small.variant(*sets, **components)
    return Trained(assembly.spec, assembly.task, assembly.model.eval()), assembly.catalog


def exportable(*sets, hard=False, depth=None, **components):
    return Exportable.of(*model(*sets, **components), hard=hard, depth=depth)


def test_a_program_of_torch_export_gives_the_same_logits(letters, small_catalog, tmp_path):
    written = export(Exportable.of(letters, small_catalog, depth=2), "pt2", tmp_path / "letters.pt2")
    assert written.difference < 1e-4
    program = torch.export.load(tmp_path / "letters.pt2")
    assert "while_loop" not in str(program.graph)
    tokens = letters.model.vocabulary.encode([list("abc"), list("fedcba"), ["b"]])
    found = program.module()(tokens.ids, tokens.mask.sum(1)).softmax(-1)
    limited = Exportable.of(letters, small_catalog, depth=2).trained.model
    torch.testing.assert_close(found, limited.probabilities([list("abc"), list("fedcba"), ["b"]]))
    with zipfile.ZipFile(tmp_path / "letters.pt2") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("crvnn.json")]
        assert json.loads(archive.read(name))["classes"] == ["no", "yes"]


SLOW = ("transformer", "universal-transformer", "ndr", "on-lstm")


@pytest.mark.parametrize("encoder", ["lstm", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_encoders_without_a_recursion_are_exported(encoder, tmp_path):
    chunk = ["model.encoder.chunk=2"] if encoder == "on-lstm" else []
    written = export(exportable(f"model.encoder={encoder}", *chunk), "pt2", tmp_path / "model.pt2")
    assert written.difference < 1e-4


@pytest.mark.parametrize(
    ("module", "sets"),
    [
        ("fixed", ["model.encoder=left-to-right"]),
        ("sequences.lstm", ["model.encoder=lstm", "model.encoder.layers=2"]),
        ("sequences.lstm", ["model.encoder=on-lstm", "model.encoder.layers=2", "model.encoder.chunk=2"]),
    ],
)
def test_a_loop_over_positions_gives_the_same_logits(module, sets, monkeypatch):
    monkeypatch.setattr(f"crvnn_parts.encoders.{module}.while_loop", loop_in_python)
    given = exportable(*sets)
    for inputs, wanted in given.trials():
        torch.testing.assert_close(given.module()(*inputs), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sets", [["model.encoder=left-to-right"], ["task=pairs"], ["model.retriever=windowed"]]
)
def test_loops_are_part_of_the_program(sets, tmp_path):
    export(exportable(*sets), "pt2", tmp_path / "model.pt2")
    assert "while_loop" in str(torch.export.load(tmp_path / "model.pt2").graph)


class SinceTheLeaves(Converged):
    """Its state never changes: a graph must not mistake that for an output that is an input."""

    def forward(self, exists, vectors, step, leaves):
        return (self.initial_state(exists, vectors) - leaves).norm(dim=1) > self.tolerance, leaves


@pytest.mark.slow
@pytest.mark.parametrize(
    ("halting", "tolerance", "options"),
    [(Converged, 0.5, {"depth": 6}), (Converged, 0.5, {"hard": True}), (SinceTheLeaves, 4, {})],
)
def test_the_state_of_a_halting_is_carried_in_the_graph(halting, tolerance, options, tmp_path):
    given, unhalted = (
        exportable(f"model.halting.tolerance={value}", halting=halting, **options)
        for value in (tolerance, -1)
    )
    inputs = given.inputs(8, 11)
    assert (given.expected(inputs) - unhalted.expected(inputs)).abs().max() > 1e-3  # halting early matters
    assert export(given, "pt2", tmp_path / "model.pt2").difference < 1e-4


class Averaging(Encoder):
    """A third party's encoder in plain operations, soft or hard."""

    hard_inference = True

    def forward(self, inputs, mask, *, trace=False, hard=False):
        weights = mask.to(inputs.dtype)
        if hard:
            weights = weights * (torch.arange(mask.shape[1]) == 0)
        vector = (inputs * weights.unsqueeze(-1)).sum(1) / weights.sum(1, keepdim=True)
        return Encoding(vector, vector.new_zeros(vector.shape[0]), mask.sum(1))


@pytest.mark.parametrize("hard", [False, True])
def test_a_third_partys_encoder_in_plain_operations_is_exported_as_it_is(hard, tmp_path):
    written = export(exportable(encoder=Averaging, hard=hard), "pt2", tmp_path / "model.pt2")
    assert written.difference < 1e-5


# What cannot be exported.


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("balanced", "its tree is made in Python from the length of each sequence"),
        ("rl-spinn", "its stack is made in Python from the length of each sequence"),
        ("ordered-memory", "it reads the lengths of sequences from the data"),
    ],
)
def test_an_encoder_that_needs_the_data_is_named_with_the_reason(encoder, message, tmp_path):
    with pytest.raises(CrvnnError, match=f"the encoder '{encoder}' cannot be exported: {message}"):
        export(exportable(f"model.encoder={encoder}"), "pt2", tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []


class Counting(Decision):
    """Uses the number of sequences as a number of Python."""

    def forward(self, scores, near, eligible, exists):
        return torch.sigmoid(scores / len(scores)) * eligible


class Peeking(Cell):
    """Looks at a value."""

    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        return left + right if left.sum().item() > 0 else left - right


def test_a_part_that_fixes_a_size_is_named_with_the_place():
    with pytest.raises(CrvnnError) as error:
        traced(exportable(decision=Counting, depth=1))
    said = str(error.value)
    assert said.startswith(
        "the decision 'mine' cannot be exported for all lengths: it uses the number of positions or"
    )
    assert "test_tracing.py:" in said
    assert said.endswith("len(x) fixes that number; x.shape[0] need not.")


@pytest.mark.parametrize(
    "options", [{"depth": 1}, pytest.param({"hard": True}, marks=pytest.mark.slow)], ids=str
)
def test_a_part_that_looks_at_values_is_named(options):
    with pytest.raises(CrvnnError, match="the cell 'mine' cannot be exported: ") as error:
        traced(exportable(cell=Peeking, **options))
    assert "data-dependent" in str(error.value)


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        ("crvnn", {"hard": True, "depth": 3}, "takes up to n - 1 steps, so its depth cannot be fixed"),
        ("lstm", {"hard": True}, "the encoder 'lstm' offers no hard inference"),
        ("lstm", {"depth": 3}, "the encoder 'lstm' has no depth that could be fixed; leave out '--depth'"),
    ],
)
def test_what_an_encoder_does_not_offer_is_refused(encoder, options, message):
    with pytest.raises(CrvnnError, match=message):
        exportable(f"model.encoder={encoder}", **options)


def test_without_the_packages_it_is_said_what_to_install(letters, small_catalog, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(
        CrvnnError, match=r"exporting to ONNX needs onnxscript: install 'crvnn\[export\]'\. '--to pt2'"
    ):
        export(Exportable.of(letters, small_catalog), "onnx", tmp_path / "x.onnx")


# The command.


def test_the_command_says_what_it_wrote(letters_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "traced", lambda exportable: None)
    monkeypatch.setattr(formats, "_write_pt2", lambda program, exportable, path: path.write_text("graph"))
    monkeypatch.setattr(formats, "_run_pt2", lambda path, exportable: exportable.expected)
    command = ["--plugin", small.__file__, "share", "export", str(letters_run), "--to", "pt2"]
    done = CliRunner().invoke(main, [*command, "--hard"])
    assert done.exit_code == 0, done.output
    assert done.output == (
        "run.pt2: 5 bytes, inputs tokens, lengths, output logits\n"
        "Agrees with torch on 17 random sequences; logits differ by at most 0.\n"
    )
    done = CliRunner().invoke(main, [*command, "--depth", "3", "--out", "a.pt2", "--json"])
    facts = {"file": "a.pt2", "bytes": 5, "compared": 17, "largest_difference": 0.0}
    assert json.loads(done.stdout) == facts | {"inputs": ["tokens", "lengths"]}
