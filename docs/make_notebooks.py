"""Run the notebooks in docs/notebooks/ and store what their cells show. ``make notebooks`` runs this.

Only what a reader wants to see is stored: no progress, no times, no numbers of cells. Everything random has a seed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent / "notebooks"


def notebooks() -> list[Path]:
    """The paths of all notebooks."""
    return sorted(HERE.glob("*.ipynb"))


def executed(path: Path, directory: Path) -> Any:
    """A notebook after its cells were run in a directory, with stable outputs; an error in a cell is raised."""
    os.environ["OMP_NUM_THREADS"] = "1"  # of the kernel, which inherits the environment
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(directory)}}
    )
    client.execute()
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [_stable(output) for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"language_info": {"name": "python"}}
    return notebook


def _stable(output: Any) -> Any:
    if output.output_type == "execute_result":
        output.execution_count = None
    output.pop("transient", None)
    if {"text/html", "image/svg+xml"} & output.get("data", {}).keys():
        output.data.pop("text/plain", None)  # what nobody sees, with numbers of every size
    return output


def write() -> None:
    """Run all notebooks and write them back."""
    for path in notebooks():
        with tempfile.TemporaryDirectory() as directory:
            nbformat.write(executed(path, Path(directory)), path)
        print(path.name, file=sys.stderr)


if __name__ == "__main__":
    write()
