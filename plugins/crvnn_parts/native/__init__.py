"""The built-in parts' operations in C++, for float32 on a CPU."""

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations import transition
from crvnn_core.kernels import Library

PARTS = Library("crvnn_parts", __name__)

# Back ends for operations of the engine. They are attached here because they do not depend on the retriever: where
# everything exists, the engine uses ``adjacent`` with any of them.
adjacent.attach(PARTS.backend("adjacent"))
transition.attach(PARTS.backend("transition"))
