"""The interfaces of the slots: what a component of each must be."""

from crvnn_core.interfaces.encoder import Encoder, Encoding
from crvnn_core.interfaces.parts import (
    Cell,
    Decision,
    Halting,
    Neighbourhood,
    Part,
    Retriever,
    Scheduled,
    Scorer,
    StatefulHalting,
    set_progress,
)
from crvnn_core.interfaces.training import Embedding, Example, InputRow, Objective, Observer, Task

__all__ = [
    "Cell",
    "Decision",
    "Embedding",
    "Encoder",
    "Encoding",
    "Example",
    "Halting",
    "InputRow",
    "Neighbourhood",
    "Objective",
    "Observer",
    "Part",
    "Retriever",
    "Scheduled",
    "Scorer",
    "StatefulHalting",
    "Task",
    "set_progress",
]
