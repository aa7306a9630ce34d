"""Which spans of a sequence are whole sequences elsewhere: the substitution test of constituents, for a batch at once.

Spans are compared by hashes modulo 2^64. With F_j = sum of v(token_k) P^k over k < j, that of the tokens i, ..., j - 1
is (F_j - F_i) P^-i: one cumulative sum for all spans of a sequence. Whole numbers of 64 bits wrap around, as is wanted.
Equal hashes are taken for equal spans without comparing their tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from crvnn_core import Example, Tokens
from crvnn_core.model.batch import Vocabulary

_BASE = 0x5851F42D4C957F2D  # P: odd, so that it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 2**64)
_ROWS = 4096  # sequences that are hashed at a time


class WholeSequences:
    """The sequences of some examples, to be looked for within others."""

    def __init__(self, examples: Iterable[Example], vocabulary: Vocabulary) -> None:
        sequences = {sequence for example in examples for sequence in example.sequences if len(sequence) > 1}
        by_length: dict[int, list[Sequence[str]]] = {}
        for sequence in sequences:
            if all(token in vocabulary for token in sequence):  # unknown tokens are not all the same
                by_length.setdefault(len(sequence), []).append(sequence)
        #: The hashes of all sequences of each length, from short to long.
        self._hashes = {
            length: torch.cat(
                [
                    _sums(vocabulary.encode(found[begin : begin + _ROWS]).ids)[:, -1]
                    for begin in range(0, len(found), _ROWS)
                ]
            )
            for length, found in sorted(by_length.items())
        }
        self._device = torch.device("cpu")  # where the hashes are

    def cohesion(self, tokens: Tokens) -> Tensor:
        """How many spans that are whole sequences hold each token and its right neighbour together [B, n].

        The time grows with the number of different lengths of sequences.
        """
        if self._device != tokens.ids.device:
            self._device = tokens.ids.device
            self._hashes = {length: hashes.to(self._device) for length, hashes in self._hashes.items()}
        sums = _sums(tokens.ids)
        n = tokens.ids.shape[1]
        inverse = _powers(_INVERSE, n, sums.device)
        change = torch.zeros_like(sums)  # 1 where a span begins, -1 at its last token; added up below
        for length, hashes in self._hashes.items():
            if length > n:
                break
            spans = (sums[:, length:] - sums[:, :-length]) * inverse[: n - length + 1]
            found = torch.isin(spans, hashes).long()  # [B, n - length + 1], by their beginnings
            change[:, : n - length + 1] += found
            change[:, length - 1 : n] -= found
        return change.cumsum(1)[:, :n]


def _sums(ids: Tensor) -> Tensor:
    """F_0, ..., F_n of each sequence [B, n + 1]."""
    values = (ids + 1) * 0x2545F4914F6CDD1D  # far apart from one another, modulo 2^64
    values = (values ^ (values >> 29)) * 0x369DEA0F31A53F85
    sums = torch.zeros(len(ids), ids.shape[1] + 1, dtype=torch.long, device=ids.device)
    torch.cumsum(values * _powers(_BASE, ids.shape[1], ids.device), 1, out=sums[:, 1:])
    return sums


def _powers(base: int, count: int, device: torch.device) -> Tensor:
    """base^0, ..., base^(count - 1) modulo 2^64."""
    factors = torch.full((count,), base if base < 2**63 else base - 2**64, dtype=torch.long, device=device)
    factors[:1] = 1
    return factors.cumprod(0)
