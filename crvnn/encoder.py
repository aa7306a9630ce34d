"""The encoder of the paper as a torch module, with parts by name or as objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from crvnn.specs import installed
from crvnn_core.engine.checks import as_mask
from crvnn_core.engine.recursion import Recursion
from crvnn_core.errors import InputError, Origin, Path_, SpecError, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.component import Component
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME
from crvnn_core.interfaces import Cell, Decision, Encoding, Halting, Retriever, Scorer
from crvnn_core.spec import RunSpec
from crvnn_core.spec.assembly import build_part
from crvnn_core.spec.layers import read_tables
from crvnn_core.spec.reader import settings_of
from crvnn_core.spec.resolve import resolve

#: A part by its name, by a table of its name and settings, by the class or component that builds it, or itself.
Part = str | Mapping[str, Any] | Component | Callable[..., Any]


class CRvNN(Recursion):
    """Turns sequences of vectors into one vector each, composed along a latent tree.

    A part is given by its name (``"gru"``), with settings (``{"name": "gated", "hidden": 128}``; without a name those
    of the preset's part), as a module, or as the class or component that builds it. Parts that are not given are those
    of the preset. ``crvnn.components("cell")`` lists the names.

    :param width: of the vectors.
    :param retriever: finds the soft neighbours of each position.
    :param scorer: scores each position for composition with its right neighbour.
    :param decision: turns scores into composition probabilities.
    :param cell: composes two children into their parent.
    :param halting: decides which sequences take another step.
    :param preset: the variant to start from; ``paper`` by default.
    :param catalog: the components to choose from; by default those of all installed plug-ins.
    :param settings: of the recursion itself: ``halt_penalty``, ``max_steps``, ``checkpoint`` and so on.
    """

    def __init__(
        self,
        width: int = 64,
        *,
        retriever: Part | Retriever | None = None,
        scorer: Part | Scorer | None = None,
        decision: Part | Decision | None = None,
        cell: Part | Cell | None = None,
        halting: Part | Halting | None = None,
        preset: str | None = None,
        catalog: Catalog | None = None,
        **settings: Any,
    ) -> None:
        catalog = catalog or installed()
        given = (retriever, scorer, decision, cell, halting)
        parts = {slot: part for slot, part in zip(ENCODER_PARTS, given, strict=True) if part is not None}
        named = {slot: part for slot, part in parts.items() if isinstance(part, (str, Mapping))}
        spec = _resolved(catalog, {"width": width, **named, "encoder": {**settings, "name": "crvnn"}}, preset)
        built = {slot: _object(slot, part, width) for slot, part in parts.items() if slot not in named}
        for slot in ENCODER_PARTS:
            if slot not in built:
                built[slot] = build_part(catalog, slot, getattr(spec.model, slot), width=width)
        try:
            super().__init__(width, **built, **spec.model.encoder.params)
        except ValueError as error:
            raise SpecError([spec.model.encoder.problem("encoder 'crvnn'", str(error))]) from error

    def forward(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        *,
        trace: bool = False,
        hard: bool = False,
        levels: Tensor | None = None,
    ) -> Encoding:
        """Sentence vectors of ``inputs`` [B, n, width]; ``mask`` [B, n] is true or 1 at tokens, everywhere by default.

        :param trace: keep the probabilities of each step as well.
        :param hard: hard inference: binary decisions, composition along one tree.
        :param levels: trees to compose along, as ``crvnn_core.Encoder.forward`` takes them.
        """
        if mask is None:
            mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        return super().forward(inputs, as_mask(mask), trace=trace, hard=hard, levels=levels)


class _Arguments(Origin):
    """The arguments of ``CRvNN``, named as they were given."""

    def where(self, path: Path_) -> str:
        place = path[2:] if path[:2] == ("model", "encoder") else path[path[:1] == ("model",) :]
        return f"{self.label} [{'.'.join(place)}]" if place else self.label


def _resolved(catalog: Catalog, model: Mapping[str, Any], preset: str | None) -> RunSpec:
    """The arguments checked like the table ``[model]`` of a spec: names, settings and values, all problems at once."""
    origin = _Arguments("crvnn.CRvNN")
    settings = settings_of(catalog.components["encoder"]["crvnn"])
    known = ["width", *ENCODER_PARTS, "preset", "catalog", *settings]
    problems = [
        origin.problem(
            (key,), f"there is no argument '{key}'.{nearest(key, known)}", f"There are {', '.join(known)}."
        )
        for key in model["encoder"]
        if key != "name" and key not in settings
    ]
    encoder = {key: value for key, value in model["encoder"].items() if key == "name" or key in settings}
    data = {"model": {**model, "encoder": encoder}} | ({"preset": preset} if preset is not None else {})
    return resolve(catalog, [(read_tables(data, origin), {}, origin)], problems=problems)


def _object(slot: str, part: Any, width: int) -> Any:
    """A part that was given as an object: a module, or what builds one."""
    kind = SLOT_BY_NAME[slot].load_interface()
    if isinstance(part, Component):
        part = part.make({"width": width})
    elif isinstance(part, type):
        part = Component(slot, part).make({"width": width})
    if not isinstance(part, kind):
        raise InputError(
            f"crvnn.CRvNN [{slot}]: a {slot} is given by its name, by a dictionary of its name and settings, as a "
            f"{kind.__name__}, or as a class or component that builds one; got {part!r}"
        )
    own = getattr(part, "width", width) if slot in ("cell", "scorer") else width
    if own != width:
        raise InputError(f"crvnn.CRvNN [{slot}]: its width is {own}, and the encoder's is {width}")
    return part
