"""A hang, as its event and as the fault that ends the generation; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ascend_supervisor.errors import HANG
from ascend_supervisor.events.hangs import HangNoticed, HangSource
from ascend_supervisor.events.words import counted
from ascend_supervisor.outcome import Fault

MOST_NAMED = 8
"""How many ranks a sentence names."""

OPTIONS: Mapping[HangSource, str] = {
    "silence": "--hang-timeout",
    "rank_silence": "--rank-hang-timeout",
    "watchdog": "--watchdog",
    "startup": "--startup-timeout",
}


class SilentRank(Struct, frozen=True):
    """A rank that has given no sign of life for ``seconds``, and the last line that it wrote."""

    rank: int
    seconds: float
    last_line: str = ""


class Hang(Struct, frozen=True):
    """``ranks`` have been silent for longer than ``limit`` seconds, by the option of ``source``."""

    source: HangSource
    limit: float
    ranks: tuple[SilentRank, ...]

    def event(self, generation: int) -> HangNoticed:
        ahead = self._by_silence
        return HangNoticed(
            generation=generation,
            source=self.source,
            limit_seconds=self.limit,
            ranks=tuple(rank.rank for rank in ahead),
            silent_seconds=round(ahead[0].seconds, 3),
            last_lines=tuple(rank.last_line for rank in ahead),
            reason=self.reason,
        )

    @property
    def fault(self) -> Fault:
        """A charged restart after a last look; no drain, because a hung rank saves nothing."""
        return Fault(self.reason, HANG, last_look=True)

    @property
    def reason(self) -> str:
        ahead = self._by_silence
        option = OPTIONS[self.source]
        seconds = f"{self.limit:g} s"
        ranks = _ranks([rank.rank for rank in ahead])
        has = "has" if len(ahead) == 1 else "have"
        match self.source:
            case "silence":
                first = f"; rank {ahead[0].rank} stopped first" if len(ahead) > 1 else ""
                return f"no rank has written anything for {seconds} ({option}){first}"
            case "rank_silence":
                return f"{ranks} {has} written nothing for {seconds} ({option}), others have"
            case "watchdog":
                return f"{ranks} {has} not sent WATCHDOG=1 for {seconds} ({option})"
            case "startup":
                start = "its start" if len(ahead) == 1 else "the start"
                return f"{ranks} {has} given no sign of life within {seconds} of {start} ({option})"

    @property
    def _by_silence(self) -> Sequence[SilentRank]:
        return sorted(self.ranks, key=lambda rank: (-rank.seconds, rank.rank))


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > MOST_NAMED:
        return f"{counted(len(ranks), 'rank')}, rank {ranks[0]} first,"
    return f"ranks {', '.join(map(str, ranks))}"
