"""The slots: one record for each kind of component, read by hooks, specs, assembly, contracts, scaffold and CLI.

To add a slot, write its record here, its hook in ``hooks.py``, its field in ``spec/schema.py``; the interface that the
record names, a module in ``testing/contracts`` and a template of the scaffold, both of its name; and a page in
``docs/how-to``. The tests say what is missing.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

from attrs import Factory, field, frozen

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
    #: Whether an encoder may ask for a component of this slot by the slot's name.
    encoder_part: bool = False
    #: The parameter by which a component may ask for another one of its slot, which a spec names below its own place.
    inner: str = ""
    #: Whether a trained model can do with another component of this slot, under the same weights.
    exchangeable: bool = False
    plural: str = field(default=Factory(lambda self: f"{self.name}s", takes_self=True))

    @property
    def hook(self) -> str:
        """The hook that offers its components."""
        return f"crvnn_{self.plural}"

    @property
    def template(self) -> str:
        """The file among the scaffold's templates that a new component starts from."""
        return f"slots/{self.name}.py.tmpl"

    @property
    def for_training(self) -> bool:
        """Whether its components take part in training only, and are no part of the model or its task."""
        return self.path[0] == "training"

    def load_interface(self) -> type:
        """The class that its components are instances of."""
        found: type = pkgutil.resolve_name(self.interface)
        return found


def _encoder_part(name: str, interface: str, help: str, exchangeable: bool = False) -> Slot:
    return Slot(
        name=name,
        interface=f"crvnn_core.interfaces:{interface}",
        path=("model", name),
        help=help,
        filled_in=_WIDTH,
        encoder_part=True,
        exchangeable=exchangeable,
    )


_ENCODER_PARTS = (
    _encoder_part("retriever", "Retriever", "Finds each position's soft neighbours.", exchangeable=True),
    _encoder_part("scorer", "Scorer", "Scores each position for composition with its right neighbour."),
    _encoder_part("decision", "Decision", "Turns scores into composition probabilities.", exchangeable=True),
    _encoder_part("cell", "Cell", "Composes two children into their parent."),
    _encoder_part("halting", "Halting", "Decides which sequences take another step.", exchangeable=True),
)

_RECORDS = (
    *_ENCODER_PARTS,
    Slot(
        name="encoder",
        interface="crvnn_core.interfaces:Encoder",
        path=("model", "encoder"),
        help="Turns an embedded sequence into a vector.",
        filled_in=_WIDTH | {slot.name: f"the {slot.name} that the spec names" for slot in _ENCODER_PARTS},
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
#: The slots whose components an encoder may ask for.
ENCODER_PARTS = tuple(slot.name for slot in _RECORDS if slot.encoder_part)
#: The slots whose component can be exchanged in a trained model.
EXCHANGEABLE = tuple(slot.name for slot in _RECORDS if slot.exchangeable)


def slot_at(path: Path_) -> Slot | None:
    """The slot whose component, or list of components, a spec names at ``path``; ``None`` elsewhere."""
    if path in SLOT_BY_PATH:
        return SLOT_BY_PATH[path]
    around = slot_at(path[:-1]) if path else None
    return around if around is not None and path[-1] == around.inner else None


def find_slot(name: str) -> Slot:
    """The slot called ``name``; an error that suggests the nearest name if there is none."""
    if name not in SLOT_BY_NAME:
        raise unknown_slot(name, SLOTS)
    return SLOT_BY_NAME[name]


def unknown_slot(name: str, known: tuple[str, ...]) -> UnknownNameError:
    """The error for a name that is none of the ``known`` slots."""
    return UnknownNameError(f"no slot is called '{name}'.{nearest(name, known)}\nSlots: {', '.join(known)}.")
