"""``import crvnn``: its names, found when they are first used."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import crvnn
import crvnn_core


def test_importing_it_imports_neither_torch_nor_what_else_takes_long():
    program = (
        "import sys, crvnn; print([m for m in ('torch', 'numpy', 'pandas', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_name_that_programs_and_plug_ins_share_is_the_same_object():
    assert [
        name
        for name in {*dir(crvnn)} & {*crvnn_core.__all__}
        if getattr(crvnn, name) is not getattr(crvnn_core, name)
    ] == []


@pytest.mark.parametrize("name", crvnn.__all__)
def test_every_public_name_exists_and_is_documented(name):
    assert getattr(crvnn, name).__doc__


def test_names_are_complete_for_tab_completion():
    assert set(crvnn.__all__) < set(dir(crvnn))
    assert crvnn.__all__ == sorted(crvnn.__all__)


def test_the_version_is_the_packages():
    assert crvnn.__version__ == version("crvnn")


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'crvnn' has no attribute 'encoderr'"):
        crvnn.encoderr  # noqa: B018


def test_components_are_listed_by_slot():
    assert {"gated", "gru", "lstm"} <= crvnn.components("cell").keys()
    assert crvnn.components()["cell gru"] == crvnn.components("cell")["gru"]
    with pytest.raises(crvnn.UnknownNameError, match=r"no slot is called 'cel'\. Did you mean 'cell'\?"):
        crvnn.components("cel")
