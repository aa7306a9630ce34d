"""Eq. 5 in linear time (docs/explanation/linear-time.md)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from crvnn_core import Neighbourhood, Retriever
from crvnn_core.annotations import CountOrZero, check_ranges
from crvnn_parts.operations.intervals import intervals
from crvnn_parts.retrievers.dense import AdhocDense


class Adhoc(Retriever):
    """Weights the nearest positions by existence until the weights sum to 1 (Eq. 5), in linear time.

    :param accumulate: the precision of prefix sums: ``float64``, or ``float32-pairs`` for devices without float64;
        ``auto`` chooses by the device.
    :param small: up to this many positions dense matrices are used, which are faster there (unless native kernels
        are in use).
    """

    live_settings = ()  # both change the computation, not its result

    @check_ranges
    def __init__(
        self, accumulate: Literal["auto", "float64", "float32-pairs"] = "auto", small: CountOrZero = 448
    ) -> None:
        super().__init__()
        self.accumulate, self.small = accumulate, small

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        return intervals(exists, mask, self.accumulate, self.small)

    def traceable(self) -> Retriever:
        return AdhocDense()
