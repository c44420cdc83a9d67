"""One output of ranks as it is read for steps: a look at its end, and the rest after that."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from ascend_supervisor.output.last_lines import KEPT_BYTES, Activity
from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading

LOOKS_A_SECOND = 20
REST = 100.0
"""A look is followed by a rest that is this much longer, so that the pumps keep their speed: they
wait for a look, and for what it takes from the caches."""
LOOK_BYTES = 32 * 1024
"""How much of the end of an output one look reads: a step is a growing number."""
MOST_REST_SECONDS = 0.5
"""So long at most, for each LOOK_BYTES that were read: a look may be slow on a busy machine."""


class ReadOutput(Struct):
    """One output, read up to ``seen`` bytes, last at ``looked_at``; ``rank`` None: of several."""

    rank: int | None
    activity: Activity
    reader: Reader
    seen: int = 0
    looked_at: float = -inf

    def read(self, at: float, most: int = KEPT_BYTES) -> list[Reading]:
        """What it has said since, the last of it ``at``; the last ``most`` bytes of much."""
        chunk = self.activity.since(self.seen, most)
        if self.activity.bytes - self.seen > len(chunk):
            self.reader.skip()
        self.seen = self.activity.bytes
        return self.reader.read(chunk, at)


def rest_after(spent: float, read: int) -> float:
    """Seconds to wait after a look that took ``spent`` seconds and read so many bytes."""
    most = MOST_REST_SECONDS * max(1.0, read / LOOK_BYTES)
    return min(max(1 / LOOKS_A_SECOND, REST * spent), most)
