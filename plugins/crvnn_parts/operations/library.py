"""The library that ``library.cpp`` makes of the headers of all operations, for float32 on a CPU."""

from crvnn_core.kernels import Library

PARTS = Library("crvnn_parts", "crvnn_parts.operations")
