"""Values that were used lately, up to a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

EACH_BYTES = 256
"""Counted for each value beside its own bytes."""


class Recent(Generic[K, V]):
    """When there are more than ``most`` bytes, those go first that were not used for longest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.bytes = 0

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """A value that is too large alone is not kept."""
        size += EACH_BYTES
        if key in self._kept or size > self._most:
            return
        self._kept[key] = value, size
        self.bytes += size
        while self.bytes > self._most:
            _, (_, gone) = self._kept.popitem(last=False)
            self.bytes -= gone
