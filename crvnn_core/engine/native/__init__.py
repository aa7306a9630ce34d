"""The engine's operations in C++, for float32 on a CPU."""

from crvnn_core.kernels import Library

ENGINE = Library("crvnn_engine", __name__)
