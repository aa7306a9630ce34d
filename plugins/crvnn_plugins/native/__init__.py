"""The built-in parts' operations in C++, for float32 on a CPU."""

from crvnn_core.kernels import Library

PARTS = Library("crvnn_parts", __name__)
