"""The operations of the engine, a folder each: the definition in torch, the C++ header, and what attaches them.

A back end in Triton stands there too, as ``triton.py``. ``library.cpp`` makes one library of all headers.

Shapes: B sequences, N positions (START, tokens, END, padding), s numbers a node. A *row* is a position counted through
the whole batch: position i of sequence b is row b N + i.
"""

from crvnn_core.kernels import Library

#: The engine's operations in C++, for float32 on a CPU.
ENGINE = Library("crvnn_engine", __name__)
