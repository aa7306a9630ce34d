"""The slots: one record for each kind of component, read by hooks, specs, assembly, contracts, scaffold and CLI.

To add a slot, write its record here, its field in ``spec/schema.py``, and the interface that the record names; a module
in ``testing/contracts`` and a template of the scaffold, both of its name; and a page in ``docs/how-to``. The tests say
what is missing.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

from attrs import field, frozen

from crvnn_core.errors import Path_, UnknownNameError, nearest

_WIDTH = {"width": "the model's width (model.width)"}


@frozen(kw_only=True)
class Slot:
    """One kind of component: its interface, its place in a spec, its contract, and its texts.

    What needs torch is named as ``"module:Name"`` and imported on request, so that the command line starts quickly.
    """

    name: str
    #: The class that its components are instances of.
    interface: str
    #: Where a spec names its component, or, if ``many``, the list of its components.
    path: Path_
    #: One line about its components, for help texts.
    help: str
    #: Whether a spec names a list of components.
    many: bool = False
    #: Arguments that ``assemble`` fills in by name, and what it passes, so that no spec has to repeat them.
    filled_in: Mapping[str, str] = field(factory=dict)
    #: The parameter by which a component may ask for another one of its slot, which a spec names below its own place.
    inner: str = ""

    @property
    def plural(self) -> str:
        """What several of its components are called."""
        return f"{self.name}s"

    @property
    def hook(self) -> str:
        """The hook that offers its components."""
        return f"crvnn_{self.plural}"

    @property
    def for_training(self) -> bool:
        """Whether its components take part in training only, and are no part of the model or its task."""
        return self.path[0] == "training"

    def load_interface(self) -> type:
        """The class that its components are instances of."""
        found: type = pkgutil.resolve_name(self.interface)
        return found


#: The slots whose components an encoder may ask for, by the slot's name.
ENCODER_PARTS = ("retriever", "scorer", "decision", "cell", "halting")
#: The slots whose component can be exchanged in a trained model, under the same weights.
EXCHANGEABLE = ("retriever", "decision", "halting")

_PART_HELP = {
    "retriever": "Finds each position's soft neighbours.",
    "scorer": "Scores each position for composition with its right neighbour.",
    "decision": "Turns scores into composition probabilities.",
    "cell": "Composes two children into their parent.",
    "halting": "Decides which sequences take another step.",
}
_RECORDS = (
    *(
        Slot(
            name=name,
            interface=f"crvnn_core.interfaces:{name.capitalize()}",
            path=("model", name),
            help=_PART_HELP[name],
            filled_in=_WIDTH,
        )
        for name in ENCODER_PARTS
    ),
    Slot(
        name="encoder",
        interface="crvnn_core.interfaces:Encoder",
        path=("model", "encoder"),
        help="Turns an embedded sequence into a vector.",
        filled_in=_WIDTH | {name: f"the {name} that the spec names" for name in ENCODER_PARTS},
        inner="inner",
    ),
    Slot(
        name="embedding",
        interface="crvnn_core.interfaces:Embedding",
        path=("model", "embedding"),
        help="Initialises the token vectors, which are projected to the model's width.",
    ),
    Slot(
        name="task",
        interface="crvnn_core.interfaces:Task",
        path=("task",),
        help="Provides the examples and their classes.",
    ),
    Slot(
        name="objective",
        interface="crvnn_core.interfaces:Objective",
        path=("training", "objective"),
        help="Computes the loss that training minimises.",
        filled_in={"task": "the task that the spec names", "seed": "the seed of the run"},
    ),
    Slot(
        name="optimizer",
        interface="torch.optim:Optimizer",
        path=("training", "optimizer"),
        help="Updates the weights.",
        filled_in={"params": "the model's parameters"},
    ),
    Slot(
        name="observer",
        interface="crvnn_core.interfaces:Observer",
        path=("training", "observers"),
        help="Is told of every training step and evaluation.",
        many=True,
    ),
)

#: Every slot by its name, in the order in which a model is built.
SLOT_BY_NAME: Mapping[str, Slot] = {slot.name: slot for slot in _RECORDS}
#: Every slot by its place in a spec.
SLOT_BY_PATH: Mapping[Path_, Slot] = {slot.path: slot for slot in _RECORDS}

#: The names of all slots.
SLOTS = tuple(SLOT_BY_NAME)


def slot_at(path: Path_) -> Slot | None:
    """The slot whose component, or list of components, a spec names at ``path``; ``None`` elsewhere."""
    if path in SLOT_BY_PATH:
        return SLOT_BY_PATH[path]
    around = slot_at(path[:-1]) if path else None
    return around if around is not None and path[-1] == around.inner else None


def find_slot(name: str) -> Slot:
    """The slot called ``name``; an error that suggests the nearest name if there is none."""
    if name not in SLOT_BY_NAME:
        raise UnknownNameError(
            f"no slot is called '{name}'.{nearest(name, SLOTS)}\nSlots: {', '.join(SLOTS)}."
        )
    return SLOT_BY_NAME[name]
