"""Depth against length."""

import re

from crvnn_core.runs.records import Variant
from crvnn_report.models import Prediction, VariantModel
from crvnn_report.sections.depth import depth_charts


def test_depth_is_drawn_on_the_same_axes_for_all():
    models = [
        VariantModel(Variant("a", ()), predictions=(Prediction(4, 3, "x", "x"), Prediction(8, 5, "x", "x"))),
        VariantModel(
            Variant("b", ()), predictions=(Prediction(40, 30, "x", "x"), Prediction(1, 0, "x", "x"))
        ),
        VariantModel(Variant("c", ())),
    ]
    found = depth_charts(models)
    assert list(found) == [0, 1]
    ticks = [re.findall(r'<text class="tick[^>]*>[^<]*</text>', drawing) for drawing in found.values()]
    assert ticks[0] == ticks[1]
    assert depth_charts([VariantModel(Variant("a", ()), predictions=(Prediction(1, 0, "x", "x"),))]) == {}
