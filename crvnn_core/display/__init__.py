"""How results show themselves in a notebook, and become frames of pandas.

``views.py`` makes HTML of an object, ``frames.py`` a frame; ``markup.py`` has the style. To show another
class, let it inherit from ``Shown`` and register a function for it in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


class Shown:
    """Draws itself in a notebook, and turns into a frame of pandas."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from crvnn_core.display.views import view

        return view(self)

    def to_pandas(self) -> pandas.DataFrame:
        """This as a frame of pandas, if pandas is installed."""
        from crvnn_core.display.frames import frame

        return frame(self)
