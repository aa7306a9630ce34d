"""The operations of the built-in parts, a folder each: the definition in torch, the C++ header, and what attaches them.

A back end in Triton stands there too, as ``triton.py``. ``library.cpp`` makes one library of all headers.
"""

# They attach back ends to operations of the engine, which do not depend on the retriever: where everything exists, the
# engine uses ``adjacent`` with any of them.
from crvnn_parts.operations import intervals, transition  # noqa: F401
