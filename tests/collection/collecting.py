"""A collector whose archive is read when it is done."""

from __future__ import annotations

from typing import Any

from ascend_supervisor.collection.archive import Archive, Collector
from ascend_supervisor.collection.disks import Disks
from tests.collection.reading import members


class Collecting:
    """``collector`` takes things; ``end`` gives what it has taken."""

    def __init__(self, room: int = 1 << 20, disks: Disks | None = None) -> None:
        self._out = bytearray()
        self._archive = Archive(self._out.extend, "job")
        self.collector = Collector(self._archive, disks or Disks(seconds=5), room)

    def end(self) -> dict[str, bytes]:
        self._archive.close()
        found = members(bytes(self._out))
        assert {one.name: one.bytes for one in self.collector.taken} == {
            name: len(content) for name, content in found.items()
        }
        return found

    @property
    def left_out(self) -> dict[str, Any]:
        return {one.source: one.why for one in self.collector.left_out}
