"""The notebooks of the documentation run, and show what is stored in them."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

import nbformat

DOCS = Path(__file__).parent.parent / "docs"


def maker():
    spec = importlib.util.spec_from_file_location("make_notebooks", DOCS / "make_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NOTEBOOKS = sorted(DOCS.glob("notebooks/*.ipynb"))


def outputs(notebook):
    """What kind of output each cell has, and the text of those that print a text."""
    return [
        [sorted(output.get("data", {"text": ""})) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["first-look", "your-own-data"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_cells_show_what_is_stored(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    stored = nbformat.read(path, as_version=4)
    found = maker().executed(path, tmp_path)
    assert outputs(found) == outputs(stored)
    assert [cell.source for cell in found.cells] == [cell.source for cell in stored.cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_stored_is_the_same_on_every_machine(path):
    text = path.read_text(encoding="utf-8")
    assert 'execution_count": null' in text
    assert '"stderr"' not in text
    assert "Traceback" not in text
    assert str(Path.home()) not in text
