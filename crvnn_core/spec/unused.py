"""Parts of a model that a spec sets although its encoder has none of their kind."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from crvnn_core.errors import FAILURES, CrvnnWarning, Origin, Problem
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME
from crvnn_core.spec.layers import Layer, Layered


def unused_parts(
    catalog: Catalog, layered: Layered, layers: Sequence[Layer], preset: tuple[Any, Origin] | None = None
) -> list[Problem]:
    """A problem for each part that is set where the encoder is named, or above, and that the encoder does not take.

    What a layer below the encoder's sets without effect is a warning: whoever names another encoder for a spec means
    to do without. So is a preset of the command line that has no effect at all.

    :param layers: all layers that were laid, in their order.
    :param preset: the preset that was asked for by name, and where.
    """
    model = layered.data.get("model")
    encoder, *inside = _names(model.get("encoder") if isinstance(model, dict) else None)
    taken: set[str] = set()
    for name in (encoder, *inside):
        asked = _taken(catalog, name)
        if asked is None:
            return []
        taken |= asked
    ranks: dict[str, int] = {}
    for rank, (_, _, origin) in enumerate(layers, 1):
        ranks.setdefault(origin.label, rank)  # a stage has the label of the file that it stands in
    named = _rank(layered.origin(("model", "encoder", "name")), ranks)
    problems = []
    for slot in ENCODER_PARTS:
        place = layered.origin(("model", slot))
        if slot in taken or not _is_the_users(place):
            continue
        what = f"this has no effect: the encoder '{encoder}' has no {slot}"
        if _rank(place, ranks) < named:
            warnings.warn(CrvnnWarning(f"{place.where(('model', slot))}: {what}"), stacklevel=2)
        else:
            others = ", ".join(_takers(catalog, slot))
            problems.append(place.problem(("model", slot), what, f"Remove it. Encoders with one: {others}."))
    if (
        named
        and not taken
        and preset is not None
        and preset[1].is_option
        and preset[0] != catalog.default_preset
    ):
        what = f"the encoder '{encoder}' has none of the parts that this preset sets"
        warnings.warn(CrvnnWarning(f"{preset[1].label}: {what}"), stacklevel=2)
    return problems


def _names(encoder: object) -> Iterator[object]:
    """The name of an encoder, and of those inside it."""
    table = encoder if isinstance(encoder, dict) else {}
    yield table.get("name")
    if (inner := table.get(SLOT_BY_NAME["encoder"].inner)) is not None:
        yield from _names(inner)


def _taken(catalog: Catalog, encoder: object) -> set[str] | None:
    """The slots whose components an encoder takes; nothing of an encoder that does not exist or cannot be imported."""
    offer = catalog.components["encoder"].get(encoder) if isinstance(encoder, str) else None
    if offer is None:
        return None
    try:
        return {slot for slot in ENCODER_PARTS if slot in offer.component.parameters()}
    except FAILURES:  # reported when its settings are read
        return None


def _takers(catalog: Catalog, slot: str) -> Iterator[str]:
    for name in catalog.components["encoder"]:
        if slot in (_taken(catalog, name) or ()):
            yield name


def _is_the_users(place: Origin) -> bool:
    """Whether a value was written by a user, neither by a preset nor into the spec of a run."""
    return place.is_option or place.directory is not None


def _rank(place: Origin, ranks: dict[str, int]) -> int:
    """The layer that a value comes from; all options of the command line are one layer, on top."""
    return sys.maxsize if place.is_option else ranks.get(place.label, 0)
