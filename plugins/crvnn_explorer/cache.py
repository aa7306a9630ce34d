"""A bounded cache that several threads share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field

K = TypeVar("K")
V = TypeVar("V")


@define(eq=False)
class Cache(Generic[K, V]):
    """The values used last: at most ``most`` of them, and together of at most ``room``.

    :param size: of a value.
    """

    most: int
    room: float = float("inf")
    size: Callable[[V], int] = field(default=lambda value: 0)
    _values: OrderedDict[K, V] = field(factory=OrderedDict, init=False)
    _used: int = field(default=0, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of a key, if it is still there."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def keep(self, key: K, value: V) -> V:
        """Keep a value, and evict those not used for longest. A value larger than all room is not kept."""
        size = self.size(value)
        with self._lock:
            if key not in self._values and size <= self.room:
                self._values[key] = value
                self._used += size
                while len(self._values) > self.most or self._used > self.room:
                    _, evicted = self._values.popitem(last=False)
                    self._used -= self.size(evicted)
        return value
