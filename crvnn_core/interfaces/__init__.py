"""The interfaces of the slots: what a component of each must be."""

from crvnn_core.interfaces.encoder import Encoder as Encoder
from crvnn_core.interfaces.encoder import Encoding as Encoding
from crvnn_core.interfaces.parts import Cell as Cell
from crvnn_core.interfaces.parts import Decision as Decision
from crvnn_core.interfaces.parts import Halting as Halting
from crvnn_core.interfaces.parts import Neighbourhood as Neighbourhood
from crvnn_core.interfaces.parts import Part as Part
from crvnn_core.interfaces.parts import Retriever as Retriever
from crvnn_core.interfaces.parts import Scheduled as Scheduled
from crvnn_core.interfaces.parts import Scorer as Scorer
from crvnn_core.interfaces.parts import StatefulHalting as StatefulHalting
from crvnn_core.interfaces.parts import set_progress as set_progress
from crvnn_core.interfaces.training import Embedding as Embedding
from crvnn_core.interfaces.training import Example as Example
from crvnn_core.interfaces.training import InputRow as InputRow
from crvnn_core.interfaces.training import Objective as Objective
from crvnn_core.interfaces.training import Observer as Observer
from crvnn_core.interfaces.training import Task as Task
