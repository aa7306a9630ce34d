"""Labels of a user's own texts, the order of classes, and texts held out for development."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterable

from crvnn_core import InputError

#: The tokens of the one or two texts of an example.
Sequences = tuple[tuple[str, ...], ...]
#: So many numbers are classes even if each has one row: the digits of a few rows to try with.
_MOST_NUMBERS = 10


def sorted_labels(labels: Collection[str]) -> tuple[str, ...]:
    """The labels, sorted as numbers if all of them are, otherwise as text."""
    by_size = all(map(is_number, labels))
    return tuple(sorted(labels, key=lambda label: (float(label) if by_size else 0, label)))


def refuse_numbers(where: str, different: int, rows: int, remedy: str) -> None:
    """An error if labels are numbers of which there are more than ten, and more than one for every two rows.

    :param where: they stand, and a verb.
    :param remedy: how to train a class for each of them all the same.
    """
    if different > _MOST_NUMBERS and 2 * different > rows:
        raise InputError(
            f"{where} {different:,} different numbers in {rows:,} rows, and a class for each would be trained; numbers "
            f"themselves are not learned (regression)\n  Round them or sort them into a few bins, or train a class for "
            f"each with {remedy}"
        )


def held_out(texts: Iterable[Sequences], share: float) -> frozenset[Sequences]:
    """A share of the distinct texts, at least one and never all of them; nothing of fewer than two.

    Those with the smallest hashes are taken, so that new texts move few of the others into the share or out of it.
    """
    ranks = {sequences: zlib.crc32("\t".join(map(" ".join, sequences)).encode()) for sequences in texts}
    if len(ranks) < 2:
        return frozenset()
    order = sorted(ranks, key=lambda sequences: (ranks[sequences], sequences))
    count = round(share * len(order))
    return frozenset(order[: min(max(count, 1), len(order) - 1)])


def is_number(label: str) -> bool:
    """Whether a label is the text of a number."""
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False
