"""One door for accelerated code: operations, the back ends attached to them, and the dispatch between the two.

An operation is a function whose body in torch defines it. Back ends are attached to it: operators of a compiled library
(C++ on a CPU), or anything that takes the same arguments and returns ``NotImplemented`` where it does not serve. Only
this package asks whether a back end serves; parts and the engine call operations.
"""

from crvnn_core.kernels.dispatch import Operation, allowed, plain_parameters, serves, transformed, without
from crvnn_core.kernels.library import Library, fixed_weights, in_use

__all__ = [
    "Library",
    "Operation",
    "allowed",
    "fixed_weights",
    "in_use",
    "plain_parameters",
    "serves",
    "transformed",
    "without",
]
