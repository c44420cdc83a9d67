"""The values that settings have: words, sets of ranks, and the limits of numbers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MOST = 10**18 - 1
"""The largest whole number taken: eighteen digits, so that it fits every JSON reader's 64 bits."""

Console = Literal["auto", "json", "text", "raw", "none"]
Method = Literal[
    "ranktable", "torchrun", "msrun", "mindspore", "mpirun", "torch-ddp", "tensorflow", "once"
]
Color = Literal["auto", "always", "never"]
LogLevel = Literal["debug", "info", "warning", "error"]
RankDir = Literal["device", "rank", "same"]

MOST_DEVICES = 16
"""Of one server: an Atlas A3 has them."""

MOST_PORTS = 65535


class RankSet(Struct, frozen=True):
    """Some of the ranks, as ranges; ``str()`` gives back a list that reads as the same set."""

    ranges: tuple[range, ...]

    def __contains__(self, rank: int) -> bool:
        return any(span.start <= rank < span.stop for span in self.ranges)

    def __str__(self) -> str:
        if self == ALL_RANKS:
            return "all"
        return ",".join(map(_span_text, self.ranges)) or "none"


ALL_RANKS = RankSet((range(MOST + 1),))
NO_RANKS = RankSet(())


def _span_text(span: range) -> str:
    return f"{span.start}" if span.stop == span.start + 1 else f"{span.start}-{span.stop - 1}"
