"""How results look outside of a program: as HTML in a notebook's cell, and as a pandas DataFrame.

A result has ``_repr_html_``, built from the pieces of ``crvnn_core.display.notebook``, and ``to_pandas``, built with
``make_frame``. The engine's trace gets its HTML from ``view``, for which
``crvnn_core.display.traces`` registers it: the engine imports nothing from above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from crvnn_core.errors import CrvnnError

if TYPE_CHECKING:
    import pandas


@singledispatch
def view(shown: object) -> str | None:
    """An object as HTML; ``None``, which leaves it to its ``repr``, where nothing draws it."""
    return None


def make_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """A pandas DataFrame of rows; an error that says how to install pandas if it is not there."""
    try:
        import pandas
    except ImportError:
        raise CrvnnError(
            "to_pandas needs pandas, which is not installed: pip install 'crvnn[pandas]'"
        ) from None
    return pandas.DataFrame(list(rows), columns=None if columns is None else list(columns))
