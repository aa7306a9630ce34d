"""The formats of ``crvnn share export``: writing a model, and running what was written."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from crvnn_core.errors import CrvnnError
from crvnn_core.files import replacing
from crvnn_export.classifier import Exportable
from crvnn_export.tracing import traced

#: How far logits may be from the model's own.
TOLERANCE = 1e-3

Run = Callable[[list[Tensor]], Tensor]


@frozen
class Written:
    """A file that was written, and what it was compared on."""

    path: Path
    bytes: int
    inputs: int  # random inputs it was tried on
    difference: float  # the largest of a logit


def export(exportable: Exportable, form: str, out: Path) -> Written:
    """Write a model to a file, after comparing it with the model itself on random inputs.

    :param form: ``onnx`` or ``pt2``.
    """
    write, opened = {"onnx": (_write_onnx, _run_onnx), "pt2": (_write_pt2, _run_pt2)}[form]
    if form == "onnx":
        _expect("onnx", "onnxscript", "onnxruntime")
    program = traced(exportable)
    with replacing(out) as temporary:
        write(program, exportable, temporary)
        rows, difference = _compare(exportable, opened(temporary, exportable), out)
        size = temporary.stat().st_size
    return Written(out, size, rows, difference)


def _compare(exportable: Exportable, run: Run, out: Path) -> tuple[int, float]:
    """How many rows were compared, and the largest difference; an error if a logit differs."""
    rows, largest = 0, 0.0
    for inputs, expected in exportable.trials():
        found = run(inputs)
        if found.shape != expected.shape or not torch.allclose(found, expected, TOLERANCE, TOLERANCE):
            batch, length = inputs[0].shape
            by = (
                f"; logits differ by {(found - expected).abs().max():.2g}"
                if found.shape == expected.shape
                else ""
            )
            raise CrvnnError(
                f"{out} was not written: on {batch} random sequences of up to {length} tokens it gives another "
                f"result than torch{by}"
            )
        rows += len(found)
        largest = max(largest, (found - expected).abs().max().item())
    return rows, largest


def _write_onnx(program: Any, exportable: Exportable, path: Path) -> None:
    for name in ("onnxscript", "onnx_ir", "torch.onnx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the exporter's own calls
            onnx = torch.onnx.export(
                program, (), input_names=exportable.names, output_names=["logits"], dynamo=True, verbose=False
            )
    except torch.onnx.errors.OnnxExporterError as error:
        cause = str(error.__cause__ or error).strip().splitlines()[0]
        raise CrvnnError(f"the model cannot be written as ONNX: {cause}") from error
    assert onnx is not None
    onnx.model.doc_string = f"A model of crvnn for the task {exportable.trained.spec.task.name}."
    onnx.model.metadata_props.update(
        {
            f"crvnn.{key}": json.dumps(value, ensure_ascii=False)
            for key, value in exportable.description().items()
        }
    )
    onnx.save(path)


def _run_onnx(path: Path, exportable: Exportable) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(inputs: list[Tensor]) -> Tensor:
        fed = {name: value.numpy() for name, value in zip(exportable.names, inputs, strict=True)}
        return torch.from_numpy(session.run(["logits"], fed)[0])

    return run


def _write_pt2(program: Any, exportable: Exportable, path: Path) -> None:
    content = io.BytesIO()  # a path would have to end in .pt2
    description = json.dumps(exportable.description(), ensure_ascii=False)
    torch.export.save(program, content, extra_files={"crvnn.json": description})
    path.write_bytes(content.getvalue())


def _run_pt2(path: Path, exportable: Exportable) -> Run:
    with path.open("rb") as file:
        module = torch.export.load(io.BytesIO(file.read())).module()

    @torch.no_grad()
    def run(inputs: list[Tensor]) -> Tensor:
        found: Tensor = module(*inputs)
        return found

    return run


def _expect(*packages: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise CrvnnError(
            f"exporting to ONNX needs {' and '.join(missing)}: install 'crvnn[export]'. "
            "'--to pt2' needs nothing but torch."
        )
